"""The examples in docstrings are true, in every module with some that can be imported here."""

import doctest
import importlib
from pathlib import Path

import pytest

import pytest_cpg
from pytest_cpg.contracts import ComponentError

FOLDER = Path(pytest_cpg.__file__).parent
# To look for examples takes longer than to run them.
WITH_EXAMPLES = [
    ".".join(path.relative_to(FOLDER.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(FOLDER.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings_are_true(name):
    try:
        module = importlib.import_module(name)
    except (ComponentError, ModuleNotFoundError) as error:
        pytest.skip(str(error))
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def test_the_statistics_have_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    module = importlib.import_module("pytest_cpg.stats.power")
    assert sum(bool(test.examples) for test in finder.find(module)) >= 3
