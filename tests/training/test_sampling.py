"""Rows of one length are shown together, all of them once an epoch, in an order of its own each."""

import random
from itertools import pairwise

import pytest

from goalreel.training.rows import POOL, LengthSampler, length

LENGTHS = [(1, random.Random(i).choice((100, 200, 300, 400))) for i in range(1000)]


def steps(sampler: LengthSampler, size: int) -> list[list[int]]:
    indices = list(sampler)
    return [indices[i : i + size] for i in range(0, len(indices), size)]


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 16 * POOL, 16 * POOL + 1, 1000])
def test_every_row_is_shown_once_and_what_is_left_over_last(rows):
    order = steps(LengthSampler(LENGTHS[:rows], 16, 0), 16)
    assert sorted(i for step in order for i in step) == list(range(rows))
    assert all(len(step) == 16 for step in order[:-1])


def test_rows_of_a_step_are_alike_and_its_neighbours_are_not():
    order = steps(LengthSampler(LENGTHS, 16, 0), 16)
    alike = sum(len({LENGTHS[i] for i in step}) <= 2 for step in order)
    assert alike > 0.9 * len(order)
    firsts = [LENGTHS[step[0]] for step in order]
    assert sum(a != b for a, b in pairwise(firsts)) > 0.5 * len(order)


def test_the_order_follows_from_seed_and_epoch():
    first, second = LengthSampler(LENGTHS, 16, 0), LengthSampler(LENGTHS, 16, 0)
    assert list(first) == list(first) == list(second)
    second.set_epoch(1)
    assert list(first) != list(second)
    assert list(first) != list(LengthSampler(LENGTHS, 16, 1))


def test_pictures_count_before_words():
    row = {"messages": [{"role": "user", "content": "word"}, {"role": "assistant", "content": "yes"}]}
    assert length(row | {"images": ["a.png", "b.png"]}) == (2, 7) > length(row | {"images": ["a.png"]})
