"""Parts of a run for as many processes, on one machine or on several that share a file system.

OUT/.cache/huggingface/goalreel/
    lock                 held by all shards together, by any other run alone
    shards/2-of-3        held by the process that does shard 2 of 3
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from goalreel.errors import InputError
from goalreel.files import file_lock


@dataclass(frozen=True)
class Shard:
    """Part `number` of `count`, counted from 1: neighbouring episodes, so that each opens few files."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "2/3".

        Raises:
            InputError: something else is written there.
        """
        match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text.strip())
        if not match or not 1 <= int(match[1]) <= int(match[2]):
            raise InputError(f"--shard takes a number from 1 on and how many there are, as 2/3, not {text!r}")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def of(self, episodes: Sequence[int]) -> list[int]:
        """Its part of the episodes; all parts together are all of them, none twice."""
        first, last = (len(episodes) * number // self.count for number in (self.number - 1, self.number))
        return list(episodes[first:last])

    @contextmanager
    def lock(self, local: Path, out: Path) -> Iterator[None]:
        """Hold this shard of `out`, whose lock is in `local`.

        Raises:
            DatasetError: it is done elsewhere now, and so is a run without shards or with another number.
        """
        running = "is running: wait for its end"
        names = local / "shards"
        with (
            file_lock(
                local / "lock", f"{out}: a run without --shard, or goalreel build, {running}", shared=True
            ),
            file_lock(names / f"{self.number}-of-{self.count}", f"{out}: shard {self} {running}"),
        ):
            for other in names.glob("*-of-*"):
                count = other.name.rpartition("-")[2]
                if count != str(self.count):
                    with file_lock(
                        other, f"{out}: a shard of {count}, not {self.count}, {running}", shared=True
                    ):
                        pass
            yield
