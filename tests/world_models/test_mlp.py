import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import (
    MLP,
    WORLD_MODELS,
    Transitions,
    bind,
    collect_transitions,
    inference,
    train_mlp,
)

pytestmark = pytest.mark.trains

RNG = np.random.default_rng(0)
# Columns of very different size, one of them constant: what normalisation is for.
OBSERVATIONS = RNG.normal(size=(1000, 4)) * [1, 100, 1e-2, 0] + [0, 1000, 0, 5]
ACTIONS = RNG.uniform(-1, 1, size=(1000, 1))
PUSH = np.array([[0.1, 5.0, 1e-3, 0.0]])
TRANSITIONS = Transitions(
    observations=OBSERVATIONS, actions=ACTIONS, next_observations=OBSERVATIONS + ACTIONS @ PUSH
)
VARIANTS = ("normalised-delta", "plain")


def trained(**options):
    return train_mlp(TRANSITIONS, **{"seed": 0, "epochs": 3, **options})


def rollout(model, count=20, horizon=5):
    plans = np.random.default_rng(1).uniform(-1, 1, size=(count, horizon, 1))
    return model.rollout(OBSERVATIONS[:count], plans)


def test_training_learns_the_change_of_each_column():
    model = trained(epochs=60)
    predicted = model(OBSERVATIONS, ACTIONS) - OBSERVATIONS
    error = np.abs(predicted - ACTIONS @ PUSH).mean(axis=0)
    # float32 holds the second column, about 1000, to 6e-5.
    assert (error <= 0.1 * PUSH[0]).all()
    assert model.validation_error < 0.1


def test_validation_error_is_in_the_units_of_the_task():
    for variant in VARIANTS:
        model = trained(variant=variant, validation_share=0.999)
        errors = model(OBSERVATIONS, ACTIONS) - TRANSITIONS.next_observations
        # All rows but one are held out.
        assert model.validation_error == pytest.approx((errors**2).mean(), rel=0.01)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(("layers", "activation"), [(1, "relu"), (2, "relu"), (3, "silu")])
def test_rollout_equals_repeated_steps(variant, layers, activation):
    model = trained(variant=variant, layers=layers, hidden=17, activation=activation)
    plans = np.random.default_rng(1).uniform(-1, 1, size=(20, 5, 1))
    current, steps = OBSERVATIONS[:20], []
    for t in range(5):
        current = model(current, plans[:, t])
        steps.append(current)
    expected = np.stack(steps, axis=1)
    scale = np.abs(expected).max(axis=(0, 1))
    np.testing.assert_allclose(
        model.rollout(OBSERVATIONS[:20], plans) / scale, expected / scale, atol=2e-5
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_same_seed_gives_the_same_bits_and_another_seed_others(variant):
    first, again, other = (trained(variant=variant, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(rollout(first), rollout(again))
    assert first.validation_error == again.validation_error
    assert (rollout(first) != rollout(other)).any()


def test_training_leaves_torch_as_it_was_and_takes_it_in_any_mode():
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        outside = trained()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.get_rng_state(), state)
    # As a gate keeps it.
    with inference():
        inside = trained()
    np.testing.assert_array_equal(rollout(inside), rollout(outside))


def test_steps_cap_the_epochs():
    # 900 training rows are 4 batches an epoch.
    np.testing.assert_array_equal(rollout(trained(epochs=50, steps=8)), rollout(trained(epochs=2)))


def test_weights_of_the_best_epoch_are_kept():
    # Steps this large throw the fit about; what is kept never gets worse by going on.
    errors = [
        trained(epochs=epochs, learning_rate=0.3, variant="plain").validation_error
        for epochs in range(1, 9)
    ]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("variant", VARIANTS)
def test_saved_model_is_loaded_with_the_same_bits(variant, tmp_path):
    model = trained(variant=variant, activation="silu")
    model.save(tmp_path / "model.pt")
    loaded = MLP.load(tmp_path / "model.pt")
    np.testing.assert_array_equal(rollout(model), rollout(loaded))
    np.testing.assert_array_equal(model(OBSERVATIONS, ACTIONS), loaded(OBSERVATIONS, ACTIONS))
    assert repr(loaded) == repr(model)


def test_a_file_from_before_there_was_a_choice_has_the_activation_of_then(tmp_path):
    path = saved_with(tmp_path, activation=0)
    assert MLP.load(path).activation == "relu"


def saved_with(tmp_path, **changes):
    model = trained(epochs=1)
    path = tmp_path / "model.pt"
    model.save(path)
    content = torch.load(path, weights_only=True)
    torch.save({key: value for key, value in {**content, **changes}.items() if value != 0}, path)
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "its format is 'other'"),
        ({"variant": "cubic"}, "its variant is 'cubic'"),
        ({"activation": "step"}, "its activation is 'step'"),
        ({"weights": 0}, "it has no entry 'weights'"),
        ({"weights": [torch.zeros(3, 5)]}, "layer 0 has weights"),
        ({"biases": [torch.zeros(64), torch.zeros(9), torch.zeros(4)]}, r"layer 1 has weights"),
        ({"scaling": {}}, "input_mean"),
    ],
)
def test_file_with_wrong_parts_is_refused_by_name(changes, message, tmp_path):
    with pytest.raises(WorldModelError, match=rf"(?s)model\.pt.*{message}"):
        MLP.load(saved_with(tmp_path, **changes))


def test_foreign_files_are_refused_by_name_and_never_executed(tmp_path):
    path = tmp_path / "model.pt"
    with pytest.raises(WorldModelError, match=r"there is no model file .*model\.pt"):
        MLP.load(path)
    for content in (b"", b"\x80\x04N.", b"text"):
        path.write_bytes(content)
        with pytest.raises(WorldModelError, match=r"model\.pt.*no file of torch\.save"):
            MLP.load(path)
    torch.save([torch.zeros(1)], path)
    with pytest.raises(WorldModelError, match=r"model\.pt.*holds a list"):
        MLP.load(path)
    torch.save(torch.nn.Linear(1, 1), path)
    named = r"(?s)holds pickled objects.* It names torch\.nn\.modules\.linear\.Linear\.$"
    with pytest.raises(WorldModelError, match=named):
        MLP.load(path)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(WorldModelError, match=r"model\.pt"):
        MLP.load(path)


def test_tensors_give_tensors_and_arrays_give_arrays():
    model = trained(epochs=1)
    tensors = torch.tensor(OBSERVATIONS), torch.tensor(ACTIONS)
    result = model(*tensors)
    assert isinstance(result, torch.Tensor)
    np.testing.assert_array_equal(result.numpy(), model(OBSERVATIONS, ACTIONS))


def test_model_of_another_task_says_so():
    with pytest.raises(WorldModelError, match="observations of size 4 and actions of size 1, and"):
        trained(epochs=1).rollout(np.zeros((2, 3)), np.zeros((2, 5, 1)))


@pytest.mark.parametrize(
    "options",
    [
        {"variant": "cubic"},
        {"schedule": "cosine"},
        {"hidden": 0},
        {"epochs": 0},
        {"steps": 0},
        {"batch_size": 0},
        {"validation_share": 0},
        {"validation_share": 1},
    ],
)
def test_impossible_options_are_refused(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        trained(**options)


def test_diverged_training_is_an_error_and_no_model():
    with pytest.raises(WorldModelError, match="training diverged"):
        trained(learning_rate=1e30, variant="plain")


def test_bound_model_gives_the_same_bits_in_any_batch():
    task = TASKS["two-room"]()
    model = train_mlp(collect_transitions(task, count=2000, seed=0), seed=0, epochs=5)
    states = task.reset(np.arange(700))
    plans = task.actions.sample([np.random.default_rng(0)], (700, 6))[0]
    with inference(model):
        bound = bind(model, task, probe_states=states[:8], probe_actions=plans[:8, 0])
        latents = bound.encode(states)
        whole = bound.rollout(latents, plans)
        for rows in (slice(3, 4), slice(0, 7), slice(510, 560), slice(None, None, -1)):
            np.testing.assert_array_equal(bound.rollout(latents[rows], plans[rows]), whole[rows])
    assert bound.swapped == ("dynamics",)


def test_the_registered_model_is_trained_on_the_task():
    model = WORLD_MODELS["mlp"](TASKS["two-room"]())
    assert (model.observation_size, model.action_size) == (2, 2)
    assert model.variant in VARIANTS


@pytest.mark.parametrize("schedule", ["constant", "one-cycle"])
def test_every_schedule_fits_a_smooth_world_in_so_many_steps(schedule):
    observations = np.random.default_rng(2).uniform(-2, 2, size=(2000, 1))
    transitions = Transitions(
        observations=observations,
        actions=np.zeros((2000, 1)),
        next_observations=observations + np.sin(3 * observations),
    )
    model = train_mlp(transitions, seed=0, steps=800, learning_rate=1e-2, schedule=schedule)
    assert model.validation_error < 0.01
