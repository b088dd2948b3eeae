"""Exact operating characteristics of McNemar's exact test: every table of changes is enumerated."""

import numpy as np
import pytest

from pytest_cpg.stats.paired import exact_mcnemar_p_value

pytestmark = pytest.mark.slow

SHOWN = (10, 20, 50, 100, 150)
SIZES = range(10, 201)
# The fewest losses, of so many changes, that are called REGRESSED; too many where none are.
LEAST = [
    next(
        (
            lost
            for lost in range(changed // 2 + 1, changed + 1)
            if exact_mcnemar_p_value(lost=lost, gained=changed - lost) <= 0.05
        ),
        changed + 1,
    )
    for changed in range(SIZES[-1] + 1)
]


def outcomes(n, rates):
    """Return the binomial probabilities [rate, successes]."""
    binom = pytest.importorskip("scipy.stats").binom
    return binom.pmf(np.arange(n + 1), n, np.asarray(rates)[:, None])


def rejected_shares(n, changes, *, lost=0.5):
    """Return P(p <= 0.05 and more lost than gained) [share of starts that change].

    ``lost`` is the share of the changes that are losses.
    """
    binom = pytest.importorskip("scipy.stats").binom
    return outcomes(n, changes) @ binom.sf(np.array(LEAST[: n + 1]) - 1, np.arange(n + 1), lost)


def test_exact_mcnemar_never_exceeds_its_level(statistics_page):
    changes = np.linspace(0, 1, 201)
    rows, worst = [], {}
    for n in SIZES:
        shares = rejected_shares(n, changes)
        worst[n] = shares.max()
        assert worst[n] <= 0.025
        if n not in SHOWN:
            continue
        # Nine of ten solved then, eight of ten now; half of the starts decide for both.
        both = (0.9 * 0.8 + 0.8) / 2
        power = rejected_shares(n, [1.7 - 2 * both], lost=(0.9 - both) / (1.7 - 2 * both))[0]
        at_a_tenth = shares[20]
        rows.append((n, f"{shares.max():.4f}", f"{at_a_tenth:.4f}", f"{power:.3f}"))
    at = max(worst, key=worst.get)
    above = sum(error > 0.022 for error in worst.values())
    statistics_page.table(
        "McNemar's exact test against a baseline",
        ("n", "worst false REGRESSED", "with 10 % of starts changed", "power, .9 then and .8 now"),
        rows,
        note=(
            "Share of runs with a two-sided exact p of at most 0.05 and more starts lost than "
            "gained; nominal is 0.025. Without a change in rate, the worst over all shares of "
            "starts that change their outcome (step 0.005); with one, for starts of which half "
            "decide for both runs. "
            f"Of all n from {SIZES[0]} to {SIZES[-1]} the worst is {at}, with "
            f"{100 * worst[at]:.2f} %; {above} of these {len(SIZES)} sizes exceed 2.2 %."
        ),
    )
