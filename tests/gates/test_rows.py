from typing import NamedTuple

import numpy as np
import pytest

from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.gates.rows import Snapshot, filled


class Few(NamedTuple):
    rows: np.ndarray


class Squares:
    """A model of one value for each row, which counts what it is asked."""

    def __init__(self, most=99, plus=0):
        self.most, self.plus, self.asked = most, plus, []

    def __call__(self, block):
        if len(self.asked) == self.most:
            raise KeyboardInterrupt
        self.asked.append(block.rows.tolist())
        return block.rows[None] ** 2.0 + self.plus


BLOCKS = [Few(rows) for rows in np.split(np.random.default_rng(0).permutation(12), 4)]
TRUE = np.arange(12)[None] ** 2.0


def answers(model, folder, *, resumes, first=b""):
    execution = Execution(cache=ArmCache(folder), resumes=resumes)
    snapshot = Snapshot(execution, np.arange(3.0), lambda: {"seed": 0})
    snapshot.answered([first])
    seen = []
    found = filled(
        TRUE.shape,
        BLOCKS,
        model,
        progress=lambda done, total: seen.append((done, total)),
        snapshot=snapshot,
    )
    assert seen[-1] == (12, 12)
    return found


def test_all_rows_are_filled_block_by_block():
    seen = []
    found = filled(
        TRUE.shape, BLOCKS, Squares(), progress=lambda done, total: seen.append((done, total))
    )
    assert np.array_equal(found, TRUE)
    assert seen == [(done, 12) for done in (0, 3, 6, 9, 12)]


def test_blocks_that_come_in_any_order_fill_their_own_rows():
    def spread(blocks, tick):
        tick(0)
        return reversed([(place, Squares()(block)) for place, block in enumerate(blocks)])

    found = filled(TRUE.shape, BLOCKS, None, progress=lambda done, total: None, spread=spread)
    assert np.array_equal(found, TRUE)


@pytest.mark.parametrize(("plus", "asked"), [(0, 3), (1, 5)])
def test_what_was_kept_is_asked_again_in_one_block_unless_it_is_answered_otherwise(
    tmp_path, plus, asked
):
    with pytest.raises(KeyboardInterrupt):
        answers(Squares(most=2), tmp_path, resumes=True)
    again = Squares(plus=plus)
    assert np.array_equal(answers(again, tmp_path, resumes=True), TRUE + plus)
    assert len(again.asked) == asked


def test_nothing_is_taken_up_of_a_model_that_begins_otherwise(tmp_path):
    answers(Squares(), tmp_path, resumes=False, first=b"a")
    again = Squares()
    answers(again, tmp_path, resumes=True, first=b"b")
    assert len(again.asked) == len(BLOCKS)


def test_nothing_is_taken_up_where_nobody_resumes(tmp_path):
    answers(Squares(), tmp_path, resumes=False)
    again = Squares()
    answers(again, tmp_path, resumes=False)
    assert len(again.asked) == len(BLOCKS)
