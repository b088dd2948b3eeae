"""Marker: what a test asks of its gate, its markers and the session's options merged."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cpg.gates.arguments import COMMON
from pytest_cpg.gates.asking import asked_of, checked_by, example
from pytest_cpg.gates.kind import Components, GateKind, MaxVerdict, TaskChoice
from pytest_cpg.gates.parts import offers
from pytest_cpg.plugin.settings import Settings

if TYPE_CHECKING:
    from pytest_cpg.contracts import WorldModelFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One test's gate: its markers and the session's settings, checked and complete.

    A kind without a task has None for it. ``timeout`` is in seconds, 0 for no limit; ``model`` is
    empty where the test brings its own, and typed where it is named for the whole session, and so
    wins over a fixture.
    """

    kind: GateKind[Any, Any]
    spec: Any
    task: TaskChoice | None
    id: str
    max_verdict: MaxVerdict
    drift: str
    timeout: float
    model: str
    is_model_typed: bool
    make_model: WorldModelFactory | None
    is_smoke: bool

    @property
    def can_replay(self) -> bool:
        """Whether lost episodes can be run again: by its kind, and on a task."""
        return offers(self.kind, "replay") and self.task is not None and not self.is_smoke


def gate_of(
    markers: Iterable[pytest.Mark],
    kind: GateKind[Any, Any],
    settings: Settings,
    components: Components,
    *,
    nodeid: str,
    family_size: int = 1,
) -> Gate:
    """Merge a test's markers, closest first, with the settings, and have the kind check all of it.

    Raises ValueError or ComponentError with what to type instead, naming all names and values that
    are wrong, or else all that they name and there is not.
    """
    from pytest_cpg.world_models.checkpoints.source import factory_of

    arguments, said = (*kind.arguments, *COMMON), []
    for marker in markers:
        if marker.args:
            raise ValueError(
                f"the marker takes keyword arguments only, got {marker.args[0]!r}. "
                f"Write @pytest.mark.{kind.marker}({arguments[0].name}={marker.args[0]!r})."
            )
        said.append(marker.kwargs)
    asked = asked_of(
        said,
        arguments,
        settings,
        components,
        place="the marker",
        usage=example(kind),
        family_size=family_size,
    )
    values = asked.values
    model = values["model"]
    named = partial(
        factory_of,
        model,
        components.world_models,
        trusted=asked.options["trust"],
        checkpoint_readers=components.checkpoint_readers,
    )
    spec, max_verdict, make_model = checked_by(
        kind,
        asked,
        named if model else lambda: None,
    )
    return Gate(
        kind=kind,
        spec=spec,
        task=getattr(spec, "task", None),
        id=values["id"] or nodeid,
        max_verdict=max_verdict,
        drift=values["drift"],
        timeout=values["timeout"],
        model=model,
        is_model_typed=bool(model) and asked.sources["model"] == "session",
        make_model=make_model,
        is_smoke=asked.is_smoke,
    )
