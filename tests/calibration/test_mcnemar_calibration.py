"""Exact operating characteristics of McNemar's exact test: every table of changes is enumerated."""

import numpy as np
import pytest

from pytest_cpg.stats.mcnemar import exact_mcnemar_p_value

pytestmark = pytest.mark.slow

SIZES = (10, 20, 50, 100, 150)


def outcomes(n, rates):
    """Return the binomial probabilities [rate, successes]."""
    binom = pytest.importorskip("scipy.stats").binom
    return binom.pmf(np.arange(n + 1), n, np.asarray(rates)[:, None])


def rejected_shares(n, changes, *, lost=0.5, alpha=0.05):
    """Return P(p <= alpha and more lost than gained) [share of starts that change].

    ``lost`` is the share of the changes that are losses.
    """
    given_changed = np.zeros(n + 1)
    for changed in range(n + 1):
        flags = [
            2 * losses > changed
            and exact_mcnemar_p_value(lost=losses, gained=changed - losses) <= alpha
            for losses in range(changed + 1)
        ]
        given_changed[changed] = outcomes(changed, [lost])[0] @ flags
    return outcomes(n, changes) @ given_changed


def test_exact_mcnemar_never_exceeds_its_level(statistics_page):
    changes = np.linspace(0, 1, 201)
    rows = []
    for n in SIZES:
        shares = rejected_shares(n, changes)
        assert shares.max() <= 0.025
        # Nine of ten solved then, eight of ten now; half of the starts decide for both.
        both = (0.9 * 0.8 + 0.8) / 2
        power = rejected_shares(n, [1.7 - 2 * both], lost=(0.9 - both) / (1.7 - 2 * both))[0]
        at_a_tenth = shares[20]
        rows.append((n, f"{shares.max():.4f}", f"{at_a_tenth:.4f}", f"{power:.3f}"))
    statistics_page.table(
        "McNemar's exact test against a baseline",
        ("n", "worst false REGRESSED", "with 10 % of starts changed", "power, .9 then and .8 now"),
        rows,
        note=(
            "Share of runs with a two-sided exact p of at most 0.05 and more starts lost than "
            "gained; nominal is 0.025. Without a change in rate, the worst over all shares of "
            "starts that change their outcome (step 0.005); with one, for starts of which half "
            "decide for both runs."
        ),
    )
