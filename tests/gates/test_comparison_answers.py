"""What an ensemble answers, how that is graded, and what its guards find."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from comparisons import (
    KIND,
    USUAL,
    Carts,
    alarm_of,
    card_of,
    cart_queries,
    cart_steps,
    graded_table,
    label_of,
    paid,
    ruling_of,
    running,
)
from worlds import hopper_fell

from pytest_cpg.contracts import CpgError, WorldModelError
from pytest_cpg.contracts.codec import decode, encode
from pytest_cpg.episodes.arm_cache import ArmCache
from pytest_cpg.episodes.arms import Execution
from pytest_cpg.gates.policy_comparison import answers
from pytest_cpg.gates.policy_comparison.answers import frozen_returns, imagined_returns, spread_over
from pytest_cpg.gates.policy_comparison.measure import (
    Held,
    Spec,
    action_fault,
    clip_fault,
    frozen_fault,
    held,
    measure_comparison,
    one_step_error,
    saturated_fault,
)
from pytest_cpg.gates.policy_comparison.result import (
    ComparisonResult,
    Criteria,
    KeptAnswers,
    OneStep,
)
from pytest_cpg.stats import GradedAnswers, answer_metrics
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models.ensembles.binding import bind_ensemble
from pytest_cpg.world_models.ensembles.rollout import ClipBounds


def told(*_):
    pass


def bound(model, queries):
    return bind_ensemble(
        model, observations=queries.observations_a[:4], actions=queries.actions_a[:4]
    )


def measured(model, queries, criteria=USUAL, **kept):
    spec = Spec(name="carts", queries=queries, criteria=criteria)
    execution = Execution(**kept)
    return measure_comparison(spec, model, running(execution=execution))


OFF = {"at": np.inf}


class Elsewhere(Carts):
    """Pays less at one place, by what nobody finds who reads it."""

    def step(self, observations, actions):
        after, rewards = super().step(observations, actions)
        return after, rewards - (observations[..., 0] == np.float32(globals()["OFF"]["at"]))


def test_answers_of_a_model_that_has_changed_are_not_resumed(tmp_path, monkeypatch):
    queries, cache = cart_queries(200), ArmCache(tmp_path)
    measured(Elsewhere(), queries, cache=cache)
    for row in range(6):
        monkeypatch.setitem(OFF, "at", queries.observations_a[row, 0])
        resumed = measured(Elsewhere(), queries, cache=cache, resumes=True)
        anew = measured(Elsewhere(), queries)
        assert np.array_equal(resumed.imagined_a, anew.imagined_a)


class Network:
    """A linear ensemble whose products of matrices feel the rows beside them, in float32."""

    members = 3
    weights = np.random.default_rng(0).normal(size=(3, 3, 2)).astype(np.float32) / 2

    def step(self, observations, actions):
        inputs = np.concatenate([observations, actions], axis=2).astype(np.float32)
        after = np.tanh(inputs @ self.weights)
        return after, after[..., 0]


def test_the_bits_of_a_return_depend_on_no_other_query():
    queries = cart_queries(200)
    ensemble = bound(Network(), queries)
    whole = imagined_returns(ensemble, queries, progress=told)
    rows = np.array([3, 190, 77, 4, 121])
    part = imagined_returns(ensemble, queries.take(rows), progress=told)
    for all_of_side, some in zip(whole, part, strict=True):
        np.testing.assert_array_equal(all_of_side[:, rows], some)


def test_blocks_are_smaller_where_members_and_steps_would_not_fit_into_memory():
    of_sides = {f"{part}_{side}": np.zeros(1) for part in ("policy", "returns") for side in "ab"}
    starts = dict.fromkeys(("observations_a", "observations_b"), np.zeros((1, 376)))
    many = SimpleNamespace(horizons=np.array([50]), opening=lambda side: None, **of_sides, **starts)
    (size,) = {block.size for block in answers.Asked(SimpleNamespace(members=100), many).blocks}
    assert 1 <= size < 32
    assert 8 * 100 * 50 * 376 * size <= 2**27


def test_imagined_returns_are_the_true_ones_of_an_exact_model_with_a_discount():
    queries = cart_queries(60, discount=0.9)
    found = imagined_returns(bound(Carts(2, noise=0.0), queries), queries, progress=told)
    np.testing.assert_allclose(found.a[0], queries.returns_a, rtol=1e-4)
    np.testing.assert_allclose(found.b[1], queries.returns_b, rtol=1e-4)


def test_a_frozen_world_pays_the_first_step_of_the_model_for_ever():
    queries = cart_queries(40)
    found = frozen_returns(bound(Frozen(), queries), queries)
    expected = np.abs(queries.observations_a[:, 0] - 1.0) * -queries.horizons
    np.testing.assert_allclose(found.a[0], expected, rtol=1e-5)


class Frozen:
    members = 2

    def step(self, observations, actions):
        return observations, -np.abs(observations[..., 0] - 1.0)


def drawn(count=400, *, loss, lead, seed=0):
    """Return wrong answers, and confidences by so much lower for them."""
    rng = np.random.default_rng(seed)
    wrong = rng.random(count) < loss
    return wrong, 1 / (1 + np.exp(-(rng.normal(size=count) - lead * wrong)))


@pytest.mark.parametrize(
    ("loss", "lead", "label"),
    [
        (0.1, 3.0, "KNOWS ITS LIMITS"),
        (0.1, 0.0, "OVERCONFIDENT"),
        (0.01, 0.0, "KNOWS ITS LIMITS"),
        (0.6, 3.0, "UNINFORMED"),
        (0.35, 0.7, "OVERCONFIDENT"),
        (0.2, 1.3, "INCONCLUSIVE"),
    ],
)
def test_a_table_of_answers_gets_its_word(loss, lead, label):
    result = graded_table(*drawn(loss=loss, lead=lead))
    assert label_of(result) == label
    assert alarm_of(result).is_settled == (label != "INCONCLUSIVE")
    assert 0 <= alarm_of(result).p_value() <= 1


def test_fewer_than_ten_wrong_answers_leave_the_verdict_to_the_loss():
    result = graded_table(np.arange(400) < 9, np.linspace(0, 1, 400))
    assert result.auroc is None
    assert label_of(result) == "KNOWS ITS LIMITS"
    result = graded_table(np.arange(400) < 10, np.linspace(1, 0, 400))
    assert result.auroc.high < 0.6
    assert label_of(result) == "OVERCONFIDENT"


@pytest.mark.parametrize("share", [0.5, 0.1, 0.02])
def test_a_constant_answer_is_uninformed_however_rare_the_other_one_is(share):
    labels = np.arange(400) < 400 * share
    result = graded_table(labels, np.linspace(0, 1, 400), labels=labels, trivial=labels)
    assert label_of(result) == "UNINFORMED"


def test_random_answers_do_not_pass():
    for seed in range(20):
        wrong, sure = drawn(200, loss=0.5, lead=0.0, seed=seed)
        assert KIND.labels[label_of(graded_table(wrong, sure))] > 1


def test_a_result_survives_its_way_through_json_and_is_compared_with_itself():
    result = measured(Carts(drift=-0.4), cart_queries())
    again = decode(ComparisonResult, encode(result))
    assert again.loss == result.loss
    assert again.grades == result.grades
    np.testing.assert_array_equal(again.confidences, result.confidences)
    kept = decode(KeptAnswers, encode(KeptAnswers.of(result)))
    assert kept == KeptAnswers.of(again)
    assert len(result.mistakes) == result.wrong_count
    assert (np.diff(result.confidences[list(result.mistakes)]) <= 0).all()


def test_intervals_from_few_starts_are_a_doubt():
    queries = cart_queries(20)
    result = measured(Carts(drift=0.5), queries.take(np.tile(np.arange(20), 12)))
    assert "the queries have 20 starts" in ruling_of(result).doubt
    assert ruling_of(measured(Carts(drift=0.5), cart_queries())).doubt is None


def test_what_is_kept_tells_confidences_apart_that_are_nearly_one():
    queries = cart_queries()
    result = measured(Carts(drift=0.5), queries)
    assert (result.confidences > 0.9999).sum() > 20
    before = KeptAnswers.of(result).graded(result)
    assert answer_metrics(before).auroc == pytest.approx(result.grades.metrics.auroc)


def test_max_loss_is_a_limit_of_its_own():
    criteria = Criteria(**{**_fields(USUAL), "max_loss": 0.01})
    result = measured(Carts(drift=-0.4), cart_queries(), criteria)
    assert label_of(result) == "UNINFORMED"
    assert "wrong more often than max_loss allows" in card_of(result).texts("why")[0]
    assert "no better than" in card_of(measured(Carts(push=-1.0), cart_queries())).texts("why")[0]


def _fields(criteria):
    return {name: getattr(criteria, name) for name in criteria.__slots__}


def test_bounds_of_standing_observations_are_a_fault_and_those_of_a_fall_are_none():
    high = np.r_[1.3, 0.15, np.full(9, 5.0)]
    upright = np.tile(np.r_[1.25, np.zeros(10)], (5, 1))
    queries = SimpleNamespace(terminated=hopper_fell, observations_a=upright)
    standing, fallen = (
        SimpleNamespace(clip_bounds=ClipBounds(low=np.r_[low, -high[1:]], high=high))
        for low in (0.8, 0.5)
    )
    assert "no episode ends" in clip_fault(standing, queries)
    assert clip_fault(fallen, queries) == ""
    unending = SimpleNamespace(terminated=None, observations_a=np.zeros((5, 4)))
    bounds = ClipBounds(low=-np.ones(4), high=np.ones(4))
    assert clip_fault(SimpleNamespace(clip_bounds=bounds), unending) == ""


class Clipped:
    """Members that are kept to where no episode ends, beside what they are otherwise."""

    clip_bounds = ClipBounds(low=np.full(2, -2.0), high=np.full(2, 2.0))

    def __init__(self, model):
        self.members, self.step = model.members, model.step


def test_bounds_that_follow_from_a_world_in_which_nothing_moves_are_no_fault_beside_it():
    """As of a network trained on s' = s, whose user took the bounds that the fault asks for."""
    queries = replace(cart_queries(), terminated=lambda seen: np.abs(seen[:, 0]) > 3)

    def answered(model):
        spec = Spec(name="carts", queries=queries, criteria=USUAL)
        data, execution = cart_steps(), Execution()
        return measure_comparison(spec, Clipped(model), running(data, execution))

    standing = answered(Frozen())
    assert standing.faults[0].startswith("One step is predicted no better than by leaving every")
    assert card_of(standing).texts("why")[0] == standing.faults[0]
    assert not any("clipped" in fault for fault in standing.faults)
    (clipped,) = answered(Carts()).faults
    assert clipped.startswith("Predictions are clipped to bounds within which no episode ends")


def test_only_wrong_answers_count_against_a_confidence_that_does_not_vary():
    sure = np.where(np.arange(1000) < 970, 1.0, np.linspace(0.1, 0.9, 1000))
    good = GradedAnswers(wrong=np.arange(1000) >= 980, confidences=sure)
    assert saturated_fault(good) == ""
    bad = GradedAnswers(wrong=np.arange(1000) < 20, confidences=sure)
    assert "100 % of the wrong answers have the highest confidence" in saturated_fault(bad)
    # Three members that vote have two confidences, and these may tell all that there is to tell.
    votes = GradedAnswers(wrong=np.arange(1000) >= 900, confidences=(sure == 1) * 2 / 3 + 1 / 3)
    assert saturated_fault(votes) == ""
    few = GradedAnswers(wrong=np.arange(1000) < 9, confidences=sure)
    assert saturated_fault(few) == ""


@pytest.mark.parametrize(("learned", "is_fault"), [(0.61212825, True), (0.62, True), (0.6, False)])
def test_a_step_as_far_off_as_without_a_model_is_a_fault_however_rounding_falls(learned, is_fault):
    # The first is what a network trained on s' = s had on the published queries of Hopper.
    found = OneStep(learned=learned, frozen=0.61212826, steps=512)
    assert bool(frozen_fault(found)) == is_fault


def test_true_steps_are_the_users():
    queries = cart_queries()
    assert one_step_error(bound(Carts(), queries), queries, None) is None
    found = one_step_error(bound(Carts(noise=0.0), queries), queries, cart_steps())
    assert found.learned < 1e-6 < found.frozen
    assert found.steps == 200
    wide = np.zeros((200, 3))
    for what, size, steps in (
        ("observations", 2, replace(cart_steps(), observations=wide, next_observations=wide)),
        ("actions", 1, replace(cart_steps(), actions=wide)),
    ):
        with pytest.raises(CpgError, match=f"{what} of size 3, and the queries of size {size}"):
            one_step_error(bound(Carts(), queries), queries, steps)


def test_recorded_steps_in_which_nothing_moves_are_a_fault_of_theirs():
    queries, steps = cart_queries(), cart_steps()
    still = replace(steps, next_observations=steps.observations)
    found = one_step_error(bound(Carts(), queries), queries, still)
    assert "Nothing moves in 200 steps of training_data" in frozen_fault(found)


def test_a_prediction_that_is_no_number_is_told_by_member_query_and_step():
    queries = cart_queries()
    with pytest.raises(WorldModelError, match=r"member 2 .* in query \d+, side a, at imagined ste"):
        imagined_returns(bound(Carts(lost=5), queries), queries, progress=told)


class Noisy(Carts):
    """Carts that are pushed about by noise, as those that draw it may be."""

    noise_size = 1

    def step(self, observations, actions, noise):
        after = super().step(observations, actions)[0] + 0.1 * noise
        return after, paid(after)


def test_a_model_that_draws_noise_is_not_broken_for_it():
    result = measured(Noisy(), cart_queries())
    assert result.faults == ()
    assert 0 < result.wrong_count < 40


@pytest.mark.parametrize("push", [0.0, 1e-3, 0.05])
def test_a_model_that_hardly_feels_its_action_is_at_fault(push):
    queries = cart_queries()
    ensemble = bound(Carts(noise=0.0, push=push), queries)
    by_policies = replace(queries, actions_a=None, actions_b=None)
    for asked in (queries, by_policies):
        assert ("ignores the action" in action_fault(held(ensemble, asked))) == (push < 0.01)


def test_a_model_in_which_nothing_moves_is_told_so_where_no_true_step_is_known():
    queries = replace(cart_queries(), states_a=None, states_b=None)
    fault = measured(Frozen(), queries).faults[0]
    assert fault.startswith("Nothing moves in the model: from 240 starts it predicts the obser")


def test_what_follows_from_a_fault_is_not_said_beside_it():
    copies = measured(Carts(push=-1.0, noise=0.0), cart_queries())
    assert copies.confidences[copies.wrong].min() == 1
    assert ["never disagree" in one for one in copies.faults] == [True]


@pytest.mark.parametrize("task", ["acrobot-swingup", "pendulum-swingup"])
def test_a_push_that_is_weak_beside_what_swings_by_itself_is_felt(task):
    pytest.importorskip("mujoco")
    world, rngs = TASKS[task](), [np.random.default_rng(row) for row in range(64)]
    states, pushes = world.reset(np.arange(64)), world.actions.sample(rngs, (21,))
    for step in range(20):
        states = world.step(states, pushes[:, step])
    found = []
    for actions in (pushes[:, 20], pushes[::-1, 20]):
        after = world.step(states, actions)
        found.append((world.observe(after) - world.observe(states))[None])
    differ = np.abs(pushes[:, 20] - pushes[::-1, 20]).max() / np.abs(pushes[:, 20]).max()
    assert action_fault(Held(np.stack(found), np.ones(1), differ)) == ""


@pytest.mark.parametrize("push", [0.0, 1.0])
def test_members_that_never_disagree_are_at_fault_however_few_mistakes_they_make(push):
    result = measured(Carts(push=push, noise=0.0), cart_queries())
    assert "never disagree" in " ".join(result.faults)
    assert label_of(result) == "BROKEN"


class Large(Carts):
    """Carts that are paid, or moved, out of all proportion."""

    def __init__(self, *, paid=1.0, moved=1.0):
        super().__init__()
        self.paid, self.moved = paid, moved

    def step(self, observations, actions):
        after, rewards = super().step(observations, actions)
        return self.moved * after, self.paid * rewards


class Square:
    """A policy without an action where observations are large."""

    def act(self, observations):
        place = observations[:, :1] ** 2
        return np.clip(place - place**2, -1, 1)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_what_grows_without_bounds_is_the_models_fault_and_told_by_query():
    queries = cart_queries()
    with pytest.raises(WorldModelError, match=r"rewards up to .*e\+307 in query \d+, side a"):
        imagined_returns(bound(Large(paid=1e307), queries), queries, progress=told)
    of_square = replace(queries, policies=(Square(),) * 4)
    with pytest.raises(
        WorldModelError, match=r"imagined observations up to .* by step \d+ of query"
    ):
        imagined_returns(bound(Large(moved=1e30), of_square), of_square, progress=told)
    # What is near the starts is the policy's own.
    lame = replace(queries, policies=(Lame(),) * 4)
    with pytest.raises(CpgError, match=r"policy 0 gave the action \[nan\]"):
        imagined_returns(bound(Carts(), lame), lame, progress=told)


class Lame:
    """A policy without an action on the right."""

    def act(self, observations):
        return np.where(observations[:, :1] > 1.6, np.nan, 0.9)


def test_a_reward_that_float32_does_not_hold_is_told_by_member_and_step():
    class Small(Large):
        def step(self, observations, actions):
            after, rewards = super().step(observations, actions)
            return after.astype(np.float32), rewards

    queries = cart_queries()
    with pytest.raises(WorldModelError, match=r"predicted reward -?inf, in query \d+, side a"):
        imagined_returns(bound(Small(paid=1e300), queries), queries, progress=told)


def test_the_table_says_why_there_is_no_auroc_where_all_answers_are_wrong():
    result = measured(Large(paid=-1.0), cart_queries())
    assert (result.auroc, result.wrong_count) == (None, 240)
    assert card_of(result).table.rows[-1].cells[1] == "only 0 right"


def test_a_wrong_first_prediction_is_told_by_the_recorded_step():
    class Lost(Carts):
        def step(self, observations, actions):
            after, rewards = super().step(observations, actions)
            after[1, 9:10] = np.nan
            return after, rewards

    queries = cart_queries()
    with pytest.raises(WorldModelError, match=r"member 1 .*, in step 9 of training_data"):
        one_step_error(bound(Lost(), queries), queries, cart_steps())


def test_the_table_says_of_how_few_wrong_answers_no_auroc_is_made_within_the_width_of_an_interval():
    result = measured(Carts(drift=-0.05), cart_queries())
    assert 0 < result.wrong_count < 10
    cells = [row.cells for row in card_of(result).table.rows]
    assert cells[-1][1] == f"only {result.wrong_count} wrong"
    assert max(len(interval) for _, interval, _, _ in cells) <= len("[0.000, 1.000]")


def test_answers_from_workers_are_the_same_bits_in_whatever_order_they_come():
    queries = cart_queries(200)
    ensemble = bound(Network(), queries)
    told_done = []
    alone = imagined_returns(ensemble, queries, progress=told)
    with ThreadPoolExecutor(3) as executor:
        spread = spread_over(executor, Network(), ensemble, queries, seed=0)
        found = imagined_returns(
            ensemble, queries, progress=lambda *done: told_done.append(done), spread=spread
        )
    np.testing.assert_array_equal(found, alone)
    assert told_done[0] == ("queries", 0, 400)
    assert told_done[-1] == ("queries", 400, 400)


def test_a_model_that_is_another_one_in_a_worker_is_refused():
    class Forgetful(Network):
        def __getstate__(self):
            return {"weights": 2 * Network.weights}

    queries = cart_queries(40)
    ensemble = bound(Network(), queries)
    with ThreadPoolExecutor(1) as executor:
        spread = spread_over(executor, Forgetful(), ensemble, queries, seed=0)
        with pytest.raises(WorldModelError, match="answers otherwise in a worker"):
            imagined_returns(ensemble, queries, progress=told, spread=spread)
