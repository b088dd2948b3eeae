import json
from inspect import signature
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from official_weights import dreamer, tdmpc2

from pytest_cpg.contracts import ComponentError, WorldModelError
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models.checkpoints import readers
from pytest_cpg.world_models.checkpoints.dreamer import DreamerV3
from pytest_cpg.world_models.checkpoints.tdmpc2 import TDMPC2
from pytest_cpg.world_models.weights import read_weights

SETTINGS = 'obs_keys = ["position"]\naction_repeat = 1\nsimnorm_dim = 8\ndiscount = 0.99\n'
NETWORK = """
import torch

class Network(torch.nn.Module):
    def __init__(self, hidden=3):
        super().__init__()
        self.inner = torch.nn.Linear(4, hidden)
        self.outer = torch.nn.Linear(hidden, 2)

    def forward(self, observations, actions):
        return self.outer(torch.tanh(self.inner(torch.cat([observations, actions], -1))))

class Open(Network):
    def __init__(self, **options):
        super().__init__()

class Lazy(Network):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.LazyLinear(3)

class Counted(Network):
    def get_extra_state(self):
        return {"epochs": 3}

    def set_extra_state(self, state): ...
"""


@pytest.fixture
def networks(tmp_path, monkeypatch):
    """Put a module with a network of the user's own where pytest was started."""
    (tmp_path / "networks.py").write_text(NETWORK)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("networks")
    __import__("sys").modules.pop("networks")


def test_an_official_checkpoint_is_known_by_its_names_and_completed_by_the_file_beside_it(tmp_path):
    file = tmp_path / "model.pt"
    torch.save({"model": tdmpc2(observation=2, action=2, bins=11)}, file)
    with pytest.raises(WorldModelError, match=r"simnorm_dim = 8"):
        readers.load(file, maze())
    (tmp_path / "model.toml").write_text(SETTINGS)
    model = readers.load(file, maze())
    assert isinstance(model, TDMPC2)
    assert (model.discount, model.obs_keys) == (0.99, ("position",))
    assert readers.load(file, discount=0.9).discount == 0.9
    (tmp_path / "model.json").write_text("{}")
    with pytest.raises(WorldModelError, match=r"two side files, model\.toml and model\.json"):
        readers.load(file)


def test_the_example_of_a_setting_is_of_the_task_at_hand(tmp_path):
    torch.save({"model": tdmpc2(observation=2, action=2, bins=11)}, tmp_path / "model.pt")
    task = SimpleNamespace(name="cart", observation_keys={"place": 1, "speed": 1})
    with pytest.raises(WorldModelError) as said:
        readers.load(tmp_path / "model.pt", task)
    assert '    obs_keys = ["place", "speed"]  # of cart; in the order of training' in str(
        said.value
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"simnorm": "8"}, r"TDMPC2 has no setting simnorm\. Did you mean 'simnorm_dim'\?"),
        ({"zeal": "8"}, "no setting zeal. Known: action_high, .*, simnorm_dim, task_index"),
        ({"simnorm_dim": '"8"'}, "simnorm_dim: got '8'. Write simnorm_dim = 8  #"),
        ({"simnorm_dim": "8.0"}, "simnorm_dim: got 8.0. Write simnorm_dim = 8  #"),
        ({"discount": '"0.99"'}, "discount: got '0.99'. Write discount = 0.99  #"),
        ({"discount": "true"}, "discount: got True. Write discount = 0.99  #"),
        ({"action_low": '"-1"'}, "action_low: got '-1'. Write action_low = -1.0  #"),
        ({"obs_keys": "[1]"}, r"obs_keys: got \[1\]. Write obs_keys = \[\"orientations"),
        ({"obs_keys": "3"}, r"obs_keys: got 3. Write obs_keys = \[\"orientations"),
    ],
)
def test_settings_of_an_official_checkpoint_say_what_to_write(tmp_path, change, message):
    torch.save(tdmpc2(observation=2, action=2, bins=11), tmp_path / "model.pt")
    said = dict(line.split(" = ") for line in SETTINGS.splitlines())
    lines = [f"{name} = {value}\n" for name, value in (said | change).items()]
    (tmp_path / "model.toml").write_text("".join(lines))
    with pytest.raises(WorldModelError, match=message):
        readers.load(tmp_path / "model.pt")


def test_the_observation_keys_of_a_task_may_be_given_as_they_are():
    keys = {"position": 1, "velocity": 1}
    weights = tdmpc2(observation=2, action=2, bins=11)
    model = TDMPC2.of(weights, obs_keys=keys, action_repeat=1, simnorm_dim=8, discount=0.99)
    assert model.obs_keys == ("position", "velocity")


def test_every_setting_of_an_official_checkpoint_has_an_example():
    for model in (TDMPC2, DreamerV3):
        parameters = signature(model.__init__).parameters.values()
        named = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
        assert sorted(named) == sorted([*model.NEEDED, *model.OTHERS])


def test_a_misspelt_name_is_shown_beside_the_one_it_is_meant_to_be(tmp_path):
    (tmp_path / "model.toml").write_text(SETTINGS)
    state = tdmpc2(observation=2, action=2, bins=11)
    state["_encoder.state.0.weigth"] = state.pop("_encoder.state.0.weight")
    torch.save({"model": state}, tmp_path / "model.pt")
    with pytest.raises(WorldModelError) as caught:
        readers.load(tmp_path / "model.pt")
    found = [line.strip() for line in str(caught.value).splitlines()[1:-1]]
    assert found == [
        "_encoder.state.0.weight: missing; is '_encoder.state.0.weigth', shape [256, 2], meant to "
        "be it?"
    ]
    state["_encoder.state.0.weights"] = state.pop("_encoder.state.0.weigth")
    torch.save({"model": state}, tmp_path / "model.pt")
    with pytest.raises(WorldModelError, match=r"missing; is '_encoder\.state\.0\.weights'"):
        readers.load(tmp_path / "model.pt")


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("_dynamics.0.weight", "_dynamics.0.weight: missing"),
        ("_reward.0.weight", "_reward.0.weight: missing, expected [384, 130]"),
        ("_pi.0.weight", "_pi.0.weight: missing, expected [384, 128]"),
        ("_Qs.params.0.weight", "_Qs.params.0.weight: missing"),
    ],
)
def test_a_checkpoint_is_known_by_most_of_its_names(tmp_path, name, problem):
    state = tdmpc2(observation=2, action=2, bins=11)
    del state[name]
    torch.save(state, tmp_path / "model.pt")
    (tmp_path / "model.toml").write_text(SETTINGS)
    with pytest.raises(
        WorldModelError, match="weights of a TD-MPC2 on state observations"
    ) as caught:
        readers.load(tmp_path / "model.pt")
    assert f"\n  {problem}\n" in str(caught.value)


def test_a_dreamer_is_known_by_most_of_its_names_and_by_those_below_a_prefix(tmp_path):
    own = dreamer()[1]["agent_state_dict"]
    (tmp_path / "model.toml").write_text("action_repeat = 1\ndiscount = 0.99\n")
    torch.save({k: v for k, v in own.items() if "GRU_linear" not in k}, tmp_path / "model.pt")
    with pytest.raises(
        WorldModelError, match=r"DreamerV3(.|\n)*GRU_linear\.weight: missing, .* \[1536, 1024\]\n"
    ):
        readers.load(tmp_path / "model.pt")
    torch.save({f"agent.{k}": v for k, v in own.items()}, tmp_path / "model.pt")
    with pytest.raises(WorldModelError, match=r"DreamerV3 .* begin with 'agent\._wm\.' in this"):
        readers.load(tmp_path / "model.pt")


@pytest.mark.parametrize(("prefix", "hint"), [("module.", r" .DataParallel"), ("agent.", " in")])
def test_a_prefix_of_an_official_checkpoint_is_named_with_what_to_save(tmp_path, prefix, hint):
    state = {prefix + k: v for k, v in tdmpc2(observation=2, action=2, bins=11).items()}
    torch.save(state, tmp_path / "model.pt")
    (tmp_path / "model.toml").write_text(SETTINGS)
    with pytest.raises(
        WorldModelError, match=rf"TD-MPC2 .* begin with '{prefix}'{hint}.*network\.{prefix}state_d"
    ):
        readers.load(tmp_path / "model.pt")


def test_weights_and_the_path_of_their_class_give_the_network(tmp_path, networks):
    own = networks.Network(hidden=5)
    torch.save({"state_dict": own.state_dict(), "epoch": 3}, tmp_path / "model.ckpt")
    with pytest.raises(WorldModelError, match=r"class = \"package\.module:Network\""):
        readers.load("model.ckpt")
    side = {"class": "networks:Network", "arguments": {"hidden": 5}}
    (tmp_path / "model.json").write_text(json.dumps(side))
    given = torch.rand(3, 2), torch.rand(3, 2)
    assert torch.equal(readers.load("model.ckpt")(*given), own(*given))
    (tmp_path / "model.json").write_text(json.dumps({**side, "arguments": {}}))
    with pytest.raises(WorldModelError, match=r"inner\.weight: shape \[5, 4\], expected \[3, 4\]"):
        readers.load("model.ckpt")
    (tmp_path / "model.json").write_text(json.dumps({"class": "networks:Netwrk"}))
    with pytest.raises(ComponentError, match=r"'networks' has no 'Netwrk'"):
        readers.load("model.ckpt")


def test_safetensors_and_the_path_of_a_class_give_the_network(tmp_path, networks):
    stored = pytest.importorskip("safetensors.torch")
    own = networks.Network()
    stored.save_file(own.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "model.toml").write_text('class = "networks:Network"\n')
    observations, actions = np.random.default_rng(0).normal(size=(2, 3, 2))
    model = readers.load("model.safetensors")
    w = {name: value.numpy() for name, value in own.state_dict().items()}
    joined = np.concatenate([observations, actions], -1)
    inner = np.tanh(joined @ w["inner.weight"].T + w["inner.bias"])
    expected = inner @ w["outer.weight"].T + w["outer.bias"]
    found = model(torch.tensor(observations).float(), torch.tensor(actions).float())
    assert found.detach().numpy() == pytest.approx(expected, abs=1e-5)


def test_sparse_weights_are_read(tmp_path):
    graph = torch.eye(3).to_sparse()
    torch.save({"graph": graph}, tmp_path / "model.pt")
    found = read_weights(tmp_path / "model.pt")["graph"]
    assert torch.equal(found.to_dense(), graph.to_dense())


def test_a_file_without_weights_is_refused(tmp_path):
    (tmp_path / "model.pt").write_bytes(b"no model")
    with pytest.raises(WorldModelError, match=r"model\.pt' .*"):
        readers.load(tmp_path / "model.pt")
    with pytest.raises(WorldModelError, match="there is no model file"):
        readers.load(tmp_path / "other.pt")


@pytest.fixture
def stored(tmp_path, networks):
    """Return what writes the side file of a network's weights, and loads them."""
    torch.save(networks.Network().state_dict(), tmp_path / "model.pt")

    def load(side, task=None):
        (tmp_path / "model.toml").write_text(side)
        return readers.load("model.pt", task)

    return load


OWN = 'class = "networks:Network"\n'


@pytest.mark.parametrize(
    ("side", "message"),
    [
        (f"{OWN}discont = 0.9", r"its settings have discont, which changes nothing.*Known: action"),
        (f"{OWN}obs_key = []", r"obs_key, .* Did you mean 'obs_keys'\?"),
        (f"{OWN}action_repeat = 4", r"with action_repeat=4, and 'maze' holds an action for 1"),
        (f'{OWN}action_repeat = "1"', r"with action_repeat='1', and 'maze' holds"),
        (f"{OWN}arguments = {{ hiden = 8 }}", r"'hiden': 8\} do not suit .*hidden=3.* unexpected"),
        (f'{OWN}arguments = "hidden"', r"arguments: need what the constructor takes .* 'hidden'"),
        (
            'class = "networks:Open"\narguments = { self = 1 }',
            r"'self': 1\} do not suit networks:Open\(\*\*options\): multiple values .*'self'",
        ),
        ('class = "networks:Lazy"', "inner.weight of networks:Lazy has no shape before its first"),
        (
            'class = "networks:Counted"',
            "_extra_state of networks:Counted is no tensor, .*Write --cpg-model=module:factory",
        ),
        ("class = 3", r'need the path of a class, "package.module:Network", got 3'),
        ('class = "networks:torch"', r"class = 'networks:torch' is <module 'torch'"),
        ('class = "builtins:dict"', r"'builtins:dict' is of Python's own modules"),
        ('class = "pytest:Item"', r"'pytest:Item' is <class .*>, and no class of torch\.nn"),
        ('clas = "networks:Network"', r"in 'model.toml', where class is missing \(it has clas\)"),
        ("", r"in 'model.toml', where class is missing \(it is empty\)"),
    ],
)
def test_a_side_file_that_makes_no_network_or_says_something_in_vain_is_told_so(
    stored, side, message
):
    with pytest.raises(WorldModelError, match=message):
        stored(side, maze())


def test_what_a_side_file_says_of_training_holds_for_a_class_too(stored):
    keyed = SimpleNamespace(name="keyed", observation_keys={"position": 1, "velocity": 1})
    said = 'class = "networks:Network"\naction_repeat = 1\nobs_keys = ["position", "velocity"]\n'
    assert stored(said, keyed).inner.out_features == 3
    with pytest.raises(WorldModelError, match=r"'maze' has no names of .* Leave obs_keys out"):
        stored(said, maze())
    for order in ('["velocity", "position"]', '["nonsense"]', "7"):
        with pytest.raises(WorldModelError, match=r"observes \['position', 'velocity'\], in that"):
            stored(f'class = "networks:Network"\nobs_keys = {order}\n', keyed)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "torch.save: it is empty. Save the"), (b"hello you", "it begins with b'hello you'")],
)
def test_a_file_that_torch_did_not_write_is_described(tmp_path, content, message):
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(WorldModelError, match=message):
        readers.load(tmp_path / "model.pt")


def test_names_of_a_wrapped_network_are_told_by_their_prefix(tmp_path, networks):
    weights = networks.Network().state_dict()
    torch.save({f"module.{name}": value for name, value in weights.items()}, tmp_path / "model.pt")
    (tmp_path / "model.toml").write_text('class = "networks:Network"')
    with pytest.raises(WorldModelError, match=r"'module\.' .DataParallel adds it.*module\.state"):
        readers.load("model.pt")
