"""Refusals: what is wrong with several things that were asked for, told at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_cpg.contracts.errors import ComponentError


def all_answers(*questions: Callable[[], Any]) -> list[Any]:
    """Return the answer to each question; raise what refuses one, of several a line for each.

    A question refuses by ValueError or ComponentError.

    >>> all_answers(lambda: 1, lambda: int("two"), lambda: float("three"))
    Traceback (most recent call last):
    pytest_cpg.contracts.errors.ComponentError: invalid literal for int() with base 10: 'two'
    could not convert string to float: 'three'
    """
    answers, refused = [], []
    for question in questions:
        try:
            answers.append(question())
        except (ValueError, ComponentError) as error:
            refused.append(error)
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise ComponentError("\n".join(str(getattr(error, "whole", error)) for error in refused))
    return answers
