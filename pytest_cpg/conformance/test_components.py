"""What must be there: something to try, so that a misspelt fixture is not taken for a success."""

from __future__ import annotations

import pytest

_KINDS = ("task", "planner", "model")


def test_there_is_a_component_to_try(request: pytest.FixtureRequest) -> None:
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


__all__ = [name for name in dir() if name.startswith("test_")]
