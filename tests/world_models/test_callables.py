import functools
import traceback
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.world_models.binding.callables import adapt, adapt_dynamics, agree

RNG = np.random.default_rng(0)
OBSERVATIONS, ACTIONS = RNG.normal(size=(8, 4)), RNG.normal(size=(8, 1))
WEIGHTS = RNG.normal(size=(5, 4))


def batched(observations, actions):
    return np.concatenate([observations, actions], axis=1) @ WEIGHTS


def adapted(function):
    return adapt_dynamics(function, OBSERVATIONS, ACTIONS)


def predictions(function):
    return adapted(function).step(OBSERVATIONS, ACTIONS)


def either(observations, actions):
    return np.concatenate([observations, actions], axis=-1) @ WEIGHTS


def squeezes(observations, actions):
    """Lose the axis of a batch of one."""
    return batched(observations, actions).squeeze()


@pytest.mark.parametrize("function", [batched, either, squeezes])
def test_batched_function_is_used_as_it_is(function):
    dynamics = adapted(function)
    assert dynamics.seconds_per_row is None
    np.testing.assert_array_equal(
        dynamics.step(OBSERVATIONS, ACTIONS), batched(OBSERVATIONS, ACTIONS)
    )


# Written for one row. On a batch the first two raise, the others broadcast without a word.
def unpacks(observation, action):
    a, b, c, d = observation
    return [a + b, b + action[0], c * d, d]


def assigns(observation, action):
    after = observation.copy()
    after[0] += 0.1 * observation[3]
    after[3:] += action
    return after


def broadcasts_its_action(observation, action):
    return observation + 0.01 * action[0]


def writes_one_entry(observation, action):
    after = observation.copy()
    after[0] += action[0]
    return after


def normalises(observation, action):
    return observation / np.linalg.norm(observation) + action


def scales_by_its_length(observation, action):
    return observation * len(observation) + action


@pytest.mark.parametrize(
    "function",
    [
        unpacks,
        assigns,
        broadcasts_its_action,
        writes_one_entry,
        normalises,
        scales_by_its_length,
    ],
)
def test_function_for_one_row_is_called_in_a_loop_with_its_cost_measured(function):
    dynamics = adapted(function)
    assert dynamics.seconds_per_row > 0
    expected = [function(*row) for row in zip(OBSERVATIONS, ACTIONS, strict=True)]
    np.testing.assert_array_equal(dynamics.step(OBSERVATIONS, ACTIONS), expected)


@given(
    row=st.integers(-4, 3),
    gain=st.floats(1e-3, 1e3),
    entries=st.integers(1, 12),
)
def test_function_that_reads_one_entry_of_its_action_never_passes_as_batched(row, gain, entries):
    rng = np.random.default_rng(entries)
    observations = rng.normal(size=(8, entries))
    actions = rng.normal(size=(8, 4))

    def function(observation, action):
        return observation + gain * action[row]

    try:
        dynamics = adapt_dynamics(function, observations, actions)
    except WorldModelError:
        return
    expected = [function(*each) for each in zip(observations, actions, strict=True)]
    np.testing.assert_allclose(dynamics.step(observations, actions), expected)


def test_batch_that_is_read_two_ways_is_refused_with_a_way_out():
    def zipped(observations, actions):
        pairs = zip(observations, np.broadcast_to(actions, observations.shape), strict=True)
        return np.stack([o + np.sum(a) for o, a in pairs])

    with pytest.raises(WorldModelError, match=r"(?s)row alone \[4\].*batch \[8, 4\].*ndim == 2"):
        adapted(zipped)


def test_rows_that_mix_are_refused():
    def mixes(observations, actions):
        assert observations.ndim == 2
        return observations - observations.mean(axis=0) + actions

    with pytest.raises(WorldModelError, match="own row alone"):
        adapted(mixes)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda o, a: o[:, :3], r"shape \[8, 3\] came back for \[8, 4\] and \[8, 1\], "),
        (lambda o, a: (o + a)[None], r"shape \[1, 8, 4\] came back.*expected \[8, 4\]"),
        (lambda o, a: SimpleNamespace(mean=o), "return its mean: lambda o, a: net"),
        (lambda o, a: o > a, "an array of bool came back; return floats"),
        (lambda o, a: o + 1j * a, "an array of complex128 came back; return floats"),
        (lambda o, a: np.array(o + a, dtype=object), "an array of object came back; return floats"),
        (lambda o, a: (o + a).astype(str), "an array of texts came back; return floats"),
        (
            lambda o, a: (o, a[:, 0]),
            "a tuple of 2 came back, and one array is needed. Return",
        ),
        (
            lambda o, a: {"mean": o, "reward": a},
            r"a dict with 'mean', 'reward' came back.*lambda o, a: net\(o, a\)\['mean'\]",
        ),
        (lambda o, a: [o, a[:, 0]], "a list came back that is no array"),
        (lambda o, a: None, "not usable: None came back; return floats"),
        (
            lambda o, a: np.ma.masked_greater(o, 0),
            "a masked array came back, with numbers that are",
        ),
    ],
)
def test_wrong_result_is_named_with_what_was_expected(wrong, message):
    with pytest.raises(WorldModelError, match=f"(?s){message}") as caught:
        adapted(wrong)
    assert "return the next observations [B, 4]" in str(caught.value)


def test_integers_are_converted_and_lists_accepted():
    result = predictions(lambda o, a: np.rint(o + a).astype(int).tolist())
    assert result.dtype == np.float64


def test_exception_of_the_function_is_the_cause_and_its_line_visible():
    def broken(observations, actions):
        return observations @ np.ones((7, 4))

    with pytest.raises(WorldModelError, match="ValueError: matmul") as caught:
        adapted(broken)
    assert isinstance(caught.value.__cause__, ValueError | TypeError)
    shown = "".join(traceback.format_exception(caught.value))
    assert "np.ones((7, 4))" in shown


@pytest.mark.parametrize(
    ("error", "said"),
    [(AssertionError(), "AssertionError"), (ValueError("Odd."), "ValueError: Odd")],
)
def test_a_reason_without_a_text_or_with_a_full_stop_ends_in_one(error, said):
    def broken(observations, actions):
        raise error

    with pytest.raises(WorldModelError) as caught:
        adapted(broken)
    assert f"is not usable: {said}.\n" in str(caught.value)


def test_exception_that_says_nothing_about_arrays_goes_on_unchanged():
    def interrupted(observations, actions):
        raise FileNotFoundError("weights.pt")

    with pytest.raises(FileNotFoundError, match=r"weights\.pt") as caught:
        adapted(interrupted)
    assert "raised when it was called with [8, 4] and [8, 1]" in caught.value.__notes__[0]


def test_any_exception_of_a_library_is_a_refusal_of_what_it_was_given():
    class InvalidArgumentError(Exception):
        """What ONNX Runtime and TensorFlow raise are plain exceptions."""

    def only_batches(observations, actions):
        if np.ndim(observations) != 2:
            raise InvalidArgumentError("invalid rank")
        return batched(observations, actions)

    def of_two(observations, actions):
        if np.shape(observations)[-1] != 2:
            raise InvalidArgumentError("Got: 4 Expected: 2")

    assert adapted(only_batches).seconds_per_row is None
    with pytest.raises(WorldModelError) as caught:
        adapted(of_two)
    said = str(caught.value)
    assert "or a batch as float64 arrays [8, 4] and [8, 1]" in said
    assert said.count("InvalidArgumentError: Got: 4 Expected: 2") == 1
    assert isinstance(caught.value.__cause__, InvalidArgumentError)


@pytest.mark.parametrize(
    ("is_taken", "said"),
    [
        (lambda rows: rows % 5 == 0, "takes multiples of 5 rows, and is asked for any number"),
        (lambda rows: rows == 1, "takes 1 row alone, and is asked for any number"),
    ],
)
def test_function_that_takes_some_numbers_of_rows_only_is_told_what_to_write(is_taken, said):
    def picky(observations, actions):
        assert np.ndim(observations) == 2
        assert is_taken(len(observations))
        return batched(observations, actions)

    with pytest.raises(WorldModelError) as caught:
        adapted(picky)
    assert said in str(caught.value)
    code = str(caught.value).partition("rows are added: ")[2].partition(",")[0]
    if code:
        exec(code, {"model": picky})  # noqa: S102  # as a user pastes it
        model = adapted(picky)
        assert model.seconds_per_row is None
        rows = np.random.default_rng(0).normal(size=(7, 5))
        assert np.array_equal(
            model.step(rows[:, :4], rows[:, 4:]), batched(rows[:, :4], rows[:, 4:])
        )


@pytest.mark.parametrize("given", [0, -5, 2.0, True, "5"])
def test_a_batch_multiple_that_is_no_number_of_rows_is_refused(given):
    def dynamics(observations, actions):
        return batched(observations, actions)

    dynamics.batch_multiple = given
    with pytest.raises(WorldModelError, match="takes multiples of, such as 5"):
        adapted(dynamics)


def test_function_that_answers_differently_when_asked_again_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(WorldModelError, match=r"different results for identical calls.*dropout"):
        adapted(lambda o, a: o + a + rng.normal(size=o.shape))


def test_inputs_written_to_and_buffers_used_again_do_no_harm():
    buffer = np.empty((8, 4))

    def in_place(observations, actions):
        observations += actions
        if observations.shape != buffer.shape:
            return observations
        buffer[:] = observations
        return buffer

    before = OBSERVATIONS.copy()
    first = predictions(in_place)
    adapted(in_place).step(OBSERVATIONS + 1, ACTIONS)
    np.testing.assert_array_equal(OBSERVATIONS, before)
    np.testing.assert_array_equal(first, OBSERVATIONS + ACTIONS)


def test_other_functions_are_checked_on_every_call():
    call = adapt(
        lambda latents: latents[: len(latents) % 8 or None].sum(axis=1),
        OBSERVATIONS,
        promise="score(latents [B, Z]) -> distances [B]",
    )
    with pytest.raises(
        WorldModelError, match=r"shape \[1\] came back for \[9, 4\], expected \[9\]"
    ):
        call(np.ones((9, 4)))


def test_agreement_is_relative_to_each_column():
    left = np.array([[1e6, 1.0], [2e6, 2.0]])
    assert agree(left, left * (1 + 1e-6))
    assert not agree(left, left + np.array([0.0, 1e-3]))
    assert agree(np.array([[np.nan, np.inf]]), np.array([[np.nan, np.inf]]))
    assert not agree(np.array([[np.nan, 1.0]]), np.array([[1.0, 1.0]]))


def test_torch_function_gets_float32_tensors():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(5, 4)

    def dynamics(observations, actions):
        return layer(torch.cat([observations, actions], dim=-1))

    expected = dynamics(torch.tensor(OBSERVATIONS).float(), torch.tensor(ACTIONS).float())
    np.testing.assert_array_equal(predictions(dynamics), expected.detach().numpy())


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_torch_module_gets_tensors_of_its_own_dtype(dtype):
    torch = pytest.importorskip("torch")

    class Dynamics(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(5, 4, dtype=getattr(torch, dtype))

        def forward(self, observations, actions):
            return self.layer(torch.cat([observations, actions], dim=1))

    module = Dynamics()
    for learned in (module, module.forward):
        dynamics = adapted(learned)
        assert dynamics.seconds_per_row is None
        assert np.isfinite(dynamics.step(OBSERVATIONS, ACTIONS)).all()


def test_a_function_that_hides_a_network_in_double_says_what_to_write():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(5, 4, dtype=torch.float64)

    def hidden(observations, actions):
        return layer(torch.cat([observations, actions], dim=1))

    with pytest.raises(
        WorldModelError, match=r"hides the type .*\n +net\(observations\.double\(\)"
    ):
        adapted(hidden)
    # What it says to write is taken.
    adapted(lambda o, a: hidden(o.double(), a.double()).float())


def test_torch_function_for_one_row_is_called_in_a_loop():
    torch = pytest.importorskip("torch")

    def step(observation, action):
        return torch.stack([observation[0] + action[0], observation[1], *observation[2:]])

    dynamics = adapted(step)
    assert dynamics.seconds_per_row > 0
    expected = OBSERVATIONS + ACTIONS * [1, 0, 0, 0]
    np.testing.assert_allclose(dynamics.step(OBSERVATIONS, ACTIONS), expected, atol=1e-6)


def test_batch_norm_in_train_mode_is_refused_as_mixing():
    torch = pytest.importorskip("torch")
    norm = torch.nn.BatchNorm1d(4, track_running_stats=False)

    def dynamics(observations, actions):
        return norm(observations + actions)

    with pytest.raises(WorldModelError, match="batch norm into eval mode") as caught:
        adapted(dynamics)
    assert "Expected more than 1 value per channel" in str(caught.value.__cause__)


def test_partial_of_a_torch_function_is_adapted():
    torch = pytest.importorskip("torch")

    def dynamics(weights, observations, actions):
        return torch.cat([observations, actions], dim=-1) @ weights

    result = predictions(functools.partial(dynamics, torch.tensor(WEIGHTS).float()))
    np.testing.assert_allclose(result, batched(OBSERVATIONS, ACTIONS), atol=1e-5)
