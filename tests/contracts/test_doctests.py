"""The examples in docstrings are true, in every module that can be imported here."""

import doctest
import importlib
import pkgutil

import pytest

import pytest_cpg
from pytest_cpg.contracts import ComponentError

MODULES = [module.name for module in pkgutil.walk_packages(pytest_cpg.__path__, "pytest_cpg.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name):
    try:
        module = importlib.import_module(name)
    except (ComponentError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    assert doctest.testmod(module).failed == 0


def test_the_statistics_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    module = importlib.import_module("pytest_cpg.stats.agresti_caffo")
    assert sum(bool(test.examples) for test in finder.find(module)) >= 3
