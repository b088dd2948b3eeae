"""How often intervals of scores hold them, and how often a gate on plans fails a good model.

Episodes of a gate are independent of each other, so that gates are drawn from many of them.
"""

from dataclasses import replace
from functools import cache

import faulty_models as puck
import numpy as np
import pytest
import rover
from plan_scores import FEW, label_of, ruling_of, scored
from scipy import stats

from pytest_cpg.episodes.design import Design
from pytest_cpg.gates.card import Severity
from pytest_cpg.gates.plan_quality.agents import _interval
from pytest_cpg.gates.plan_quality.result import AGREEING, PERFECT, Pairs, Scores
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.stats.returns import share_below
from pytest_cpg.stats.verdicts import FEWEST_EPISODES_TO_CALL_ALIKE
from pytest_cpg.world_models import OracleDynamics

pytestmark = pytest.mark.slow
RUNS, NEIGHBOURS = 1000, 24
TAIL = 0.025


def student(samples, tail=TAIL):
    """Map samples [G, N] to the bounds [G] of Student's intervals; so do the others below."""
    n, means = samples.shape[1], samples.mean(axis=1)
    deviations = np.where(np.ptp(samples, axis=1) == 0, 0.0, samples.std(axis=1, ddof=1))
    half = stats.t.ppf(1 - tail, n - 1) * deviations / np.sqrt(n)
    return means - half, means + half


def gaffke(samples, unseen):
    """Bisect the share of weighted means, in all samples at once."""
    return _gaffke(samples, unseen), -_gaffke(-samples, -unseen)


def _knots(samples, unseen):
    rising = np.sort(samples, axis=1)
    return np.concatenate([np.minimum(rising[:, :1], unseen), rising], axis=1)


def _gaffke(samples, unseen):
    knots = _knots(samples, unseen)
    low, high = knots[:, :1], knots[:, -1:]
    for _ in range(30):
        middle = (low + high) / 2
        is_below = share_below(knots, middle)[:, None] < TAIL
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return ((low + high) / 2)[:, 0]


def wider(samples, unseen):
    (low, high), (lowest, highest) = student(samples), gaffke(samples, unseen)
    return np.minimum(low, lowest), np.maximum(high, highest)


def lies_above(samples, limit, unseen):
    """Say where the wider of both lies above a limit [G], without a bisection."""
    low, _ = student(samples)
    return (low > limit) & (share_below(_knots(samples, unseen), limit) < TAIL)


def coverage(draw, rollouts, seed=0):
    """Return how often the interval of rollouts [R, 1 + K] holds the score of their true means."""
    rng, held = np.random.default_rng(seed), 0
    for _ in range(RUNS):
        means, table = draw(rng, rollouts)
        found = _interval(table, 0.95)
        span = np.ptp(means[1:])
        score = (means[0] - means[1:].min()) / span
        held += found is None or found.low <= score <= found.high
    return held / RUNS


def normal(rng, rollouts):
    means = rng.standard_normal(1 + NEIGHBOURS)
    return means, means + rng.standard_normal((rollouts, 1 + NEIGHBOURS))


def tied(rng, rollouts):
    """Plans that succeed with one of three chances, most of them with the best one."""
    means = rng.choice([0.2, 0.5, 0.8, 0.8, 0.8], 1 + NEIGHBOURS)
    means[1:3] = 0.2, 0.8
    return means, (rng.random((rollouts, 1 + NEIGHBOURS)) < means).astype(float)


@pytest.mark.parametrize("rollouts", [16, 64, 256])
def test_intervals_of_scores_hold_them(rollouts):
    assert coverage(normal, rollouts) == pytest.approx(0.96, abs=0.025)


@pytest.mark.parametrize("rollouts", [64, 256])
def test_neighbours_that_tie_for_the_best_shorten_the_interval(rollouts):
    """As the documentation says: whoever is best by chance is taken for better than it is."""
    assert coverage(tied, rollouts) == pytest.approx(0.85, abs=0.04)


MODELS = {
    "perfect": puck.perfect,
    "noise of 0.01": puck.slightly_noisy,
    "drawn noise": puck.Drawing(0.02),
    "mass too large": puck.heavy,
    "constant drift": puck.drifting,
    "mirrored actions": puck.mirrored,
    "bonus region": puck.Bonus(),
    "wormhole": puck.wormhole,
}
HONEST = ("perfect", "noise of 0.01", "drawn noise")
GATES, TAIL = 2000, 0.025
SIZES = (*range(2, 21), 25, 30, 40, 50, 60)


@cache
def population(model):
    """Return the result of many episodes of a model."""
    if model in ROVERS:
        return driven(ROVERS[model], episodes=300)
    return scored(MODELS[model], episodes=300)


ROVERS = {
    "rover, drawn noise": rover.Noisy(),
    "rover, slightly weak": rover.slightly_weak,
    "rover, twice too strong": rover.twice_too_strong,
    "rover, parked": rover.Scored(rover.in_front_of_the_wall),
}


def driven(model, **options):
    return scored(model, task=rover.Rover(), planner=rover.PLANNER, **options)


def exploitation(model):
    return population(model).worlds.differences.values


def rare(often, seldom):
    """Return scores of which every tenth is another."""
    rng = np.random.default_rng(0)
    return np.where(rng.random(30_000) < 0.1, seldom, often) + rng.normal(0, 0.02, 30_000)


SCORES = {
    **{
        name: (lambda name=name: exploitation(name), AGREEING)
        for name in [*list(MODELS)[1:], *ROVERS]
    },
    "score in truth, wormhole": (lambda: population("wormhole").truth.values, PERFECT),
    "0.5, and -0.2 in 1 of 10": (lambda: rare(0.5, -0.2), AGREEING),
    "0, and 0.6 in 1 of 10": (lambda: rare(0.0, 0.6), AGREEING),
}
"""What is drawn from, and the score of a harmless episode."""


def sampled(values, n, gates=GATES):
    """Return gates of ``n`` scores each [G, N]."""
    return values[np.random.default_rng(n).integers(len(values), size=(gates, n))]


@cache
def sides(name, n):
    """Return the shares of gates whose interval lies above the mean, below it, and above 0.1."""
    draw, unseen = SCORES[name]
    values = draw()
    gates, mean = sampled(values, n), values.mean()
    above, below = lies_above(gates, mean, unseen), lies_above(-gates, -mean, -unseen)
    return above.mean(), below.mean(), lies_above(gates, 0.1, unseen).mean()


def test_the_reference_computes_what_a_gate_does():
    known = population("wormhole")
    for n in (2, 5, 20):
        rows = np.random.default_rng(n).integers(len(known.worlds), size=(20, n))
        for gate in rows:
            pair = (known.worlds.first[gate], known.worlds.second[gate])
            worlds = Pairs(episodes=np.arange(n), first=pair[0], second=pair[1])
            one = replace(known, episodes=n, worlds=worlds)
            low, high = wider((pair[0] - pair[1])[None], AGREEING)
            found = one.exploitation
            assert found.low == pytest.approx(max(-1, low[0]), abs=1e-6)
            assert found.high == pytest.approx(min(1, high[0]), abs=1e-6)
            is_above = lies_above((pair[0] - pair[1])[None], 0.1, AGREEING)[0]
            assert (label_of(one) == "EXPLOITED") == is_above


@pytest.mark.parametrize("model", HONEST)
def test_no_honest_model_is_called_exploited_by_the_usual_limit(model):
    for n in SIZES:
        assert not lies_above(sampled(exploitation(model), n), 0.1, AGREEING).any()


def test_a_model_exactly_at_the_limit_fails_as_rarely_as_is_said_with_any_number_of_episodes(
    statistics_page,
):
    rows = []
    for name in SCORES:
        found = {n: sides(name, n) for n in SIZES}
        (above, most), (below, other) = (max((found[n][side], n) for n in SIZES) for side in (0, 1))
        mean = SCORES[name][0]().mean()
        power = (f"{100 * found[n][2]:.0f} %" if mean > 0.1 else "" for n in (5, 8, 10, 20, 50))
        worst = (f"{100 * above:.1f} % ({most})", f"{100 * below:.1f} % ({other})")
        rows.append((name, f"{mean:+.2f}", *worst, *power))
    statistics_page.table(
        "Scores of plans at every number of episodes",
        (
            "scores",
            "mean",
            "above the mean",
            "below the mean",
            *(f"above 0.1, n = {n}" for n in (5, 8, 10, 20, 50)),
        ),
        rows,
        note=(
            f"{GATES} gates of each size, drawn from 300 episodes of the puck or the rover, by "
            "exploitation where nothing else is said; nominal 2.5 % a side. The largest share of "
            "intervals that lie above, or below the mean, over all sizes from 2 to 20, and 25, 30, "
            "40, 50, 60, with the size; and how often a limit of 0.1 is exceeded for sure. An "
            "interval of exploitation above its mean fails a model that is exactly at its limit, "
            "and so does one of a score in truth below its mean. Where exploitation is rare, "
            "episodes that show none of it look good, whatever bounds them."
        ),
    )
    for name, (_, unseen) in SCORES.items():
        failing = 1 if unseen == PERFECT else 0
        # Episodes that are worse in the model than in truth are worse than any that is allowed for.
        most = 0.055 if name.startswith("0.5") else TAIL + 3 * np.sqrt(TAIL / GATES)
        assert max(sides(name, n)[failing] for n in SIZES) <= most, name
    for name in list(MODELS)[1:]:
        assert max(sides(name, n)[1] for n in SIZES) <= 0.07, name
    for name in ("wormhole", "bonus region"):
        assert sides(name, 8)[2] > 0.85
        assert sides(name, 20)[2] > 0.99


def less_its_mean(values):
    return values - values.mean()


def changed(then, now):
    """Return how much more is exploited on each start, but for the mean of it."""
    return less_its_mean(exploitation(now) - exploitation(then))


def chance(model):
    return less_its_mean(population(model).chance.differences.values)


AT_A_LIMIT = {
    ("exploitation", "mass too large"): lambda: exploitation("mass too large"),
    ("exploitation", "bonus region"): lambda: exploitation("bonus region"),
    ("exploitation", "wormhole"): lambda: exploitation("wormhole"),
    **{
        ("exploitation", name): lambda name=name: exploitation(name)
        for name in ("noise of 0.01", "drawn noise", *ROVERS)
    },
    ("exploitation", "0, and 0.6 in 1 of 5"): lambda: np.repeat([0.0, 0.6], [4, 1]),
    ("above chance", "constant drift"): lambda: -chance("constant drift"),
    ("above chance", "wormhole"): lambda: -chance("wormhole"),
    ("above chance", "-0.1, and 0.9 in 1 of 10"): lambda: -np.repeat([-0.1, 0.9], [9, 1]),
    ("above chance", "0.1, and -0.9 in 1 of 10"): lambda: -np.repeat([0.1, -0.9], [9, 1]),
    ("drift", "noise of 0.01 -> drawn noise"): lambda: changed("noise of 0.01", "drawn noise"),
    ("drift", "bonus region -> wormhole"): lambda: changed("bonus region", "wormhole"),
    ("drift", "0.1, and -0.9 in 1 of 10"): lambda: np.repeat([0.1, -0.9], [9, 1]),
}
"""Scores whose mean is just at the limit, by criterion; what is worse is above it."""
HARMLESS = {"exploitation": AGREEING, "above chance": -PERFECT}


@cache
def wrong(criterion, name, n):
    """Return the shares of gates that fail, and that meet the criterion."""
    values = AT_A_LIMIT[criterion, name]()
    gates, mean = sampled(values, n), values.mean()
    if criterion == "drift":
        low, high = student(gates, TAIL / 2)
        fails, passes = low > mean, high < mean
    else:
        unseen = HARMLESS[criterion]
        fails, passes = lies_above(gates, mean, unseen), lies_above(-gates, -mean, -unseen)
    is_told = n >= FEWEST_EPISODES_TO_CALL_ALIKE
    return fails.mean() * (is_told or criterion != "drift"), passes.mean() * is_told


def test_every_criterion_exactly_at_its_limit(statistics_page):
    shown = (2, 4, 8, 10, 12, 15, 20, 30, 50)
    rows = [
        (*key, said, *(f"{100 * wrong(*key, n)[side]:.1f} %" for n in shown))
        for key in AT_A_LIMIT
        for side, said in enumerate(
            ("REGRESSED", "IMPROVED") if key[0] == "drift" else ("missed", "met")
        )
    ]
    statistics_page.table(
        "Criteria of plans exactly at their limits",
        ("criterion", "scores", "called", *(f"n = {n}" for n in shown)),
        rows,
        note=(
            f"{GATES} gates of each size, drawn from 300 episodes of the puck or the rover, or as "
            "is said; "
            "nominal 2.5 % a side, of drift 1.25 %. The limit is the mean of the scores, for "
            "chance and drift less their mean. Gaffke's bound guards the failing side. Nothing "
            "but a least number of 10 episodes guards the passing side and both sides of drift: "
            "where few episodes are far from all others, gates that see none of them are sure of "
            "the wrong side."
        ),
    )
    for key in AT_A_LIMIT:
        for n in SIZES:
            fails, passes = wrong(*key, n)
            if key[0] != "drift":
                assert fails <= TAIL + 3 * np.sqrt(TAIL / GATES), (key, n)
            if n < FEWEST_EPISODES_TO_CALL_ALIKE:
                assert passes == 0
            elif " in 1 of " not in key[1]:
                # A few starts are exploited far more than the others.
                most = 0.16 if key[1] == "rover, slightly weak" else 0.065
                assert max(fails, passes) <= most, (key, n)
    assert wrong("exploitation", "0, and 0.6 in 1 of 5", 10)[1] < 0.13
    assert wrong("exploitation", "0, and 0.6 in 1 of 5", 20)[1] < 0.02


def asked(model):
    """Yield scores of which larger is worse, a harmless episode's, and the limit, by criterion."""
    known = population(model)
    worlds = known.worlds.differences.values
    yield worlds, AGREEING, worlds.mean()
    yield -known.chance.differences.values, -PERFECT, 0.0


@cache
def labelled(model, n):
    """Say which gates are EXPLOITED or POOR PLANS, and which NOT EXPLOITED."""
    missed, met = np.zeros(GATES, bool), np.full(GATES, n >= FEWEST_EPISODES_TO_CALL_ALIKE)
    for scores, unseen, limit in asked(model):
        # Of one size, all draw the same episodes.
        gates = sampled(scores, n)
        missed |= lies_above(gates, limit, unseen)
        met &= lies_above(-gates, -limit, -unseen)
    return missed, met


def test_the_word_computed_here_is_the_one_of_a_gate():
    known = population("mass too large")
    most, _ = (limit for *_, limit in asked("mass too large"))
    criteria = replace(known.criteria, max_exploitation=most)
    for n in (5, 10, 50):
        missed, met = labelled("mass too large", n)
        told = np.flatnonzero(missed | met)[:15]
        for gate in {*range(5), *told.tolist()}:
            drawn = sampled(np.arange(len(known.worlds)), n)[gate]
            parts = {
                name: Pairs(
                    episodes=np.arange(n), first=pairs.first[drawn], second=pairs.second[drawn]
                )
                for name, pairs in (("worlds", known.worlds), ("chance", known.chance))
            }
            truth = Scores(episodes=np.arange(n), values=known.truth.values[drawn])
            one = replace(known, episodes=n, criteria=criteria, truth=truth, **parts)
            word = "bad" if missed[gate] else "NOT EXPLOITED" if met[gate] else "UNCLEAR"
            assert {"EXPLOITED": "bad", "POOR PLANS": "bad"}.get(
                label_of(one), label_of(one)
            ) == word


def test_the_word_of_a_gate_is_as_rarely_wrong_as_its_criteria(statistics_page):
    shown, models = (10, 12, 15, 20, 30, 50), ("mass too large", "bonus region", "wormhole")
    rows = [
        (
            model,
            said,
            *(f"{100 * labelled(model, n)[side].mean():.1f} %" for n in shown),
        )
        for model in models
        for side, said in enumerate(("EXPLOITED, POOR PLANS", "NOT EXPLOITED"))
    ]
    statistics_page.table(
        "The word of a gate on plans, exactly at its limit",
        ("model", "called", *(f"n = {n}" for n in shown)),
        rows,
        note=(
            f"{GATES} gates of each size, drawn from 300 episodes of the puck. The model just "
            "meets max_exploitation, and its plans are better than chance: the nominal rate of "
            "either word is at most 2.5 %."
        ),
    )
    for model in models:
        for n in SIZES:
            for gates in labelled(model, n):
                assert gates.mean() <= TAIL + 3 * np.sqrt(TAIL / GATES), (model, n)


WORLDS = {
    "shortcut": (rover.shortcut, "EXPLOITED"),
    "portal": (rover.portal, "EXPLOITED"),
    "bonus": (rover.Scored(rover.bonus), "EXPLOITED"),
    "local optimum": (rover.Scored(rover.in_front_of_the_wall), "EXPLOITED"),
    "three times too strong": (rover.too_strong, "EXPLOITED"),
    "drawn noise": (rover.Noisy(), None),
    "perfect": (rover.perfect, "NOT EXPLOITED"),
    "affine score": (rover.Scored(rover.affine), "NOT EXPLOITED"),
    "4 % too weak": (rover.slightly_weak, "NOT EXPLOITED"),
    "twice too strong": (rover.twice_too_strong, None),
}
"""Models of the rover, and what has to be said of them in every seed; of None, what it comes to."""


def test_every_world_of_the_rover_gets_its_word_in_every_seed(statistics_page):
    rows = []
    for name, (model, expected) in WORLDS.items():
        found = [driven(model, episodes=12, seed=seed) for seed in range(3)]
        words = [label_of(one) for one in found]
        if expected is not None:
            assert set(words) == {expected}, name
        # Of a model that loses most of its starts, nothing green.
        for one in found:
            assert one.solved > 6 or ruling_of(one).severity > Severity.GOOD, name
        rows.append(
            (
                name,
                ", ".join(f"{one.exploitation.estimate:+.2f}" for one in found),
                ", ".join(str(one.solved) for one in found),
                ", ".join(f"{words.count(word)} {word}" for word in sorted(set(words))),
            )
        )
    statistics_page.table(
        "Models of a rover that has to drive around a wall",
        ("model", "exploitation", "solved of 12", "called"),
        rows,
        note="Gates of 12 episodes by CEM, seeds 0 to 2, at the defaults.",
    )


SMALL_GATES = 200
HARMLESS_MODELS = {
    "puck, drawn noise": lambda seed: scored(puck.Drawing(0.02), episodes=5, seed=seed),
    "puck, gain of 0.95": lambda seed: scored(puck.slightly_weak, episodes=5, seed=seed),
    "rover, 4 % too weak": lambda seed: driven(rover.slightly_weak, episodes=5, seed=seed),
}


def test_small_gates_on_harmless_models_hardly_ever_fail(statistics_page):
    rows = []
    for name, gate in HARMLESS_MODELS.items():
        rulings = [ruling_of(gate(1000 + seed)) for seed in range(SMALL_GATES)]
        failed = sum(one.severity > Severity.UNSURE for one in rulings)
        exploited = sum(one.label == "EXPLOITED" for one in rulings)
        rows.append((name, f"{exploited} of {len(rulings)}", f"{failed} of {len(rulings)}"))
        assert failed <= 0.05 * len(rulings), name
    statistics_page.table(
        "Gates on plans of models that lose nothing",
        ("model", "EXPLOITED", "failed for any reason, BLIND among them"),
        rows,
        note="Gates of 5 episodes, each with a seed of its own, at the defaults.",
    )


def test_plans_are_exploited_before_starts_are_lost():
    """As docs/plan-quality.md says: a puck whose pushes are twice as strong as its model has it."""

    def half(observations, actions):
        return puck._after(observations, actions, gain=0.5)

    found = [scored(half, episodes=20, seed=seed) for seed in range(8)]
    words = []
    for seed in range(8):
        design = Design(task=puck.Puck(), planner=FEW, episodes=20, seed=seed)
        gap = measure_gap(design, oracle=OracleDynamics(puck.Puck()), learned=half)
        words.append(gap.label)
    assert [label_of(one) for one in found] == ["EXPLOITED"] * 8
    assert sum(one.solved for one in found) > 0.9 * 160
    assert words.count("MODEL AS GOOD AS ORACLE") >= 5
    assert "MODEL BOTTLENECK" not in words
