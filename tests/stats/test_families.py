import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats.families import holm

chances = st.floats(0, 1)
alphas = st.floats(1e-6, 0.5)


@st.composite
def families(draw):
    values = draw(st.lists(chances, min_size=1, max_size=12))
    return {f"gate{i}": p for i, p in enumerate(values)}


def stepped_down(p_values, alpha, family_size):
    """Return what Holm rejects, step by step as the paper has it."""
    rejected = set()
    for step, name in enumerate(sorted(p_values, key=p_values.get)):
        if p_values[name] > alpha / (family_size - step):
            break
        rejected.add(name)
    return rejected


def is_clear(p_values, alpha, size):
    """Whether no p-value is so near to a threshold that rounding decides."""
    thresholds = [alpha / (size - step) for step in range(size)]
    return not any(math.isclose(p, t, rel_tol=1e-9) for p in p_values.values() for t in thresholds)


def test_holm_agrees_with_statsmodels(monkeypatch):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    # It collects all garbage in every call, which takes longer than everything else here.
    monkeypatch.setattr("gc.collect", lambda: 0)
    rng = np.random.default_rng(0)
    for _ in range(500):
        values = rng.beta(0.3, 2, size=rng.integers(1, 30))
        if rng.random() < 0.3:
            values = np.round(values, 2)  # with ties, zeros and ones
        alpha = rng.uniform(0.001, 0.2)
        reject, *_ = multitest.multipletests(values, alpha=alpha, method="holm")
        p_values = {str(i): p for i, p in enumerate(values)}
        if is_clear(p_values, alpha, len(values)):
            rejected = {str(i) for i in np.flatnonzero(reject)}
            assert set(holm(p_values, alpha=alpha, family_size=len(values))) == rejected


@given(p_values=families(), alpha=alphas, unseen=st.integers(0, 20))
def test_holm_stops_at_the_first_gate_that_it_keeps(p_values, alpha, unseen):
    size = len(p_values) + unseen
    if is_clear(p_values, alpha, size):
        rejected = holm(p_values, alpha=alpha, family_size=size)
        assert set(rejected) == stepped_down(p_values, alpha, size)


def test_a_family_of_which_nothing_was_observed_rejects_nothing():
    assert holm({}, alpha=0.025, family_size=3) == ()


@pytest.mark.parametrize("alpha", [0, 1, -0.1, 2.5, math.nan, "0.025", True, None])
def test_an_impossible_alpha_is_refused_with_its_value(alpha):
    with pytest.raises(ValueError, match=rf"need an alpha between 0 and 1.*, got {alpha!r}$"):
        holm({"gate": 0.1}, alpha=alpha, family_size=2)


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan, "0.1", True, None])
def test_an_impossible_p_value_names_its_gate(p):
    with pytest.raises(ValueError, match=rf"need a p-value from 0 to 1 for 'hopper', got {p!r}$"):
        holm({"walker": 0.1, "hopper": p}, alpha=0.025, family_size=2)


@pytest.mark.parametrize("gates", [0, -1, 2.0, True, None])
def test_an_impossible_number_of_gates_is_refused_with_its_value(gates):
    with pytest.raises(ValueError, match=rf"need family_size to be .*, got {gates!r}$"):
        holm({}, alpha=0.025, family_size=gates)


def test_a_family_smaller_than_what_was_observed_is_refused():
    with pytest.raises(ValueError, match="family_size of at least the 2 gates observed, got 1"):
        holm({"walker": 0.1, "hopper": 0.2}, alpha=0.025, family_size=1)
