"""The errors that a person can mend. Each says in one line what is wrong and what to do about it.

Commands print these, and OSError, as that one line. Anything else is a bug, and is shown as a traceback.
"""


class UserError(Exception):
    """An error that the person who runs goalreel can mend; its first line says how."""


class InputError(UserError, ValueError):
    """An input cannot be used: a setting, the name of a model, a file, an instruction."""


class DatasetError(UserError):
    """A dataset cannot be read or written. The message names the file or episode, and the reason."""


class BackendError(UserError):
    """A model could not be called at all: its server died, or its memory ran out.

    Models raise it for a whole batch. A driver turns it into one `Failure` for each request.
    """


def first_line(error: BaseException) -> str:
    """Return an error's message in one line; the name of its type where it says nothing.

    Of the system's errors that is the path and the reason, without a number.
    """
    if isinstance(error, OSError) and error.strerror and type(error.strerror) is str:
        path = "" if error.filename is None else f"{error.filename}: "
        return f"{path}{error.strerror}".replace("\n", " ")
    return (str(error).strip() or type(error).__name__).splitlines()[0]
