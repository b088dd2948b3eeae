"""Options: what the command line, the environment and the ini file may say, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from pytest_cpg.gates import PREFIX
from pytest_cpg.gates.arguments import level, model_name, one_of, optional_digests, seconds, whole


class Option(NamedTuple):
    """One option, which may be given on the command line, in the environment and the ini file.

    ``parse`` returns the value that is meant, or raises ArgumentTypeError with what to write
    instead. One may be for one gate, so that a marker may give it, too; for one run, on the command
    line only; or for projects, in the ini file only, which may have a text where its default is a
    number. What leaves it without a part, such as ``"quick"``, is in ``overruled``, with why.
    """

    name: str
    parse: Callable[[Any], Any]
    default: Any
    metavar: str
    help: str
    is_for_one_gate: bool = True
    is_for_one_run: bool = False
    is_for_projects: bool = False
    overruled: Mapping[str, str] = MappingProxyType({})

    @property
    def kind(self) -> Literal["int", "float", "string"]:
        """Type of the ini value, as pytest names it."""
        if not isinstance(self.default, int | float):
            return "string"
        return "int" if isinstance(self.default, int) else "float"

    @property
    def flag(self) -> str:
        """As typed on the command line."""
        return f"--cpg-{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """As set in the environment."""
        return f"{PREFIX}{self.name.upper()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What is set for more than one gate.

    Values that are ``typed`` win over what is asked of one gate; ``project`` has those of all
    options where nobody gives another one. ``switches`` are turned on, such as ``"quick"``.
    """

    options: Mapping[str, Option]
    typed: Mapping[str, Any]
    project: Mapping[str, Any]
    switches: frozenset[str] = frozenset()


# What is fixed where little or something else is to be shown.
_SIZES = {
    "quick": "a smoke test runs two episodes of every arm",
    "replay": "a replay is of the episodes that were lost",
}
_MOST_EPISODES = 1_000_000
OF_PLANNING_GAP = (
    Option(
        "episodes",
        whole(1, _MOST_EPISODES),
        50,
        "N",
        "episodes per arm (default 50)",
        overruled=_SIZES,
    ),
    Option(
        "stop",
        one_of("fixed", "sequential"),
        "fixed",
        "RULE",
        "run all episodes (fixed, default), or stop as soon as the verdict is settled, at a few "
        "looks with an exact boundary (sequential)",
        overruled=_SIZES,
    ),
    Option(
        "max_episodes",
        whole(1, _MOST_EPISODES),
        150,
        "N",
        "the most episodes per arm of a gate that may stop early (default 150)",
        overruled=_SIZES,
    ),
    Option(
        "diagnose",
        one_of("auto", "always", "never"),
        "auto",
        "WHEN",
        "say why a gap is there, from some episodes that are run again: of every MODEL or PLANNER "
        "BOTTLENECK (auto, default), of every gate (always), or never; docs/diagnosis.md says how",
        is_for_one_gate=False,
    ),
)

OF_ALL_GATES = (
    Option(
        "seed",
        whole(0, 2**63 - 1),
        0,
        "SEED",
        "seed of starts and planner noise (default 0)",
        overruled={"replay": "a replay is of the episodes that were lost"},
    ),
    Option(
        "confidence",
        level,
        0.95,
        "LEVEL",
        "level of every interval, in (0, 1) (default 0.95)",
    ),
    Option(
        "timeout",
        seconds,
        0.0,
        "SECONDS",
        "time limit of a comparison; a longer one is INCOMPLETE, and its gate fails (default: no "
        "limit)",
    ),
    Option(
        "drift",
        one_of("off", "warn", "fail"),
        "warn",
        "MODE",
        "compare gates with the baseline: never (off), in the summary (warn, default), or with the "
        "failure of each gate that regressed or cannot be compared (fail)",
    ),
    Option(
        "model",
        model_name,
        "",
        "MODEL",
        "the learned model of every gate: a registered name, module:factory, or the path of a "
        "checkpoint (default: what the marker names, or the learned_dynamics fixture)",
    ),
    Option(
        "trust",
        optional_digests,
        "",
        "DIGESTS",
        "model files that may run code of their own, by sha256:DIGEST, commas between several "
        "(default: none; programs of torch.export and TorchScript are refused)",
        is_for_one_gate=False,
    ),
)
