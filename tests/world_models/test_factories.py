import pytest

from pytest_cpg.contracts import ComponentError
from pytest_cpg.world_models.checkpoints.source import factory_of, made, named


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
    assert made("own:alone", lambda: "alone", "task") == "alone"
    assert made("own:given", lambda given: given, "task") == "task"
    assert made("own:sized", lambda size=3, *, task=None: (size, task), "task") == (3, "task")
    assert made("own:rest", lambda *rest, **more: (rest, more), "task") == ((), {})
    assert made("own:dict", dict, []) == {}


FACTORIES = """
class Model:
    def rollout(self, latents, actions): ...

model = Model()
def two(observations, actions): ...
def named(*, size): ...
def nothing(): ...
def fixture(task=None): yield Model()
def right(*, task): return Model()
"""


@pytest.fixture
def factories(tmp_path, monkeypatch):
    """Put a module of factories, and a checkpoint, where pytest was started."""
    (tmp_path / "factories.py").write_text(FACTORIES)
    (tmp_path / "ok.pt").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("factories")
    __import__("sys").modules.pop("factories")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("factories:two", r"'factories:two' takes \(observations, actions\), and is called with"),
        ("factories:named", r"takes \(\*, size\), and is called with the task or with nothing"),
        ("factories:model", "'factories:model' is a model itself. Name a function that returns it"),
        ("factories.py", r"'factories.py' is a file of code.*here 'factories:factory', with"),
        ("factories.py:right", r"Write module:factory, here 'factories:right'"),
        ("own/factories.py", r"Write module:factory, here 'own\.factories:factory'"),
        ("ok.PT", "Did you mean 'ok.pt'"),
        ("ok", "no world model named 'ok'. Did you mean 'ok.pt'. Give module:factory"),
        ("oks.pt", "no model file 'oks.pt'. Did you mean 'ok.pt'. It was looked for"),
    ],
)
def test_what_makes_no_model_is_told_what_to_name(factories, text, message):
    del factories
    with pytest.raises(ComponentError, match=message):
        factory_of(text, {})


@pytest.mark.parametrize(("name", "said"), [("nothing", "returned None"), ("fixture", "yields")])
def test_a_factory_that_returns_no_model_is_named(factories, name, said):
    with pytest.raises(ComponentError, match=rf"'factories:{name}' {said}"):
        factory_of(f"factories:{name}", {})("task")
    assert isinstance(factory_of("factories:right", {})("task"), factories.Model)


def test_a_model_is_a_registered_name_or_a_factory_or_a_file(tmp_path):
    assert factory_of("mlp", {"mlp": len}) is len
    for text, said in (
        ("mlpp", "Did you mean 'mlp'"),
        ("runs/model.pt", "no model file 'runs/model.pt'"),
        ("json:__name__", "cannot be called"),
    ):
        with pytest.raises(ComponentError, match=said):
            factory_of(text, {"mlp": len})
