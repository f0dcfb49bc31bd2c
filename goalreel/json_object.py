"""JSON objects without a key that stands twice: of the two values, a reader would take either."""

from collections import Counter
from collections.abc import Sequence
from typing import Any


class RepeatedKeyError(Exception):
    """An object has a key twice."""


def make_dict(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Make a dictionary of pairs, as `json.loads` takes it for `object_pairs_hook`.

    >>> make_dict([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}

    Raises:
        RepeatedKeyError: two pairs have the same key, which is the message.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        raise RepeatedKeyError(Counter(key for key, _ in pairs).most_common(1)[0][0])
    return values
