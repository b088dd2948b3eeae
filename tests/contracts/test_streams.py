from itertools import combinations

import numpy as np
import pytest

from pytest_cpg.contracts.streams import Stream


# Other keys would give every gate of a repository other starts and plans.
@pytest.mark.parametrize(
    ("stream", "key"), [(Stream.START, 0), (Stream.PLANNER, 1), (Stream.COLLECTION, 0x7472616E)]
)
def test_starts_plans_and_data_are_drawn_from_the_keys_that_they_always_were(stream, key):
    expected = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(key, 3, 2)))
    assert stream.of(7, np.int64(3), 2).random() == expected.random()


def test_no_two_purposes_draw_the_same_numbers():
    drawn = [stream.of(7, 3).random(4) for stream in Stream]
    assert not any(np.isin(one, other).any() for one, other in combinations(drawn, 2))
