"""Calls of fewer rows, where they give the same bits; and none where they do not."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import bind
from pytest_cpg.world_models.binding.tiling import TILE, Sizes, tiled, together

ROWS = np.random.default_rng(0).normal(size=(3000, 2))


class Asked:
    """A function of rows that notes how many it was given, and rounds by it below some size."""

    def __init__(self, exact_from=0, refuses=0):
        self.sizes, self._exact_from, self._refuses = [], exact_from, refuses

    def __call__(self, rows):
        self.sizes.append(len(rows))
        if len(rows) < self._refuses:
            raise ValueError(f"{len(rows)} rows")
        exact = len(rows) >= self._exact_from
        return 2 * rows if exact else np.nextafter(2 * rows, np.inf)


def last_call(function, rows, probe=ROWS[:8]):
    """The sizes that are asked for so many rows, once trying other sizes has paid."""
    call = tiled(function, probe=(probe,))
    for _ in range(20):
        function.sizes.clear()
        assert np.array_equal(call(ROWS[:rows]), 2 * ROWS[:rows])
    return function.sizes


@pytest.mark.parametrize(
    ("rows", "sizes"),
    [
        (1, [8]),
        (24, [32]),
        (50, [64]),
        (64, [64]),
        (90, [128]),
        (300, [256, 64]),
        (500, [512]),
        (512, [512]),
        (520, [512, 8]),
        (1500, [512, 512, 512]),
    ],
)
def test_few_rows_are_asked_for_in_small_calls(rows, sizes):
    assert last_call(Asked(), rows) == sizes


@given(st.integers(1, 2000), st.sampled_from([8, 32, 64, 512]))
def test_calls_hold_all_rows_and_little_more(count, least):
    sizes = Sizes(lambda rows: rows, (), TILE)
    sizes._least[((2,),)] = least
    found = sizes.of((ROWS[np.arange(count) % len(ROWS)],))
    assert set(found) <= {512 >> halved for halved in range(7)}
    assert min(found) >= least
    assert 0 <= sum(found) - count < max(least, 256)
    assert sum(found[:-1]) < count


@pytest.mark.parametrize("faulty", [{"exact_from": 64}, {"refuses": 64}])
def test_a_size_whose_bits_differ_or_that_is_refused_is_asked_no_more(faulty):
    assert last_call(Asked(**faulty), 10) == [64]
    assert last_call(Asked(exact_from=TILE), 10) == [TILE]


class Cautious:
    """Raises, beside a warning, for states that only trials of other sizes ask about."""

    def __call__(self, rows):
        if (rows > 1).any():
            np.exp(1e4 * rows)
            raise RuntimeError("left the range of training")
        return 2 * rows


def test_a_model_that_refuses_what_only_a_trial_asks_goes_on_in_whole_tiles():
    rows = np.zeros((10, 2))
    for call in (
        tiled(Cautious(), probe=(ROWS[:8],)),
        together(Cautious(), (ROWS[:8],)),
    ):
        for _ in range(20):
            assert np.array_equal(call(rows), rows)


def test_one_place_of_a_tile_that_rounds_otherwise_is_enough():
    def last_row_of_small_calls(rows):
        asked.append(len(rows))
        found = 2 * rows
        if len(rows) == 128:
            found[-1] = np.nextafter(found[-1], np.inf)
        return found

    asked = []
    call = tiled(last_row_of_small_calls, probe=(ROWS[:8],))
    for _ in range(20):
        asked.clear()
        call(ROWS[:10])
    assert asked == [256]


def test_other_horizons_are_tried_by_themselves():
    function = Asked()

    def plans(rows):
        return function(rows.reshape(len(rows), -1)).reshape(rows.shape)

    call = tiled(plans, probe=(ROWS[:8, None].repeat(3, axis=1),))
    short, long = (ROWS[:10, None].repeat(steps, axis=1) for steps in (2, 7))
    for _ in range(20):
        assert np.array_equal(call(long), 2 * long)
    function.sizes.clear()
    call(short)
    call(long)
    assert function.sizes == [512, 16]


def test_trying_costs_no_more_than_it_has_cost_not_to():
    function = Asked()
    call = tiled(function, probe=(ROWS[:8],))
    while 16 not in function.sizes[-1:]:
        call(ROWS[:10])
    whole = sum(size for size in function.sizes if size == TILE) - TILE
    assert sum(function.sizes) - whole <= whole


@pytest.mark.parametrize("hidden", [16, 384])
def test_rows_of_a_network_are_the_same_bits_in_any_number(hidden):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(4, hidden), torch.nn.LayerNorm(hidden), torch.nn.Mish(),
        torch.nn.Linear(hidden, 2),
    )  # fmt: skip

    task, plans = maze(), np.random.default_rng(1).uniform(-1, 1, (640, 4, 2))
    with torch.inference_mode():
        model = bind(
            lambda seen, acted: network(torch.cat([seen, acted], dim=-1)),
            task,
            probe_states=task.reset(np.arange(8)),
            probe_actions=plans[:8, 0],
        )
        latents = ROWS[:640]
        whole = model.rollout(latents, plans)
        for size in (1, 24, 64, 100, 300) * 6:
            found = model.rollout(latents[-size:], plans[-size:])
            assert np.array_equal(found, whole[-size:])


@pytest.mark.slow  # torch's compiler takes seconds to import
def test_a_network_that_torch_compiles_is_always_asked_for_whole_tiles():
    torch = pytest.importorskip("torch")
    from pytest_cpg.world_models.binding.torch_state import is_compiled

    network = torch.nn.Linear(2, 2)
    assert not is_compiled(network)
    assert is_compiled(torch.nn.Sequential(torch.compile(network, backend="eager")))
    assert is_compiled(torch.compile(lambda rows: rows, backend="eager"))
    network.compile(backend="eager")
    assert is_compiled(lambda rows: network(rows))
