from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pytest

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.gates.kind import Run
from pytest_cpg.gates.rows import Questions, Snapshot, answered, filled
from pytest_cpg.tasks import TASKS


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


class Doubled:
    """Adds up moves in latents of its own; one that has lost something is another one elsewhere."""

    def __init__(self, lost=0.0):
        self.lost = lost

    def __getstate__(self):
        return {"lost": self.lost + (self.lost > 0)}

    def encode(self, observations):
        return 2 * observations

    def rollout(self, latents, actions):
        return latents[:, None] + 2 * np.cumsum(actions, axis=1) + self.lost

    def decode(self, latents):
        return latents / 2


def asked_of(model, **execution):
    """Return how far a model is off after a step from 300 places of the maze."""
    task, rngs = TASKS["maze"](), [np.random.default_rng(row) for row in range(300)]
    states, actions = task.reset(np.arange(300)), task.actions.sample(rngs, (1,))
    run = Run(given={}, execution=Execution(**execution), task=None, progress=lambda *_: None)
    arrays = (states, actions, task.step(states, actions[:, 0]))
    return answered(run, model, Questions(task, off, arrays), what="error")


BLOCKS_ASKED = []


def off(model, states, actions, following):
    BLOCKS_ASKED.append(len(states))
    reached = model.rollout(model.encode(states), actions)[:, -1]
    return np.abs(model.observe(reached) - following).sum(axis=1)


def test_questions_have_the_same_answers_here_and_by_workers():
    alone = asked_of(Doubled())
    assert set(alone) == {0, 1}
    with ThreadPoolExecutor(2) as executor:
        np.testing.assert_array_equal(asked_of(Doubled(), executor=executor), alone)
        with pytest.raises(WorldModelError, match="answers otherwise in a worker"):
            asked_of(Doubled(lost=1.0), executor=executor)


def test_questions_that_were_answered_are_not_asked_again(tmp_path):
    BLOCKS_ASKED.clear()
    alone = asked_of(Doubled(), cache=ArmCache(tmp_path))
    assert BLOCKS_ASKED == [4] + [60] * 5
    resumed = asked_of(Doubled(), cache=ArmCache(tmp_path), resumes=True)
    np.testing.assert_array_equal(resumed, alone)
    # The first ones, and one block, show that the model is the same.
    assert BLOCKS_ASKED[6:] == [4, 60]
