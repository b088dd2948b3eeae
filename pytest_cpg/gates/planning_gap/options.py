"""Options of the planning gap.

Loaded in every session, with gates or without, and so as small as can be.
"""

from __future__ import annotations

from pytest_cpg.gates.arguments import Option, between, one_of, whole

# What is fixed where little or something else is to be shown.
_SIZES = {
    "quick": "a smoke test runs two episodes of every arm",
    "replay": "a replay is of the episodes that were lost",
}
_MOST_EPISODES = 1_000_000
OPTIONS = (
    Option(
        "episodes",
        whole(1, _MOST_EPISODES),
        "int",
        50,
        "N",
        "episodes per arm (default 50)",
        overruled=_SIZES,
    ),
    Option(
        "tolerance",
        between(0, 0.5),
        "float",
        0.05,
        "RATE",
        "how near to 0 or 1 a success rate counts as such, in (0, 0.5) (default 0.05)",
    ),
    Option(
        "interval",
        one_of("auto", "agresti-caffo", "bonett-price", "tango"),
        "string",
        "auto",
        "METHOD",
        "what bounds the gap and judges it: agresti-caffo, or the paired bonett-price or tango "
        "(default auto: agresti-caffo, and tango with a margin or a correction)",
    ),
    Option(
        "stop",
        one_of("fixed", "sequential", "anytime"),
        "string",
        "fixed",
        "RULE",
        "run all episodes (fixed, default), or stop as soon as the verdict is settled: at a few "
        "looks with an exact boundary (sequential), or nearly anywhere (anytime)",
        overruled=_SIZES,
    ),
    Option(
        "max_episodes",
        whole(1, _MOST_EPISODES),
        "int",
        150,
        "N",
        "the most episodes per arm of a gate that may stop early (default 150)",
        overruled=_SIZES,
    ),
    Option(
        "oracle_episodes",
        whole(0, _MOST_EPISODES),
        "int",
        0,
        "N",
        "episodes of the oracle arm when it is to have more than the others (default: as many)",
        overruled=_SIZES,
    ),
    Option(
        "diagnose",
        one_of("auto", "always", "never"),
        "string",
        "auto",
        "WHEN",
        "say why a gap is there, from some episodes that are run again: of every MODEL or PLANNER "
        "BOTTLENECK (auto, default), of every gate (always), or never; docs/diagnosis.md says how",
        is_for_one_gate=False,
    ),
)
