"""What must be there: something to try, so that a misspelt fixture is not taken for a success."""

from __future__ import annotations

import pytest

__all__ = ["test_there_is_a_component_to_try"]

_KINDS = ("task", "planner", "model")


def test_there_is_a_component_to_try(request: pytest.FixtureRequest) -> None:
    """One of the fixtures is overridden."""
    for kind in _KINDS:
        try:
            request.getfixturevalue(f"conformance_{kind}")
        except pytest.skip.Exception:
            continue
        return
    pytest.fail(
        "no component was tried: none of the fixtures conformance_task, conformance_planner and "
        "conformance_model is in reach. Write one, spelt like that, into the conftest.py of the "
        "folder that pytest is started in.",
        pytrace=False,
    )
