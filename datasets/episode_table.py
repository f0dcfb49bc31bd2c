"""What is known of each episode of a dataset, as rows of numbers.

As Python objects, the facts of 100,000 episodes would take several hundred megabytes.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class EpisodeTable[Item](Mapping[int, Item]):
    """Episode -> item, made from the episode's row when it is asked for; in the order of the rows."""

    def __init__(
        self, episodes: NDArray[np.integer], rows: NDArray[Any], make: Callable[[Any], Item]
    ) -> None:
        self.episodes = episodes
        """Of the rows, (rows,)."""
        self.rows = rows
        self._make = make
        self._order = np.argsort(self.episodes, kind="stable")

    def at(self, episode: int) -> int:
        """The number of an episode's row.

        Raises:
            KeyError: it has none.
        """
        at = int(np.searchsorted(self.episodes, episode, sorter=self._order))
        if at == len(self) or self.episodes[self._order[at]] != episode:
            raise KeyError(episode)
        return int(self._order[at])

    def __getitem__(self, episode: int) -> Item:
        return self._make(self.rows[self.at(episode)])

    def __contains__(self, episode: object) -> bool:
        try:
            self.at(episode)  # pyrefly: ignore
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[int]:
        return iter(self.episodes.tolist())

    def __len__(self) -> int:
        return len(self.episodes)
