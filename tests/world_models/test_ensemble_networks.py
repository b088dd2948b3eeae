import dataclasses
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from pytest_cpg.contracts import EnsembleStep, WorldModelError
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import (
    EnsembleNetwork,
    Transitions,
    bind,
    bind_ensemble,
    collect_transitions,
    show_progress,
    train_ensemble,
)
from pytest_cpg.world_models.checkpoints import readers
from pytest_cpg.world_models.ensembles.networks import fitted
from pytest_cpg.world_models.mlp import float32
from pytest_cpg.world_models.weights import read_metadata, read_safetensors, write_safetensors

RNG = np.random.default_rng(0)
COUNT = 600
OBSERVATIONS, ACTIONS = RNG.standard_normal((COUNT, 3)), RNG.uniform(-1, 1, (COUNT, 2))
CHANGES = 0.1 * np.sin(OBSERVATIONS[:, [1, 2, 0]]) + 0.2 * ACTIONS[:, [0, 1, 0]]
TRANSITIONS = Transitions(
    observations=OBSERVATIONS,
    actions=ACTIONS,
    next_observations=OBSERVATIONS + CHANGES,
    rewards=0.1 * OBSERVATIONS.sum(axis=1) + ACTIONS[:, 0],
)
SMALL = {"members": 3, "updates": 60, "hidden": 16, "layers": 2, "batch_size": 32}
KINDS = ("feed-forward", "autoregressive")


def trained(transitions=TRANSITIONS, **options):
    return train_ensemble(transitions, **{"seed": 0, **SMALL, **options})


def each(rows, members=3):
    return np.repeat(np.asarray(rows)[None], members, axis=0)


def asked(model, rows=slice(0, 20), **noise):
    members = model.members
    return model.step(each(OBSERVATIONS[rows], members), each(ACTIONS[rows], members), **noise)


def mean_square(x):
    return (x**2).mean()


def silu(x):
    return x / (1 + np.exp(-x))


def layered(tensors, prefix, member, x):
    count = sum(name.startswith(f"{prefix}.weights") for name in tensors)
    for layer in range(count):
        x = silu(x) if layer else x
        weight, bias = (
            tensors[f"{prefix}.{kind}.{layer}"][member] for kind in ("weights", "biases")
        )
        x = x @ weight + bias
    return x


@pytest.mark.parametrize("output", ["deterministic", "gaussian"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_is_what_its_file_says_by_plain_numpy(kind, output, tmp_path):
    """Member by member and target by target, in float64."""
    model = trained(kind=kind, output=output, prior_scale=5.0, clip=False)
    model.save(tmp_path / "ensemble.safetensors")
    tensors = {
        name: value.double().numpy()
        for name, value in read_safetensors(tmp_path / "ensemble.safetensors").items()
    }
    rows, targets = 20, 4
    inputs = np.concatenate([OBSERVATIONS[:rows], ACTIONS[:rows]], axis=1)
    inputs = (inputs - tensors["scaling.input_mean"]) / tensors["scaling.input_scale"]
    expected, variances = [], []
    for member in range(3):
        if kind == "feed-forward":
            out = layered(tensors, "trained", member, inputs)
            means = out[:, :targets] + 5 * layered(tensors, "prior", member, inputs)
            logs = out[:, targets:]
        else:
            means, logs = np.zeros((rows, targets)), np.zeros((rows, targets))
            for target in range(targets):
                which = np.tile(np.eye(targets)[target], (rows, 1))
                read = np.concatenate([inputs, means, which], axis=1)
                out = layered(tensors, "trained", member, read)
                means[:, target] = out[:, 0] + 5 * layered(tensors, "prior", member, read)[:, 0]
                logs[:, target] = out[:, -1]
        expected.append(means * tensors["scaling.target_scale"] + tensors["scaling.target_mean"])
        if output == "gaussian":
            low, high = tensors["log_variances"][:, member]
            logs = high - np.log1p(np.exp(high - logs))
            logs = low + np.log1p(np.exp(logs - low))
            variances.append(np.exp(logs) * tensors["scaling.target_scale"] ** 2)
    expected = np.stack(expected)
    after, rewards = asked(model)
    np.testing.assert_allclose(after, OBSERVATIONS[:rows] + expected[..., :-1], atol=1e-5)
    np.testing.assert_allclose(rewards, expected[..., -1], atol=1e-5)
    if output == "gaussian":
        found = model.variance(each(OBSERVATIONS[:rows]), each(ACTIONS[:rows]))
        np.testing.assert_allclose(found[0], np.stack(variances)[..., :-1], rtol=1e-4)
        np.testing.assert_allclose(found[1], np.stack(variances)[..., -1], rtol=1e-4)


def test_training_shows_an_autoregressive_network_what_it_will_predict():
    model = trained(kind="autoregressive", output="gaussian", prior_scale=1.0)
    after, rewards = asked(model)
    changes = float32(after) - float32(each(OBSERVATIONS[:20]))
    own = torch.cat([changes, float32(rewards)[..., None]], dim=-1)
    own = (own - model.scaling.target_mean) / model.scaling.target_scale
    inputs = np.concatenate([OBSERVATIONS[:20], ACTIONS[:20]], axis=1)
    inputs = (float32(each(inputs)) - model.scaling.input_mean) / model.scaling.input_scale
    told = fitted(model.architecture, model.heads, inputs, own)
    np.testing.assert_allclose(told.means.detach(), own, atol=1e-4)


@pytest.mark.trains
@pytest.mark.parametrize("output", ["deterministic", "gaussian"])
@pytest.mark.parametrize("kind", KINDS)
def test_training_predicts_rows_better_than_no_change(kind, output):
    model = trained(kind=kind, output=output, updates=200, learning_rate=5e-3)
    after, rewards = asked(model, slice(0, COUNT))
    assert mean_square(after - TRANSITIONS.next_observations) < 0.3 * mean_square(CHANGES)
    assert mean_square(rewards - TRANSITIONS.rewards) < 0.3 * mean_square(TRANSITIONS.rewards)


@pytest.mark.trains
def test_a_gaussian_learns_where_the_noise_is():
    spread = np.where(OBSERVATIONS[:, 0] > 0, 0.5, 0.05)
    noisy = dataclasses.replace(
        TRANSITIONS,
        next_observations=OBSERVATIONS + spread[:, None] * RNG.standard_normal((COUNT, 3)),
    )
    model = trained(noisy, output="gaussian", updates=300, learning_rate=5e-3)
    variances, _ = model.variance(each(OBSERVATIONS), each(ACTIONS))
    loud, calm = (variances[:, rows].mean() for rows in (spread > 0.1, spread < 0.1))
    assert loud > 10 * calm


def test_draws_of_a_gaussian_have_the_spread_it_predicts():
    mean = trained(output="gaussian")
    model = dataclasses.replace(mean, draws=True)
    assert (mean.noise_size, model.noise_size) == (0, 4)
    rows = np.zeros(400, dtype=int)
    noise = np.random.default_rng(1).standard_normal((3, 400, 4))
    after, rewards = asked(model, rows, noise=noise)
    variances = mean.variance(each(OBSERVATIONS[rows]), each(ACTIONS[rows]))
    # Of 400 draws, a variance is within a fifth or so.
    for found, expected in zip((after, rewards), variances, strict=True):
        np.testing.assert_allclose(found.var(axis=1), expected[:, 0], rtol=0.35)
    bound = bind_ensemble(model, observations=OBSERVATIONS[:5], actions=ACTIONS[:5], seed=3)

    def act(_, observations):
        return np.zeros((*observations.shape[:2], 2))

    first, again = (bound.rollout(each(OBSERVATIONS[:5]), act, 3) for _ in range(2))
    np.testing.assert_array_equal(first.rewards, again.rewards)


def test_networks_without_a_variance_say_so():
    model = trained(updates=1)
    with pytest.raises(WorldModelError, match=r"predicts no variance\. Train it with output='gau"):
        model.variance(each(OBSERVATIONS[:2]), each(ACTIONS[:2]))
    with pytest.raises(ValueError, match="draws=True needs output='gaussian'"):
        dataclasses.replace(model, draws=True)


@pytest.mark.trains
def test_a_prior_keeps_members_apart_where_there_are_no_data():
    def disagreement(model, observations):
        return np.std(model.step(each(observations, 5), each(ACTIONS, 5))[0], axis=0).mean()

    plain, prior = (
        trained(
            members=5,
            updates=150,
            prior_scale=scale,
            normalise_targets=False,
            learning_rate=5e-3,
            clip=False,
        )
        for scale in (0.0, 5.0)
    )
    far = OBSERVATIONS + 10
    assert disagreement(prior, far) > 2 * disagreement(plain, far)
    assert disagreement(prior, OBSERVATIONS) < 0.1 * disagreement(prior, far)


def test_a_prior_is_never_trained():
    few, many = (trained(updates=updates, prior_scale=5.0) for updates in (1, 20))
    for before, after in zip(few.heads.prior.weights, many.heads.prior.weights, strict=True):
        assert torch.equal(before, after)
    assert not torch.equal(few.heads.trained.weights[0], many.heads.trained.weights[0])
    assert trained(updates=1).heads.prior is None


def test_each_member_is_trained_on_a_resample_of_its_own():
    """One row in many has another reward: whoever did not draw it cannot know."""
    rows = np.eye(10)
    few = Transitions(
        observations=rows, actions=np.zeros((10, 1)), next_observations=rows, rewards=rows[7]
    )
    options = {"members": 40, "updates": 100, "hidden": 8, "layers": 1, "learning_rate": 0.03}
    model = trained(few, **options)
    told = model.step(each(rows[7:8], 40), np.zeros((40, 1, 1)))[1][:, 0]
    # Of ten draws with replacement, a share of 1 - 0.9**10 = 0.65 has a given row.
    assert 0.4 < (told > 0.5).mean() < 0.9


@pytest.mark.parametrize("options", [{}, {"output": "gaussian", "prior_scale": 5.0}])
def test_a_seed_decides_every_bit_and_global_numbers_nothing(options):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = asked(trained(**options))
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    again, other = asked(trained(**options)), asked(trained(seed=1, **options))
    for ours, same, others in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(ours, same)
        assert (ours != others).all()


def test_normalisation_may_be_left_out():
    scaling = trained(updates=1, normalise_inputs=False, normalise_targets=False).scaling
    for part, value in (("mean", 0.0), ("scale", 1.0)):
        assert (getattr(scaling, f"input_{part}") == value).all()
        assert (getattr(scaling, f"target_{part}") == value).all()
    scaling = trained(updates=1).scaling
    np.testing.assert_allclose(scaling.target_scale[:3], CHANGES.std(axis=0), rtol=1e-5)


def test_what_never_changes_is_predicted_exactly():
    frozen = dataclasses.replace(TRANSITIONS, next_observations=OBSERVATIONS)
    model = trained(frozen, prior_scale=5.0)
    after, _ = asked(model)
    np.testing.assert_array_equal(after, each(OBSERVATIONS[:20]).astype(np.float32))


def test_predictions_are_clipped_to_what_was_seen_before_and_after_steps():
    model = trained(updates=1)
    seen = np.concatenate([TRANSITIONS.observations, TRANSITIONS.next_observations])
    np.testing.assert_array_equal(model.clip_bounds.low, seen.min(axis=0))
    assert model.clip_bounds.highest_reward == TRANSITIONS.rewards.max()
    assert trained(updates=1, clip=False).clip_bounds is None


def test_what_earlier_versions_kept_of_a_training_is_no_part_of_a_model(tmp_path):
    model, path = trained(updates=1), tmp_path / "kept.safetensors"
    model.save(path)
    kept = {**read_safetensors(path), "training.generator": torch.zeros(3)}
    write_safetensors(path, kept, read_metadata(path))
    for ours, others in zip(asked(EnsembleNetwork.load(path)), asked(model), strict=True):
        np.testing.assert_array_equal(ours, others)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transitions": dataclasses.replace(TRANSITIONS, rewards=None)}, "have no rewards"),
        ({"members": 1}, "2 or more members"),
        ({"updates": 0}, "need updates and batch_size of 1 or more"),
        ({"kind": "recurrent"}, "kind must be one of"),
        ({"output": "mean"}, "output must be one of"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"prior_scale": -1}, "prior_scale must be 0 or more, got -1.0"),
    ],
)
def test_what_cannot_be_trained_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        trained(**options)


def test_a_diverged_training_says_what_to_lower():
    with pytest.raises(WorldModelError, match=r"diverged: the loss of update .* Lower learning_r"):
        trained(learning_rate=1e30)


def test_progress_is_one_line(capsys):
    trained(updates=3, progress=show_progress)
    lines = capsys.readouterr().err.split("\r")
    assert lines[-1].startswith("training: 3 of 3 updates, loss ")
    assert lines[-1].endswith("\n")


def test_a_file_is_a_model_for_either_gate(tmp_path):
    """By its path, as --cpg-model names it."""
    task = TASKS["two-room"]()
    transitions = collect_transitions(task, count=400, seed=0, with_rewards=True)
    model = trained(transitions, members=2, updates=5)
    model.save(tmp_path / "ensemble.safetensors")
    loaded = readers.load(tmp_path / "ensemble.safetensors", task)
    assert (
        repr(loaded) == "EnsembleNetwork(2 members, feed-forward, deterministic, 16x16, 5 updates)"
    )
    assert isinstance(loaded, EnsembleStep)
    states = task.reset(np.arange(6))
    actions = task.actions.sample([np.random.default_rng(0)] * 6, ())
    bound = bind(loaded, task, probe_states=states, probe_actions=actions)
    planned = bound.rollout(bound.encode(states), actions[:, None])[:, 0]
    observations = task.observe(states)
    several = bind_ensemble(loaded, observations=observations, actions=actions)
    imagined = several.rollout(each(observations, 2), lambda *_: each(actions, 2), 1)
    free = replace(model, clip_bounds=None)
    expected = free.step(each(observations, 2), each(actions, 2))[0]
    np.testing.assert_allclose(planned, expected.mean(axis=0), rtol=1e-5)
    clipped = np.clip(expected, model.clip_bounds.low, model.clip_bounds.high)
    np.testing.assert_allclose(imagined.observations[:, :, 0], clipped, rtol=1e-6)


def falling(count=4000, seed=0):
    """Return a ball that is pushed either way and ends its episode where it leaves (-1, 1)."""
    rng = np.random.default_rng(seed)
    places, pushes = rng.uniform(-1, 1, (count, 1)), rng.uniform(-1, 1, (count, 1))
    after = places + 0.3 * pushes
    return Transitions(
        observations=places,
        actions=pushes,
        next_observations=after,
        rewards=-np.abs(after[:, 0]),
        terminations=is_out(after),
    )


def is_out(observations):
    return np.abs(observations[..., 0]) > 1


ENDINGS = {
    "feed-forward": {},
    "autoregressive": {"kind": "autoregressive"},
    "gaussian": {"output": "gaussian"},
    "with a prior": {"prior_scale": 1.0},
}


@pytest.mark.trains
@pytest.mark.parametrize("options", ENDINGS.values(), ids=ENDINGS)
def test_members_learn_when_an_episode_ends_and_keep_it_in_their_file(options, tmp_path):
    model = trained(
        falling(), updates=600, hidden=32, batch_size=128, learning_rate=1e-2, **options
    )
    model.save(tmp_path / "ensemble.safetensors")
    loaded = EnsembleNetwork.load(tmp_path / "ensemble.safetensors")
    others = falling(2000, seed=1)
    for one in (model, loaded):
        _, _, ended = one.step(each(others.observations), each(others.actions))
        wrong = (ended != others.terminations).mean()
        assert wrong < 0.35 * others.terminations.mean()
    # Not within reach of what ends an episode.
    safe = np.abs(others.next_observations[:, 0]) < 0.5
    assert not ended[:, safe].any()


def test_a_rule_stands_in_for_terminations_that_nobody_logged():
    logged = falling(500)
    without = replace(logged, terminations=None)
    same, other = trained(logged), trained(without, terminated=is_out)
    arrays = each(logged.observations), each(logged.actions)
    for first, second in zip(same.step(*arrays), other.step(*arrays), strict=True):
        np.testing.assert_array_equal(first, second)
    assert len(trained(without).step(*arrays)) == 2


@pytest.mark.trains
def test_an_ensemble_that_draws_draws_no_end_of_an_episode():
    model = replace(trained(falling(), updates=300, output="gaussian"), draws=True)
    assert model.noise_size == 2
    arrays = each(OBSERVATIONS[:20, :1]), each(ACTIONS[:20, :1])
    still, loud = (model.step(*arrays, scale * np.ones((3, 20, 2)))[2] for scale in (0, 100))
    np.testing.assert_array_equal(still, loud)


class Wrapped:
    """A user's own class around an ensemble's step, which says nothing of its bounds."""

    def __init__(self, model):
        self.members, self.step = model.members, lambda *arrays: (*model.step(*arrays), None)[:2]


def test_clip_bounds_survive_a_wrapper():
    model = trained(falling(500))
    start = np.array([[0.9]])
    several = bind_ensemble(Wrapped(model), observations=start, actions=np.ones((1, 1)))
    imagined = several.rollout(each(start), lambda *_: np.full((3, 1, 1), 1e6), 5)
    assert imagined.observations.max() <= model.clip_bounds.high[0] + 1e-6
    assert imagined.rewards.min() >= model.clip_bounds.lowest_reward - 1e-6


def test_a_file_without_a_word_of_endings_is_read_as_before(tmp_path):
    path = tmp_path / "ensemble.safetensors"
    model = trained(updates=1)
    model.save(path)
    about = read_metadata(path)
    assert '"ends": false' in about["about"]
    older = about["about"].replace(', "ends": false', "").replace('"ends": false, ', "")
    assert "ends" not in older
    write_safetensors(path, read_safetensors(path), {**about, "about": older})
    for first, second in zip(asked(EnsembleNetwork.load(path)), asked(model), strict=True):
        np.testing.assert_array_equal(first, second)


def test_another_task_is_refused_by_its_sizes():
    with pytest.raises(WorldModelError, match=r"observations of size 3 and .* given sizes 4 and 2"):
        trained(updates=1).step(np.zeros((3, 2, 4)), np.zeros((3, 2, 2)))


def test_what_is_no_ensemble_is_not_loaded(tmp_path):
    path = tmp_path / "ensemble.safetensors"
    with pytest.raises(WorldModelError, match="there is no model file"):
        EnsembleNetwork.load(path)
    path.write_bytes(b"no weights")
    with pytest.raises(WorldModelError, match=r"is no \.safetensors file"):
        EnsembleNetwork.load(path)
    trained(updates=1).save(path)
    tensors = read_safetensors(path)
    about = read_metadata(path)
    for changed, metadata, message in (
        (tensors, {}, "its format is None"),
        (tensors, {**about, "about": "{}"}, "about has no 'architecture'"),
        (tensors, {**about, "about": about["about"].replace(": 3,", ": -3,", 1)}, "at least 1"),
        ({**tensors, "trained.biases.0": torch.zeros(1)}, about, "trained.biases.0: shape"),
        (
            {**tensors, "clip_bounds.low": tensors["clip_bounds.high"] + 1},
            about,
            "need low <= high",
        ),
    ):
        write_safetensors(path, changed, metadata)
        with pytest.raises(WorldModelError, match=message):
            EnsembleNetwork.load(path)
