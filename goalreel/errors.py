"""The errors that a person can mend. Each says in one line what is wrong and what to do about it.

A command shows these, and OSError, as that one line; anything else is a bug and shows itself as a traceback.
"""


class UserError(Exception):
    """What the person who runs goalreel can mend."""


class InputError(UserError, ValueError):
    """Something was given that cannot be used: a setting, a model's name, a file, an instruction."""


class DatasetError(UserError):
    """A dataset cannot be read or written as asked: which file, which episode, and why."""


class BackendError(UserError):
    """A model could not be called at all: its server died, its memory ran out.

    Back ends raise it for a whole batch; a driver turns it into one Failure an item.
    """
