import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.episodes.nuisances import Nuisance
from pytest_cpg.episodes.perturbation_names import parse_perturbation
from pytest_cpg.episodes.perturbations import (
    ActionNoise,
    DelayActions,
    DropActions,
    Kick,
    ObservationNoise,
    Physics,
    Several,
    parts_of,
)

POSITIVE = st.floats(1e-6, 1e6)
NAMED = st.one_of(
    st.builds(DropActions, st.integers(0, 99)),
    st.builds(DropActions, st.integers(0, 99), at=st.integers(0, 999)),
    st.builds(DropActions, st.integers(0, 99), every=st.integers(1, 999)),
    st.builds(DropActions, st.integers(0, 99), probability=st.floats(1e-6, 1)),
    st.builds(DelayActions, st.integers(1, 99)),
    st.builds(ActionNoise, POSITIVE),
    st.builds(ObservationNoise, POSITIVE),
    st.builds(Nuisance, st.integers(1, 99), st.sampled_from(["redundant", "fast"])),
    st.builds(Physics, mass=POSITIVE.filter(lambda x: x != 1), gravity=POSITIVE),
)


@given(NAMED)
def test_a_perturbation_is_found_under_its_name(perturbation):
    assert parse_perturbation(perturbation.name) == perturbation
    assert parse_perturbation(perturbation) is perturbation


def test_names_are_those_of_the_marker():
    names = [
        "drop-next-0",
        "drop-next-5",
        "drop-next-5-at-20",
        "drop-next-5-every-40",
        "drop-next-5-probability-0.01",
        "delay-2",
        "action-noise-0.1",
        "observation-noise-0.05",
        "mass-1.2,friction-0.5",
        "kick-0.1-every-20",
        "skip-next-5",
        "drop-next-1,action-noise-0.1",
        "mass-1.2,gravity-2,kick-0.5-at-3,delay-2",
    ]
    assert [parse_perturbation(name).name for name in names] == names
    assert parse_perturbation("none") is None
    assert parse_perturbation(None) is None
    assert Physics(mass=np.float32(2)).name == "mass-2"


@pytest.mark.parametrize(
    ("given_value", "message"),
    [
        ("drop-nxt-5", "no perturbation is named 'drop-nxt-5'. Did you mean 'drop-next-5'?"),
        ("drop_next_5", "no perturbation is named 'drop_next_5'. Did you mean 'drop-next-5'?"),
        ("delay", "perturbation 'delay' needs a number: write 'delay-2'"),
        (
            "drop-next-at-3",
            "perturbation 'drop-next-at-3' needs a number: write 'drop-next-5-at-3'",
        ),
        ("kick-after-3", "no perturbation is named 'kick-after-3'. Write one such"),
        ("delay-x", "no perturbation is named 'delay-x'. Did you mean 'delay-2'?"),
        ("mas-1.2", "no perturbation is named 'mas-1.2'. Did you mean 'mass-1.2'?"),
        (
            "mass-1.2,frction-2",
            "no perturbation is named 'frction-2'. Did you mean 'friction-0.5'?",
        ),
        ("wind", "no perturbation is named 'wind'. Write one such as 'drop-next-5', 'drop-"),
        ("drop-next-5-after-2", "named 'drop-next-5-after-2'. Did you mean 'drop-next-5-at-20'?"),
        ("drop-nxt-5-evry-2", "named 'drop-nxt-5-evry-2'. Did you mean 'drop-next-5-every-40'?"),
        ("drop-0.5", "no perturbation is named 'drop-0.5'. Did you mean 'drop-next-5'?"),
        ("drop-5-from-3", "no perturbation is named 'drop-5-from-3'. Write one such as"),
        ("delay-2-at-3", "no perturbation is named 'delay-2-at-3'. Did you mean 'delay-2'?"),
        ("skip-next-5-at-2-at-30", "'skip-next-5-at-2-at-30' says a word twice"),
        ("drop-next-1.5", "count: need a whole number of at least 0, got 1.5"),
        ("fast-nuisance-0", "columns: need a whole number of at least 1, got 0"),
        ("slow-nuisance-4", "named 'slow-nuisance-4'. Did you mean 'fast-nuisance-16'?"),
        ("delay-0", "steps: need a whole number of at least 1, got 0"),
        ("mass-0", "mass: need a number above 0, got 0"),
        ("mass-1", "need a factor other than 1"),
        ("mass-2,mass-3", "'mass-2,mass-3': mass, friction and gravity may be changed once each"),
        ("drop-next-1-probability-2", "probability: need at most 1, got 2"),
        ("drop-next-" + "9" * 20, "count: need a whole number of at most 1000000, got 99999"),
        ("drop-next-1-at-2000000", "at: need a whole number of at most 1000000, got 2000000"),
        ("delay-99999999999", "steps: need a whole number of at most 10000, got 99999999999"),
        ("delay-2,wind", "no perturbation is named 'wind'."),
        ("mass-1.2,", "no perturbation is named ''. Write one such as 'drop-next-5'"),
        ("DropActions(5)", "no perturbation is named 'DropActions(5)'. Write one such as"),
        (DropActions, "need a perturbation or its name, got <class"),
        (5, "need a perturbation or its name, got 5"),
    ],
)
def test_what_is_no_perturbation_is_told_what_to_type(given_value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        parse_perturbation(given_value)


def test_two_moments_of_one_loss_are_refused():
    with pytest.raises(ValueError, match="at= and every= both say when it happens"):
        DropActions(2, at=1, every=2)


def test_a_users_perturbation_without_its_number_is_told_what_to_write():
    with pytest.raises(ValueError, match=r"'gust' needs a number: write 'gust-0\.5'"):
        parse_perturbation("gust", {"gust": lambda strength, at=10: (strength, at)})


def test_several_of_several_are_all_of_them():
    kick, delay, noise = Kick(0.1), DelayActions(2), ActionNoise(0.1)
    nested = Several((kick, Several((delay, Several((noise,))))))
    assert parts_of(nested) == (kick, delay, noise)
    assert nested.name == "kick-0.1,delay-2,action-noise-0.1"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), "need a tuple of perturbations, as in Several((Kick(0.1), DelayActions(2))), got ()"),
        (Kick(0.1), "need a tuple of perturbations"),
        (("kick-0.1",), "'kick-0.1' is a name, and Several takes objects, as in Several((Kick"),
        ((Kick(0.1), 3), "need a perturbation or its name, got 3. Join objects, as in Several(("),
    ],
)
def test_several_of_none_or_of_names_are_refused(parts, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Several(parts)
