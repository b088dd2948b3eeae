import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.stats.verdicts import holm

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
