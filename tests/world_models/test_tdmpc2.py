import math
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from types import SimpleNamespace

from official_weights import tdmpc2, tdmpc2_before, tdmpc2_december

from pytest_cpg.contracts import BoxActions, WorldModelError
from pytest_cpg.world_models import inference
from pytest_cpg.world_models.binding.mish import mish
from pytest_cpg.world_models.checkpoints.tdmpc2 import TDMPC2

SETTINGS = {
    "obs_keys": ["orientations", "velocity"],
    "action_repeat": 2,
    "simnorm_dim": 8,
    "discount": 0.99,
}


def forward(state, prefix, inputs, *, last, member=None):
    """Compute one network in numpy, in double precision."""
    x = inputs
    names = [n for n in state if n.startswith(f"{prefix}.") and n.endswith(".weight")]
    count = 1 + max(int(n.removeprefix(f"{prefix}.").split(".")[0]) for n in names)
    for layer in range(count):

        def get(name, layer=layer):
            value = state[f"{prefix}.{layer}.{name}"].double().numpy()
            return value if member is None else value[member]

        x = x @ get("weight").T + get("bias")
        if f"{prefix}.{layer}.ln.weight" not in state:
            continue
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        x = x * get("ln.weight") + get("ln.bias")
        if layer < count - 1 or last == "mish":
            x = x * np.tanh(np.log1p(np.exp(x)))
        else:
            groups = np.exp(x.reshape(*x.shape[:-1], -1, 8))
            x = (groups / groups.sum(-1, keepdims=True)).reshape(x.shape)
    return x


def scalar(logits):
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    mean = (weights / weights.sum(-1, keepdims=True)) @ np.linspace(-10, 10, logits.shape[-1])
    return np.sign(mean) * np.expm1(np.abs(mean))


def reference(state, observations, actions, row=()):
    """Return latents [B, H, L], rewards [B, H] and the value [B] of the last latent.

    ``row`` is the embedding of the task, of a network of several.
    """

    def told(inputs):
        return np.concatenate([inputs, np.tile(row, (len(inputs), 1))], axis=-1)

    latent = forward(state, "_encoder.state", told(observations), last="simplex")
    latents, rewards = [], []
    for step in range(actions.shape[1]):
        joint = np.concatenate([told(latent), actions[:, step]], axis=-1)
        rewards.append(scalar(forward(state, "_reward", joint, last="plain")))
        latent = forward(state, "_dynamics", joint, last="simplex")
        latents.append(latent)
    mean = np.tanh(forward(state, "_pi", told(latent), last="plain")[:, : actions.shape[-1]])
    masks = state.get("_action_masks")
    if masks is not None:
        mean = mean * (np.abs(actions).sum(axis=(0, 1)) > 0)
    joint = np.concatenate([told(latent), mean], axis=-1)
    members = len(state["_Qs.params.0.weight"])
    values = [
        scalar(forward(state, "_Qs.params", joint, last="plain", member=m)) for m in range(members)
    ]
    return np.stack(latents, 1), np.stack(rewards, 1), np.mean(values, axis=0)


def check(model, state, observations, actions, *, as_read=None, row=(), close=1e-5):
    """Compare a model with the reference, which reads what is padded, as tensors.

    Arrays are worked on in tiles of many rows, which takes a while.
    """
    latents, rewards, value = reference(state, *(as_read or (observations, actions)), row)
    seen, plans = (torch.tensor(array).to(model.bins.dtype) for array in (observations, actions))
    start = model.encode(seen)
    imagined = model.rollout(start, plans)
    before = torch.cat([start[:, None], imagined[:, :-1]], dim=1)
    assert imagined.numpy() == pytest.approx(latents, abs=close)
    assert model.reward(before, plans).numpy() == pytest.approx(rewards, rel=close, abs=close)
    last = model.terminal_value(imagined[:, -1]).numpy()
    assert last == pytest.approx(value, rel=close, abs=close)


@pytest.mark.parametrize(
    ("model_size", "layout"),
    [
        (1, "now"),
        (1, "before"),
        (1, "december"),
        (5, "before"),
        (5, "december"),
        (5, "compiled"),
        (5, "compiled whole"),
    ],
)
def test_official_layouts_give_what_an_independent_forward_pass_gives(tmp_path, model_size, layout):
    state = tdmpc2(model_size)
    written = {
        "now": {
            "model": {
                **state,
                "_Qs.params.__batch_size": torch.Size([2]),
                "_Qs.params.__device": None,
            }
        },
        "before": {"model": tdmpc2_before(state)},
        "december": {"model": tdmpc2_december(state)},
        "compiled": {name.replace(".", "._orig_mod.", 1): value for name, value in state.items()},
        "compiled whole": {f"_orig_mod.{name}": value for name, value in state.items()},
    }[layout]
    torch.save(written, tmp_path / "model.pt")
    model = TDMPC2.load(tmp_path / "model.pt", **SETTINGS)
    rng = np.random.default_rng(0)
    check(model, state, rng.normal(size=(3, 6)), rng.uniform(-1, 1, size=(3, 4, 1)))
    assert model.discount == 0.99


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_weights_of_any_precision_are_used_in_one_that_holds_them(kind):
    state = {
        name: value.to(kind) if value.is_floating_point() else value
        for name, value in tdmpc2(observation=3, bins=11).items()
    }
    model = TDMPC2.of(state, **SETTINGS)
    own = torch.float64 if kind == torch.float64 else torch.float32
    assert {value.dtype for value in (*model.parameters(), model.bins)} == {own}
    rng = np.random.default_rng(0)
    close = 1e-7 if own == torch.float64 else 1e-5
    check(model, state, rng.normal(size=(3, 3)), rng.uniform(-1, 1, size=(3, 2, 1)), close=close)


def test_a_missing_or_misshaped_tensor_is_named_with_its_shapes_and_the_likely_version():
    state = tdmpc2(bins=11)
    del state["_dynamics.1.bias"]
    state["_reward.0.weight"] = torch.zeros(384, 130)
    state["_reward.9.weight"] = torch.zeros(1)
    with pytest.raises(WorldModelError) as caught:
        TDMPC2.of(state, **SETTINGS)
    for said in (
        "the current layout",
        "_dynamics.1.bias: missing, expected [384]",
        "_reward.0.weight: shape [384, 130], expected [384, 129]",
        "_reward.9.weight: shape [1], not in this layout",
    ):
        assert said in str(caught.value)
    december = tdmpc2_december(tdmpc2(bins=11))
    del december["_dynamics.1.bias"]
    with pytest.raises(WorldModelError, match="the layout of December 2024"):
        TDMPC2.of(december, **SETTINGS)
    old = tdmpc2_before(tdmpc2(bins=11))
    del old["_Qs.params.4"]
    with pytest.raises(
        WorldModelError, match=r"before October 2024(.|\n)*_Qs.params.1.weight: missing"
    ):
        TDMPC2.of(old, **SETTINGS)


def test_what_a_checkpoint_does_not_say_must_be_given_and_is_named_all_at_once():
    with pytest.raises(WorldModelError) as caught:
        TDMPC2.of(tdmpc2(bins=11), discount=0.99)
    assert "action_repeat = 2" in str(caught.value)
    assert "obs_keys, action_repeat, simnorm_dim" in str(caught.value)
    assert "discount =" not in str(caught.value)
    with pytest.raises(WorldModelError, match=r"action_repeat: need .* 1 or more, got 0"):
        TDMPC2.of(tdmpc2(bins=11), **{**SETTINGS, "action_repeat": 0})


OF_PIXELS = {name: value for name, value in SETTINGS.items() if name != "obs_keys"}


def test_frames_are_read_by_convolutions_without_the_random_shifts_of_training(tmp_path):
    state = tdmpc2(channels=8, bins=11, action=2)
    torch.save({"model": state}, tmp_path / "model.pt")
    model = TDMPC2.load(tmp_path / "model.pt", **OF_PIXELS)
    pictures = np.random.default_rng(0).integers(0, 256, (5, 3, 64, 64, 3), dtype=np.uint8)
    # Channels are the colours of the oldest frame, then those of the next.
    hidden = torch.tensor(np.concatenate([*np.moveaxis(pictures, 1, 0)], axis=-1)).double()
    hidden = hidden.permute(0, 3, 1, 2) / 255 - 0.5
    for place, stride in ((2, 2), (4, 2), (6, 2), (8, 1)):
        weight, bias = (state[f"_encoder.rgb.{place}.{n}"].double() for n in ("weight", "bias"))
        hidden = torch.nn.functional.conv2d(hidden, weight, bias, stride)
        hidden = hidden if place == 8 else hidden.clamp(min=0)
    expected = hidden.reshape(5, 16, 8).softmax(dim=-1).reshape(5, 128).numpy()
    assert expected.std() > 0.05
    assert model.encode(torch.tensor(pictures)).numpy() == pytest.approx(expected, abs=1e-5)
    assert model.encode(pictures) == pytest.approx(expected, abs=1e-5)


def test_a_network_of_frames_is_held_to_pictures_as_it_reads_them(tmp_path):
    model = TDMPC2.of(tdmpc2(channels=8, bins=11, action=2), **OF_PIXELS)
    task = SimpleNamespace(
        name="reacher", observation_size=6, actions=BoxActions([-1, -1], [1, 1]), action_repeat=2
    )
    cure = r'Write observe=\{"size": 64, "stack": 3\} in the marker, and no goals=\.'
    with pytest.raises(WorldModelError, match=f"observes 6 numbers. {cure}"):
        model.for_task(task)
    task.picture_shape, task.pictures = (4, 84, 84, 3), len
    with pytest.raises(WorldModelError, match=rf"is seen as \(4, 84, 84, 3\)\. {cure}"):
        model.for_task(task)
    task.picture_shape = (3, 64, 64, 3)
    assert model.for_task(task) is model
    with pytest.raises(WorldModelError, match=r"this TDMPC2 reads numbers, and .*\. Leave "):
        TDMPC2.of(tdmpc2(bins=11, action=2), **SETTINGS).for_task(task)
    with pytest.raises(WorldModelError, match="do not say action_repeat, simnorm_dim, discount"):
        TDMPC2.of(tdmpc2(channels=8, bins=11))


def test_the_policy_squashes_its_mean_and_noise_in_the_units_of_the_task():
    state = tdmpc2(action=2, bins=11)
    model = TDMPC2.of(state, **SETTINGS, action_low=-3.0, action_high=3.0)
    rng = np.random.default_rng(0)
    latents, noise = rng.random((4, 128)), rng.normal(size=(4, 2))
    mean, spread = np.split(forward(state, "_pi", latents, last="plain"), 2, axis=-1)
    deviation = np.exp(-10 + 12 * (np.tanh(spread) + 1) / 2)
    expected = 3 * np.tanh(mean + deviation * noise)
    given = torch.tensor(latents).float(), torch.tensor(noise).float()
    assert model.policy(*given).numpy() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def task_of(observation, action):
    box = BoxActions(-np.ones(action), np.ones(action))
    sizes = {"observation_size": observation, "actions": box}
    return SimpleNamespace(name="one of many", action_repeat=2, **sizes)


@pytest.mark.parametrize("has_masks", [True, False])
def test_a_task_of_many_is_its_embedding_and_padding_of_zeros(has_masks):
    sizes = [(3, 1), (5, 2)]
    state = tdmpc2(observation=5, action=2, bins=11, actions=[1, 2])
    weights = {n: v for n, v in state.items() if has_masks or n != "_action_masks"}
    for index, (seen, acted) in enumerate(sizes):
        model = TDMPC2.of(weights, **SETTINGS, task_index=index).for_task(task_of(seen, acted))
        row = state["_task_emb.weight"][index].double().numpy()
        row = row / max(1.0, np.linalg.norm(row))
        rng = np.random.default_rng(index)
        observations, actions = rng.normal(size=(3, seen)), rng.uniform(-1, 1, size=(3, 4, acted))
        padded = (
            np.pad(observations, ((0, 0), (0, 5 - seen))),
            np.pad(actions, ((0, 0), (0, 0), (0, 2 - acted))),
        )
        check(model, state, observations, actions, as_read=padded, row=row)


def test_a_task_of_many_has_to_be_named_and_to_be_the_one_of_the_gate():
    many = tdmpc2(observation=5, action=2, bins=11, actions=[1, 2])
    for index in (None, 2, -1):
        with pytest.raises(WorldModelError, match=r"trained on 2 tasks. Write task_index = 4"):
            TDMPC2.of(many, **SETTINGS, task_index=index)
    with pytest.raises(WorldModelError, match=r"task_index = 0: .* trained on a single task"):
        TDMPC2.of(tdmpc2(bins=11), **SETTINGS, task_index=0)
    with pytest.raises(WorldModelError, match=r"actions of size 1, and .* sizes 3 and 2"):
        TDMPC2.of(many, **SETTINGS, task_index=0).for_task(task_of(3, 2))
    with pytest.raises(WorldModelError, match=r"observations of size 5 .* sizes 6 and 2"):
        TDMPC2.of(many, **SETTINGS, task_index=1).for_task(task_of(6, 2))


def test_a_task_must_meet_the_conditions_of_training():
    model = TDMPC2.of(tdmpc2(bins=11), **SETTINGS)
    task = SimpleNamespace(
        name="acrobot",
        observation_size=6,
        actions=BoxActions(np.array([-1.0]), np.array([1.0])),
        action_repeat=2,
        observation_keys={"velocity": 2, "orientations": 4},
    )
    given = np.random.default_rng(0).normal(size=(2, 6))
    plain = model.encode(given)
    reordered = model.for_task(task).encode(given[:, [4, 5, 0, 1, 2, 3]])
    assert np.array_equal(plain, reordered)
    for change, said in (
        ({"action_repeat": 1}, "action_repeat=2"),
        ({"observation_size": 5}, "another task"),
        ({"observation_keys": {"position": 6}}, r"observes \['position'\]"),
        ({"actions": BoxActions(np.array([-3.0]), np.array([3.0]))}, "action_low="),
    ):
        with pytest.raises(WorldModelError, match=said):
            model.for_task(SimpleNamespace(**{**vars(task), **change}))


def test_networks_compute_mish_fast_while_a_gate_runs_and_as_ever_after_it():
    network, rows = torch.nn.Mish(), torch.linspace(-9, 9, 99)
    before = network(rows)
    with inference(network):
        assert torch.equal(network(rows), mish(rows))
        with inference(network):
            assert torch.equal(network(rows), mish(rows))
        assert torch.equal(torch.nn.functional.mish(rows), before)
        with torch.inference_mode(mode=False), torch.enable_grad():
            wanted = rows.clone().requires_grad_()
            network(wanted).sum().backward()
    assert torch.equal(network(rows), before)
    again = rows.clone().requires_grad_()
    network(again).sum().backward()
    assert torch.equal(wanted.grad, again.grad)
    assert torch.equal(torch.nn.Mish(inplace=True)(rows.clone()), before)


def test_mish_stays_fast_until_the_last_thread_leaves_and_is_torchs_own_then():
    rows, own = torch.linspace(-9, 9, 99), torch.nn.Mish.forward
    with ExitStack() as first, ExitStack() as second:
        first.enter_context(inference())
        # Another thread's, entered before and left after the first one's end.
        with ThreadPoolExecutor(1) as thread:
            thread.submit(second.enter_context, inference()).result()
            first.close()
            assert torch.equal(torch.nn.Mish()(rows), mish(rows))
            thread.submit(second.close).result()
    assert torch.nn.Mish.forward is own


# Newer torch takes it for old, and has it still.
@pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")
def test_a_network_is_scripted_in_a_gate_as_outside_of_it():
    network, rows = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Mish()), torch.ones(4, 3)
    outside = torch.jit.script(network)(rows)
    with inference(network):
        inside = torch.jit.script(network)
        assert torch.equal(inside(rows), outside)
    assert torch.equal(inside(rows), outside)


def test_mish_of_infinity_is_infinity_and_of_no_number_none():
    values = torch.tensor([math.inf, 1e38, math.nan, -1e38])
    for dtype in (torch.float32, torch.float64):
        with inference():
            found = torch.nn.Mish()(values.to(dtype))
        own = torch.nn.functional.mish(values.to(dtype))
        assert torch.equal(found.nan_to_num(nan=7), own.nan_to_num(nan=7))


def test_mish_is_torchs_own_up_to_rounding_and_stays_finite():
    values = torch.cat([torch.linspace(-100, 100, 20_001), torch.tensor([-3e38, 3e38])])
    expected = torch.nn.functional.mish(values.double())
    assert torch.all((mish(values) - expected).abs() <= 2e-7 * (1 + values.double().abs()))
