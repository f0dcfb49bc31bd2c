"""The one exception for a dataset that cannot be read or written as asked."""


class DatasetError(Exception):
    """One line: which file, which episode, what is wrong and what to do about it."""
