"""Progress bars of libraries: silent while a folder is loaded, and back afterwards."""

import pytest

from goalreel.progress import without_loading_bars


class Library:
    """Stands for transformers.utils.logging."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled

    def is_progress_bar_enabled(self) -> bool:
        return self.enabled

    def disable_progress_bar(self) -> None:
        self.enabled = False

    def enable_progress_bar(self) -> None:
        self.enabled = True


def test_bars_are_silent_for_a_folder_and_back_afterwards(tmp_path):
    library, silent = Library(), Library(enabled=False)
    with pytest.raises(KeyError), without_loading_bars(str(tmp_path), library, silent):
        assert not library.enabled
        raise KeyError
    assert library.enabled
    assert not silent.enabled, "it was before"


def test_bars_of_a_download_stay(tmp_path):
    library = Library()
    with without_loading_bars("owner/name", library):
        assert library.enabled
