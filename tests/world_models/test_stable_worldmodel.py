import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pytest_cpg.contracts import WorldModelError
from pytest_cpg.episodes.design import Design
from pytest_cpg.episodes.replay import replay
from pytest_cpg.gates.planning_gap.diagnosis.sample import diagnose
from pytest_cpg.gates.planning_gap.measure import measure_gap
from pytest_cpg.machine.fingerprint import fingerprint
from pytest_cpg.planners import RandomShooting
from pytest_cpg.tasks.grids import maze
from pytest_cpg.world_models import OracleDynamics, bind
from pytest_cpg.world_models.checkpoints.stable_worldmodel import StableWorldModel


class Predictor(torch.nn.Module):
    """A model as stable-worldmodel wants it: linear, rated by the distance to a goal."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = torch.nn.Linear(2, 3)
        self.predictor = torch.nn.Linear(5, 3)

    def rollout(self, info, candidates):
        latent = self.encoder(info["state"]).expand(*candidates.shape[:2], -1)
        said = [latent]
        for action in candidates.unbind(dim=2):
            latent = latent + self.predictor(torch.cat([latent, action], dim=-1))
            said.append(latent)
        info["predicted_emb"] = torch.stack(said, dim=2)
        return info

    def get_cost(self, info, candidates):
        goal = self.encoder(info["goal"])
        last = self.rollout(info, candidates)["predicted_emb"][:, :, -1]
        return (last - goal).square().sum(dim=-1)


def reference(model, observations, actions, goal):
    """Return costs [B, H] and embeddings [B, H, 3], in numpy."""
    w = {name: value.numpy().astype(float) for name, value in model.state_dict().items()}

    def encode(x):
        return x @ w["encoder.weight"].T + w["encoder.bias"]

    latent, costs, said = encode(observations), [], []
    for step in range(actions.shape[1]):
        joined = np.concatenate([latent, actions[:, step]], -1)
        latent = latent + joined @ w["predictor.weight"].T + w["predictor.bias"]
        costs.append(((latent - encode(goal)) ** 2).sum(-1))
        said.append(latent)
    return np.stack(costs, 1), np.stack(said, 1)


def with_goal(observations):
    return {"state": observations, "goal": torch.ones_like(observations)}


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    return rng.normal(size=(4, 2)), rng.normal(size=(4, 3, 2))


def test_each_step_is_rated_by_the_cost_of_the_plan_up_to_there(rows):
    observations, actions = rows
    network = Predictor()
    model = StableWorldModel(network, action_size=2, info=with_goal, longest=3)
    imagined = model.rollout(model.encode(observations), actions)
    costs, _ = reference(network, observations, actions, np.ones((4, 2)))
    assert model.score(imagined) == pytest.approx(costs, abs=1e-5)
    # A plan may be imagined in two pieces, and plans of one call may be of different lengths.
    half = model.rollout(imagined[:, 1], actions[:, 2:])
    assert np.array_equal(half[:, 0], imagined[:, 2])
    mixed = np.stack([imagined[0, 2], imagined[1, 0], imagined[2, 1], imagined[3, 2]])
    expected = costs[range(4), [2, 0, 1, 2]]
    assert model.score(mixed) == pytest.approx(expected, abs=1e-5)
    with pytest.raises(WorldModelError, match="longest="):
        model.rollout(imagined[:, 2], actions)


def test_what_a_rollout_predicts_is_decoded_and_rated_by_the_task(rows):
    observations, actions = rows
    network = Predictor()
    given = {"action_size": 2, "longest": 3, "decode": lambda said: said[..., :2]}
    model = StableWorldModel(network, predicted="predicted_emb", **given)
    imagined = model.rollout(model.encode(observations), actions)
    _, said = reference(network, observations, actions, np.ones((4, 2)))
    assert model.decode(imagined) == pytest.approx(said[..., :2], abs=1e-5)
    beside = StableWorldModel(
        network,
        predicted="predicted_emb",
        columns=(3, 0),
        info=lambda seen: {"state": seen[:, 1:3]},
        **given,
    )
    goals = np.concatenate([np.full((4, 1), 7.0), observations, np.full((4, 1), 8.0)], axis=1)
    read = beside.decode(beside.rollout(beside.encode(goals), actions))
    assert read[..., [3, 0]] == pytest.approx(said[..., :2], abs=1e-5)
    assert np.array_equal(read[..., 1:3], np.repeat(observations[:, None], 3, axis=1))
    narrow = StableWorldModel(network, action_size=2, longest=3, predicted="predicted_emb")
    with pytest.raises(WorldModelError, match=r"as 3 numbers, and observations have 2\. "):
        narrow.decode(imagined)
    with pytest.raises(WorldModelError, match=r"no 'predictions'. Name what it predicts"):
        StableWorldModel(network, predicted="predictions", **given).decode(imagined)
    with pytest.raises(WorldModelError, match=r"It has a get_cost, .* take StableWorldModel\("):
        bind(network, maze(), probe_states=np.ones((2, 2)), probe_actions=np.ones((2, 2)))
    with pytest.raises(WorldModelError, match="has no get_cost"):
        StableWorldModel(torch.nn.Linear(2, 2), action_size=2)


class FirstGoal(Predictor):
    """Takes the first start's goal for that of all, as LeWM does, and reads the last action."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def get_cost(self, info, candidates):
        self.shapes.append(tuple(candidates.shape))
        if "goal_latent" not in info:
            given = dict(info)
            given.pop("action")
            info["goal_latent"] = self.encoder(given["goal"][:, 0])
        last = self.rollout(info, candidates)["predicted_emb"][:, :, -1]
        return (last - info["goal_latent"][:1]).square().sum(dim=-1)


def planned_costs(network, count):
    """Costs of plans [N, K], from starts with goals of their own, and what they should be.

    All numbers are short, so that every processor adds them up alike, however many rows there are.
    """
    rng = np.random.default_rng(0)
    starts, plans = rng.integers(-8, 9, (count, 2)) / 4, rng.integers(-8, 9, (count, 5, 3, 2)) / 4
    with torch.no_grad():
        for weights in network.parameters():
            weights.copy_(torch.tensor(rng.integers(-1, 2, tuple(weights.shape))))
    given = {"action_size": 2, "info": lambda o: {"state": o, "goal": o + 1}}
    model = StableWorldModel(network, **given)
    probe = {"probe_states": maze().reset(np.arange(8)), "probe_actions": rng.normal(size=(8, 2))}
    bound = bind(model, maze(), **probe)
    latents = bound.encode(starts)
    found = [bound.plan_costs(latents, plans, np.full(count, 3)) for _ in range(8)]
    assert all(np.array_equal(found[0], more) for more in found)
    rows = np.repeat(starts, 5, axis=0)
    costs, _ = reference(network, rows, plans.reshape(-1, 3, 2), rows + 1)
    return found[0], costs[:, -1].reshape(count, 5)


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("network", [Predictor, FirstGoal])
def test_plans_of_an_episode_are_rated_at_once(network, count):
    found, expected = planned_costs(network(), count)
    assert np.ptp(expected) > 1
    assert np.array_equal(found, expected)


class OneSlot(Predictor):
    """Keeps what it encoded last by the start's id, refuses to encode it twice, as PreJEPA does."""

    def get_cost(self, info, candidates):
        assert "action" in info, "action key must be in info_dict"
        known = getattr(self, "slot", {"id": torch.zeros(0), "step_idx": torch.zeros(0)})
        if not all(torch.equal(known[name], info[name][:, 0]) for name in known if name != "goal"):
            assert "goal_emb" not in info, "goal_emb key already in info_dict"
            names = ("id", "step_idx")
            self.slot = known = {name: info[name][:, 0] for name in names}
            self.slot["goal"] = self.encoder(info["goal"])
        info["goal_emb"] = known["goal"]
        last = self.rollout(info, candidates)["predicted_emb"][:, :, -1]
        return (last - info["goal_emb"]).square().sum(dim=-1)


@pytest.mark.parametrize("count", [1, 2, 20])
def test_a_model_that_keeps_one_start_is_given_each_as_if_it_were_new(count):
    network = OneSlot()
    found, expected = planned_costs(network, count)
    assert np.array_equal(found, expected)
    # Asked through another object, it has kept nothing of these starts.
    found, expected = planned_costs(network, count)
    assert np.array_equal(found, expected)


def test_an_assertion_of_the_model_itself_is_the_users_to_see():
    class Asserts(Predictor):
        def get_cost(self, info, candidates):
            raise AssertionError("no action fits")

    model = StableWorldModel(Asserts(), action_size=2, info="state")
    with pytest.raises(AssertionError, match="no action fits"):
        model.episode_costs(model.encode(np.zeros((1, 2))), np.zeros((1, 4, 3, 2)))
    # As LeWM does where it is given no goal.
    network = Asserts()
    network.get_cost = refuses_a_missing_goal
    model = StableWorldModel(network, action_size=2, info="state")
    with pytest.raises(
        WorldModelError, match=r"'goal not in info_dict', and info= gives state\. R"
    ):
        model.episode_costs(model.encode(np.zeros((1, 2))), np.zeros((1, 4, 3, 2)))


def refuses_a_missing_goal(info, candidates):
    raise AssertionError("goal not in info_dict")


def test_several_episodes_are_rated_at_once_where_that_is_right():
    network = FirstGoal()
    planned_costs(network, 20)
    assert network.shapes[-20:] == [(1, 5, 3, 2)] * 20

    class Right(FirstGoal):
        def get_cost(self, info, candidates):
            self.shapes.append(tuple(candidates.shape))
            return super(FirstGoal, self).get_cost(info, candidates)

    network = Right()
    planned_costs(network, 20)
    assert network.shapes[-6:] == [(8, 5, 3, 2)] * 2 + [(1, 5, 3, 2)] * 4


def test_a_score_of_each_step_is_right_for_one_start_alone_too(rows):
    observations, actions = rows
    network = FirstGoal()
    model = StableWorldModel(
        network, action_size=2, info=lambda o: {"state": o, "goal": o + 1}, longest=3
    )
    imagined = model.rollout(model.encode(observations), actions)
    costs, _ = reference(network, observations, actions, observations + 1)
    assert model.score(imagined) == pytest.approx(costs, abs=1e-5)


def test_what_a_model_misses_is_named():
    model = StableWorldModel(Predictor(), action_size=2, info="state")
    latents = model.encode(np.zeros((1, 2)))
    with pytest.raises(WorldModelError, match="the model reads 'goal', and info= gives state"):
        model.episode_costs(latents, np.zeros((1, 4, 3, 2)))


def test_what_is_kept_from_call_to_call_is_no_part_of_a_model():
    model = StableWorldModel(Predictor(), action_size=2, info=with_goal)
    before = fingerprint(model)
    model.episode_costs(model.encode(np.zeros((1, 2))), np.zeros((1, 4, 3, 2)))
    assert fingerprint(model) == before


def test_a_model_of_costs_can_be_gated():
    task = maze()
    model = StableWorldModel(Predictor(), action_size=2, info=with_goal)
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    bound = bind(model, task, probe_states=task.reset(np.arange(8)), probe_actions=actions)
    assert "score" in bound.swapped


@pytest.mark.parametrize(
    ("options", "swapped"),
    [({}, "score"), ({"predicted": "predicted_emb", "decode": lambda e: e[:, :2]}, "decoder")],
)
def test_a_model_that_rates_plans_alone_is_gated_without_a_third_arm(options, swapped):
    task = maze(budget=6)
    given = {"action_size": 2, "info": with_goal, "longest": 3, **options}
    model = StableWorldModel(Predictor().eval(), **given)
    design = Design(
        task=task,
        planner=RandomShooting(horizon=3, candidates=8),
        episodes=2,
        seed=0,
    )
    oracle = OracleDynamics(task)
    result = measure_gap(design, oracle=oracle, learned=model)
    assert result.swapped == ("dynamics", swapped)
    assert result.rescored is None
    assert result.scoring_loss is None
    assert any("rates plans and no true states" in note for note in result.notes)
    found = diagnose(design, oracle=oracle, learned=model, result=result)
    assert "rates plans and no states is not diagnosed" in found.summary
    traces = replay(design, oracle=oracle, learned=model, episodes=(0,)).traces
    assert np.isfinite(traces[0].learned.actual).all()
