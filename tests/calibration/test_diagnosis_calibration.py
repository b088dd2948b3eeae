"""Which cause a diagnosis names for models whose fault is known, and for models without one."""

from collections import Counter

import pytest
from faulty_models import faults, named

from pytest_cpg.stats import Verdict

# The thresholds were set on seeds 0 to 9.
SEEDS = range(100, 110)
EPISODES = 30


@pytest.mark.slow
def test_the_right_cause_is_named_for_every_constructed_fault(statistics_page):
    rows, wrong, missed = [], [], []
    for name, fault in faults().items():
        # Harmless models have no gap: as if theirs had been found by chance.
        verdict = Verdict.MODEL_BOTTLENECK if fault.is_harmless else None
        counts = Counter(
            named(fault, seed=seed, episodes=EPISODES, verdict=verdict).cause.value
            for seed in SEEDS
        )
        right, others = counts[fault.cause], set(counts) - {fault.cause, "NONE"}
        rows.append((name, fault.cause, right, counts["NONE"] if fault.cause != "NONE" else 0))
        rows[-1] += (", ".join(sorted(others)) or "none",)
        wrong += [name] * bool(others)
        missed += [name] * (right < 0.9 * len(SEEDS))
    statistics_page.table(
        "Diagnosis: causes named for constructed faults",
        ("fault", "right cause", "named", "no cause named", "wrong causes"),
        rows,
        note=(
            f"Gates of {EPISODES} episodes with a puck in the plane (tests/faulty_models.py), CEM, "
            f"seeds {SEEDS[0]} to {SEEDS[-1]} each; the thresholds were set on others. Models "
            f"without a fault are diagnosed as if their verdict were MODEL BOTTLENECK."
        ),
    )
    assert not wrong
    assert not missed
