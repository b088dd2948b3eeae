import numpy as np
import pytest

torch = pytest.importorskip("torch")

from types import SimpleNamespace

from official_weights import DREAMER_OBSERVED, dreamer

from pytest_cpg.contracts import BoxActions, WorldModelError
from pytest_cpg.world_models.checkpoints.dreamer import DreamerV3
from pytest_cpg.world_models.weights import weights_in

SETTINGS = {"action_repeat": 2, "discount": 0.997}


def reference(state, observations, actions, later):
    """Encode, imagine actions [B, H, A]; then take the first one and see `later`: in numpy."""
    gaussian = len(state["dynamics._obs_stat_layer.bias"]) == 64

    def get(name):
        return state[name].double().numpy()

    def silu(x):
        return x / (1 + np.exp(-x))

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    def normed(x, linear, norm, act=silu):
        x = x @ get(f"{linear}.weight").T
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
        return act(x * get(f"{norm}.weight") + get(f"{norm}.bias"))

    def stack(x, prefix, name, count):
        for i in range(count):
            x = normed(x, f"{prefix}.{name}_linear{i}", f"{prefix}.{name}_norm{i}")
        return x

    def plain(x, name):
        return x @ get(f"{name}.weight").T + get(f"{name}.bias")

    def hot(logits):
        if gaussian:
            return logits[:, :32]
        logits = logits.reshape(-1, 32, 32)
        return np.eye(32)[logits.argmax(-1)].reshape(-1, 1024)

    def prior(deter):
        inner = normed(deter, "dynamics._img_out_layers.0", "dynamics._img_out_layers.1")
        return hot(plain(inner, "dynamics._imgs_stat_layer"))

    def gru(deter, stoch, action):
        joint = np.concatenate([stoch, action], -1)
        x = normed(joint, "dynamics._img_in_layers.0", "dynamics._img_in_layers.1")
        cell = "dynamics._cell.layers.GRU_"
        both = np.concatenate([x, deter], -1)
        parts = normed(both, f"{cell}linear", f"{cell}norm", act=lambda x: x)
        reset, candidate, update = np.split(parts, 3, axis=-1)
        update = sigmoid(update - 1)
        return update * np.tanh(sigmoid(reset) * candidate) + (1 - update) * deter

    def embed(observed):
        if observed.ndim == 2:
            symlog = np.sign(observed) * np.log1p(np.abs(observed))
            return stack(symlog, "encoder._mlp.layers", "Encoder", 5)
        x = torch.tensor(observed[:, -1]).double().permute(0, 3, 1, 2) / 255 - 0.5
        for at in (0, 3, 6, 9):
            weight = state[f"encoder._cnn.layers.{at}.weight"].double()
            x = torch.nn.functional.conv2d(torch.nn.functional.pad(x, 4 * (1,)), weight, stride=2)
            x = (x - x.mean(1, keepdim=True)) / (x.var(1, keepdim=True, correction=0) + 1e-3).sqrt()
            gain, shift = (
                get(f"encoder._cnn.layers.{at + 1}.norm.{n}") for n in ("weight", "bias")
            )
            x = torch.tensor(silu(x.numpy() * gain[:, None, None] + shift[:, None, None]))
        return x.flatten(1).numpy()

    def see(deter, observed):
        embedded = embed(observed)
        joint = np.concatenate([deter, embedded], -1)
        inner = normed(joint, "dynamics._obs_out_layers.0", "dynamics._obs_out_layers.1")
        return hot(plain(inner, "dynamics._obs_stat_layer"))

    def symexp(x):
        return np.sign(x) * np.expm1(np.abs(x))

    def reward(deter, stoch):
        features = np.concatenate([stoch, deter], -1)
        logits = plain(
            stack(features, "heads.reward.layers", "Reward", 2), "heads.reward.mean_layer"
        )
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return symexp(weights / weights.sum(-1, keepdims=True) @ np.linspace(-20, 20, 255))

    def decode(deter, stoch):
        features = np.concatenate([stoch, deter], -1)
        inner = stack(features, "heads.decoder._mlp.layers", "Decoder", 5)
        means = [plain(inner, f"heads.decoder._mlp.mean_layer.{name}") for name in DREAMER_OBSERVED]
        return symexp(np.concatenate(means, -1))

    start = np.tanh(get("dynamics.W")).repeat(len(observations), 0)
    deter = gru(start, prior(start), np.zeros_like(actions[:, 0]))
    stoch = see(deter, observations)
    after = gru(deter, stoch, actions[:, 0])
    updated = (after, see(after, later))
    imagined = []
    for step in range(actions.shape[1]):
        deter = gru(deter, stoch, actions[:, step])
        stoch = prior(deter)
        decoded = decode(deter, stoch) if observations.ndim == 2 else deter
        imagined.append((deter, reward(deter, stoch), decoded))
    return [np.stack(parts, 1) for parts in zip(*imagined, strict=True)], updated


def test_pictures_are_read_by_convolutions_and_remembered():
    state, agent = dreamer(parts=8, depth=4, gaussian=True)
    model = DreamerV3.of(weights_in(agent, "latest.pt"), **SETTINGS)
    rng = np.random.default_rng(0)
    first, later = rng.integers(0, 256, (2, 2, 1, 64, 64, 3), dtype=np.uint8)
    actions = rng.uniform(-1, 1, size=(2, 2, 1))
    (deter, rewards, _), updated = reference(state, first, actions, later)
    latents, plans = model.encode(torch.tensor(first)), torch.tensor(actions).float()
    imagined = model.rollout(latents, plans)
    assert imagined[..., :64].numpy() == pytest.approx(deter, abs=1e-5)
    found = model.reward(imagined, plans, imagined).numpy()
    assert found == pytest.approx(rewards, rel=1e-3, abs=1e-4)
    after = model.update(latents, plans[:, 0], torch.tensor(later)).numpy()
    assert after == pytest.approx(np.concatenate(updated, axis=1), abs=1e-4)
    assert (model.picture, model.decode) == ((1, 64), None)


@pytest.mark.parametrize("gaussian", [False, True])
def test_the_ports_checkpoint_gives_what_an_independent_forward_pass_gives(tmp_path, gaussian):
    state, agent = dreamer(gaussian=gaussian)
    torch.save(agent, tmp_path / "latest.pt")
    model = DreamerV3.load(tmp_path / "latest.pt", **SETTINGS)
    rng = np.random.default_rng(0)
    observations, later = rng.normal(size=(2, 2, 6))
    actions = rng.uniform(-1, 1, size=(2, 2, 1))
    (deter, rewards, decoded), updated = reference(state, observations, actions, later)
    # As tensors: arrays are worked on in tiles of many rows, which takes a while.
    seen, plans, now = (torch.tensor(x).float() for x in (observations, actions, later))
    latents = model.encode(seen)
    imagined = model.rollout(latents, plans)
    assert imagined[..., :512].numpy() == pytest.approx(deter, abs=1e-5)
    assert model.reward(imagined, plans, imagined).numpy() == pytest.approx(
        rewards, rel=1e-3, abs=1e-4
    )
    assert model.decode(imagined).numpy() == pytest.approx(decoded, rel=1e-3, abs=1e-4)
    after = model.update(latents, plans[:, 0], now)
    assert after[:, :512].numpy() == pytest.approx(updated[0], abs=1e-5)
    if gaussian:
        assert after[:, 512:].numpy() == pytest.approx(updated[1], abs=1e-4)
    else:
        assert np.array_equal(after[:, 512:], updated[1].reshape(2, 32, 32).argmax(-1))
    # What was seen is remembered, not encoded anew.
    assert not np.allclose(after[:, :512], model.encode(now)[:, :512])


def test_an_actor_of_continuous_actions_is_the_models_policy():
    state, agent = dreamer(gaussian=True)
    own = {
        name.removeprefix("_task_behavior.actor."): value.double().numpy()
        for name, value in agent["agent_state_dict"].items()
    }
    model = DreamerV3.of(agent["agent_state_dict"], **SETTINGS, action_low=-2.0, action_high=2.0)
    rng = np.random.default_rng(0)
    latents, noise = rng.normal(size=(3, 544)), rng.normal(size=(3, 1))
    x = np.concatenate([latents[:, 512:], latents[:, :512]], axis=-1)
    for layer in range(2):
        x = x @ own[f"layers.Actor_linear{layer}.weight"].T
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3)
        x = x * own[f"layers.Actor_norm{layer}.weight"] + own[f"layers.Actor_norm{layer}.bias"]
        x = x / (1 + np.exp(-x))
    mean, spread = (
        x @ own[f"{n}_layer.weight"].T + own[f"{n}_layer.bias"] for n in ("mean", "std")
    )
    acted = np.tanh(mean) + (0.1 + 0.9 / (1 + np.exp(-spread - 2))) * noise
    given = torch.tensor(latents).float(), torch.tensor(noise).float()
    expected = 2 * np.clip(acted, -1, 1)
    assert model.policy(*given).numpy() == pytest.approx(expected, rel=1e-3, abs=1e-3)
    assert DreamerV3.of(state, **SETTINGS).policy is None
    assert DreamerV3.of(dreamer()[1]["agent_state_dict"], **SETTINGS).policy is None


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_any_precision_are_used_in_one_that_holds_them(kind):
    state, _ = dreamer()
    model = DreamerV3.of({name: value.to(kind) for name, value in state.items()}, **SETTINGS)
    own = torch.float64 if kind == torch.float64 else torch.float32
    assert {value.dtype for value in (*model.parameters(), model.bins)} == {own}
    seen, plans = torch.rand(2, 6, dtype=own), torch.rand(2, 3, 1, dtype=own)
    imagined = model.rollout(model.update(model.encode(seen), plans[:, 0], seen), plans)
    for found in (imagined, model.reward(imagined, plans, imagined), model.decode(imagined)):
        assert found.dtype == own
        assert torch.isfinite(found).all()


def test_names_of_a_compiled_agent_are_those_of_a_plain_one():
    _, agent = dreamer()
    compiled = {
        n.replace("_wm.", "_wm._orig_mod."): v for n, v in agent["agent_state_dict"].items()
    }
    read = weights_in({"agent_state_dict": compiled}, "latest.pt")
    assert read.keys() == agent["agent_state_dict"].keys()


def test_names_and_shapes_that_are_not_the_ports_are_named_with_what_it_looks_like():
    state, _ = dreamer()
    missing = {name: value for name, value in state.items() if "GRU_norm.bias" not in name}
    missing["dynamics._img_out_layers.0.weight"] = torch.zeros(512, 511)
    with pytest.raises(WorldModelError) as caught:
        DreamerV3.of(missing, **SETTINGS)
    for said in (
        "NM512/dreamerv3-torch",
        "dynamics._cell.layers.GRU_norm.bias: missing, expected [1536]",
        "dynamics._img_out_layers.0.weight: shape [512, 511], expected [512, 512]",
    ):
        assert said in str(caught.value)
    with pytest.raises(WorldModelError, match=r"action_repeat = 2"):
        DreamerV3.of(state, discount=0.997)
    with pytest.raises(WorldModelError, match=r"no setting clases. Did you mean 'classes'\?"):
        DreamerV3.of(state, **SETTINGS, clases=32)
    with pytest.raises(WorldModelError, match=r"classes: got '32'. Write classes = 32  #"):
        DreamerV3.of(state, **SETTINGS, classes="32")
    with pytest.raises(WorldModelError, match=r"\['velocity'\], and the checkpoint reads"):
        DreamerV3.of(state, **SETTINGS, obs_keys="velocity")
    task = SimpleNamespace(
        name="reacher",
        observation_size=6,
        actions=BoxActions(np.array([-1.0]), np.array([1.0])),
        action_repeat=1,
    )
    with pytest.raises(WorldModelError, match="action_repeat=2"):
        DreamerV3.of(state, **SETTINGS).for_task(task)
