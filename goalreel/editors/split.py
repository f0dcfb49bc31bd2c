"""Several editors as one: by what an edit starts from, or by which of them it is meant for."""

from collections.abc import Iterable, Sequence

from goalreel.errors import BackendError
from goalreel.http.probe import probe
from goalreel.image import Image
from goalreel.middleware import ask_in_groups
from goalreel.types import Edit, Editor, Failure


class SplitEditor:
    """Sends edits without a source to `draw`, and the others to `edit`."""

    def __init__(self, draw: Editor, edit: Editor) -> None:
        self._models = {True: draw, False: edit}

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i belongs to edit i, from either model."""
        return ask_in_groups(edits, lambda e: e.image is None, lambda text, e: self._models[text].edit(e))

    def probe(self) -> str | None:
        """Ask both editors' servers whether they are there, as `goalreel.http.probe.ServerModel` says."""
        return _join(probe(editor) for editor in self._models.values())


class FallbackEditor:
    """Sends each edit to the editor whose number it carries (`Edit.editor`).

    The loop asks the next one where the Critic has rejected all that the one before it drew of a step
    (`goalreel.loop.render_step`).
    """

    def __init__(self, *editors: Editor) -> None:
        self._editors = editors

    def edit(self, edits: Sequence[Edit]) -> list[Image | Failure]:
        """Answer i belongs to edit i."""
        return ask_in_groups(edits, lambda e: e.editor, lambda number, e: self._editors[number].edit(e))

    def probe(self) -> str | None:
        """Ask the editors' servers whether they are there; one that is there is enough.

        The remark tells of the others. Raises as `goalreel.http.probe.ServerModel` says.
        """
        remarks: list[str | None] = []
        absent: list[BackendError] = []
        for editor in self._editors:
            try:
                remarks.append(probe(editor))
            except BackendError as e:
                absent.append(e)
        if not remarks:
            raise absent[0]
        return _join([*remarks, *map(str, absent)])


def _join(remarks: Iterable[str | None]) -> str | None:
    texts = [remark for remark in remarks if remark is not None]
    return "; ".join(filter(None, texts)) if texts else None
