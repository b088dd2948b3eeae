"""Components that hooks contribute, in one table."""

import pytest

from pytest_cpg.contracts import ComponentError
from pytest_cpg.plugin.item import merge


def test_contributions_are_merged_and_empty_ones_ignored():
    assert merge("task", [{"a": int}, None, {}, {"b": str}]) == {"a": int, "b": str}


def test_two_components_of_one_name_are_refused():
    with pytest.raises(ComponentError, match="two world models are named 'mlp'"):
        merge("world model", [{"mlp": int}, {"mlp": str}])


def test_a_hook_that_returns_no_mapping_is_told_so():
    with pytest.raises(ComponentError, match="a pytest_cpg_tasks hook returned \\['maze'\\]"):
        merge("task", [["maze"]])


def test_a_hook_that_gives_an_object_for_a_factory_is_told_so():
    with pytest.raises(ComponentError, match=r"planner 'mine' of a .* is 7. Return what makes it"):
        merge("planner", [{"mine": 7}])
