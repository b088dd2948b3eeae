import pytest

from pytest_cpg.contracts import ComponentError
from pytest_cpg.model_source import factory_of
from pytest_cpg.world_models.factories import made, named


def test_a_name_in_a_module_is_found_and_mistakes_are_named():
    assert named("collections.abc:Mapping.get").__name__ == "get"
    for text, said in (
        ("nothing_here:model", "no module 'nothing_here'"),
        ("json.nothing:model", "no module 'json.nothing'"),
        ("json:modl", "'json' has no 'modl'"),
        ("json:", "Write module:name"),
    ):
        with pytest.raises(ComponentError, match=said):
            named(text)


def test_a_factory_is_given_the_task_if_it_has_a_place_for_it():
    assert made(lambda: "alone", "task") == "alone"
    assert made(lambda given: given, "task") == "task"
    assert made(lambda size=3, *, task=None: (size, task), "task") == (3, "task")
    assert made(dict, []) == {}


def test_a_model_is_a_registered_name_or_a_factory_or_a_file(tmp_path):
    assert factory_of("mlp", {"mlp": len}) is len
    for text, said in (
        ("mlpp", "Did you mean 'mlp'"),
        ("runs/model.pt", "no model file 'runs/model.pt'"),
        ("json:__name__", "cannot be called"),
    ):
        with pytest.raises(ComponentError, match=said):
            factory_of(text, {"mlp": len})
