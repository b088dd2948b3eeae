"""As trained: the planner that a model says it is planned with, in place of one in the marker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from pytest_cpg.contracts import (
    ComponentError,
    Planner,
    PlannerFactory,
    Plans,
)
from pytest_cpg.contracts.lookup import check_complete, lookup
from pytest_cpg.contracts.parts import has
from pytest_cpg.contracts.world_model import TrainedPlanner
from pytest_cpg.episodes.design import Design, replaced

# What a marker writes for its planner.
AS_TRAINED = "as-trained"

_NONE = """\
planner="as-trained": this {kind} does not say how it is planned with. Write
    planner = {{ name = "icem", horizon = 20 }}
into the .toml file beside a checkpoint, or give the model an attribute
    trained_planner = {{"name": "icem", "horizon": 20}}
or name a planner: planner="icem"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AsTrained:
    """Stands for a model's own choice until the model is there.

    Attributes
    ----------
    planners : mapping
        What a model may name.
    horizon : int
        Steps that a plan looks ahead; 0 where the marker leaves that to the model.
    """

    planners: Mapping[str, PlannerFactory] = field(repr=False)
    horizon: int = 0
    name: ClassVar[str] = AS_TRAINED

    def plan(self, *_: Any) -> Plans:
        """Raise ComponentError: several models may have been trained with as many planners."""
        raise ComponentError(
            'planner="as-trained" is the planner of one model, and here several are planned with '
            'the same. Name it: planner="tdmpc2".'
        )


def as_trained(design: Design, model: Any) -> Design:
    """Return a design with the planner that the model names, where it is left to the model.

    Raises ComponentError when the model names none, or one that cannot be made.
    """
    asked = design.planner
    if not isinstance(asked, AsTrained):
        return design
    if not has(model, TrainedPlanner):
        raise ComponentError(_NONE.format(kind=type(model).__name__))
    planner = _made(model.trained_planner, asked.planners)
    return replace(design, planner=replaced("planner", planner, "horizon", asked.horizon or None))


def _made(given: Any, planners: Mapping[str, PlannerFactory]) -> Planner:
    """Return the planner that a model gives, or names with its settings."""
    where = 'planner="as-trained": the model'
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        settings = {key: value for key, value in given.items() if key != "name"}
        factory = lookup("planner", given["name"], planners)
        try:
            return check_complete("planner", given["name"], factory(**settings), Planner)
        except (TypeError, ValueError) as error:
            raise ComponentError(f"{where} says {dict(given)!r}: {error}") from None
    if isinstance(given, Planner) and not isinstance(given, type):
        return given
    raise ComponentError(
        f"{where} has trained_planner = {given!r}. Give a Planner, or its name and settings: "
        f'{{"name": "icem", "horizon": 20}}.'
    )
