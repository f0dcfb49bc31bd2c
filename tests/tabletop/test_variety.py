"""Other shades, light and cameras: the same episode, read back as well."""

import numpy as np
import pytest
from support.corpora import read_rows

from goalreel.errors import InputError
from goalreel.tabletop.grammar import sample_episode
from goalreel.tabletop.readback import read_back, shown
from goalreel.tabletop.splits import seeds
from goalreel_lab.corpora.corpus import CorpusConfig, make_corpus
from goalreel_lab.corpora.rows import EDITS
from goalreel_lab.variety import PLAIN, View, seen, view_of

SOME = seeds("validation", 12, first=700)


def test_a_share_of_the_episodes_looks_other_and_a_larger_share_contains_a_smaller():
    views = {share: [view_of(seed, share) for seed in range(400)] for share in (0.0, 0.3, 0.6, 1.0)}
    others = {share: sum(v != PLAIN for v in some) for share, some in views.items()}
    assert others[0.0] == 0
    assert others[1.0] == 400
    assert 80 < others[0.3] < 160
    assert all(few in (PLAIN, more) for few, more in zip(views[0.3], views[0.6], strict=True))
    assert {v.camera for v in views[1.0]} == {"front", "corner"}
    assert "unseen" not in {v.look for v in views[1.0]}


@pytest.mark.lab
@pytest.mark.parametrize("view", [View("varied", "front"), View("varied", "corner"), View("unseen", "left")])
def test_only_how_it_looks_changes(view: View):
    plain = sample_episode(SOME[0])
    other = seen(plain, view)
    assert (other.goals, other.instruction) == (plain.goals, plain.instruction)
    assert other.scene.camera == view.camera
    assert other.scene.layout().keys() == plain.scene.layout().keys()
    assert all(a.rgb != b.rgb for a, b in zip(other.scene.blocks, plain.scene.blocks, strict=True))


@pytest.mark.lab
def test_what_is_shown_can_still_be_read_and_a_corpus_says_how_each_row_looks(tmp_path):
    make_corpus(CorpusConfig("edits", "validation", 12, first=700, variety=1.0), tmp_path, text=False)
    found, views = [], {}
    for row in read_rows(tmp_path, EDITS):
        views[row.origin.seed] = row.origin.view
        scene = seen(sample_episode(row.origin.seed), row.origin.view).scene
        found.append(shown(read_back(row.target.pixels, scene), row.goal))
        assert not np.array_equal(row.source.pixels, row.target.pixels)
    assert np.mean(found) > 0.9
    assert views == {seed: view_of(seed, 1.0) for seed in views}
    assert PLAIN not in views.values()


def test_a_look_that_there_is_not_is_refused():
    with pytest.raises(InputError, match="choose plain"):
        seen(sample_episode(0), View("odd"))
    with pytest.raises(InputError, match="variety"):
        CorpusConfig("edits", "train", 1, variety=1.5)
