from types import SimpleNamespace

import pytest

from pytest_cpg.contracts.parts import CacheKey, has
from pytest_cpg.contracts.planner import is_warm_started
from pytest_cpg.contracts.task import LeastReturn, StateScore, score_states
from pytest_cpg.contracts.world_model import FACTS, METHODS, Decoder, WorldModel


class Wrapper:
    """Passes on whatever another object has."""

    def __init__(self, wrapped):
        self.wrapped = wrapped

    def __getattr__(self, name):
        return getattr(self.wrapped, name)


@pytest.mark.parametrize("given", [None, 7])
def test_a_method_that_cannot_be_called_is_no_part(given):
    assert has(SimpleNamespace(decode=abs), Decoder)
    assert not has(SimpleNamespace(decode=given), Decoder)
    assert not has(SimpleNamespace(), Decoder)


def test_an_attribute_that_is_none_is_no_part_and_zero_is_one():
    assert has(SimpleNamespace(least_return=0), LeastReturn)
    assert not has(SimpleNamespace(least_return=None), LeastReturn)


def test_a_part_that_a_wrapper_passes_on_is_seen():
    assert has(Wrapper(SimpleNamespace(cache_key="v1")), CacheKey)


def test_a_layer_of_a_network_is_seen():
    torch = pytest.importorskip("torch")
    network = torch.nn.Module()
    network.decode = torch.nn.Linear(2, 3)
    assert has(network, Decoder)


def test_a_task_is_rated_by_its_states_where_it_can_be():
    task = SimpleNamespace(observe=lambda states: states + 1, score=lambda seen: 10 * seen)
    assert score_states(task, 2.0) == 30.0
    task.score_states = lambda states: states
    assert has(task, StateScore)
    assert score_states(task, 2.0) == 2.0


def test_a_planner_is_warm_started_if_it_says_so():
    said = [{}, {"is_warm_started": False}, {"is_warm_started": True}]
    assert [is_warm_started(SimpleNamespace(**one)) for one in said] == [False, False, True]


def test_names_of_a_models_parts_are_gathered_from_them():
    rating = ["score", "cost", "decode", "reward", "terminal_value"]
    assert list(METHODS) == ["encode", "update", *rating, "policy", "plan"]
    said = ["noise_size", "discount", "is_warm_started", "rates_states", "has_opaque_latents"]
    assert list(FACTS) == [*said, "trained_planner"]


def test_a_whole_world_model_has_three_methods():
    whole = SimpleNamespace(encode=abs, rollout=abs, score=abs)
    assert isinstance(whole, WorldModel)
    assert not isinstance(SimpleNamespace(rollout=abs), WorldModel)
