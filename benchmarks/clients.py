"""`make bench-clients`: planning here against the solvers of the libraries that models come from.

The same model, samples, horizon and iterations, in processor time on one thread, in turns in one
process. It is measured where the library is installed.
"""

from __future__ import annotations

import contextlib
import io
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.row import cpu_seconds
from pytest_cpg.episodes.imagination import Imagination
from pytest_cpg.planners import CEM
from pytest_cpg.tasks import TASKS
from pytest_cpg.world_models import StableWorldModel, bind, inference

TURNS, WARM_UPS = 5, 3
SIZES = (1, 8, 50)
TO_INSTALL = (
    "stable-worldmodel is not usable here: {error}. Install it beside a torchvision for the same "
    "torch:\n    pip install stable-worldmodel==0.1.1 opencv-python-headless"
)


class Config(dict[str, Any]):
    """A dictionary whose entries are attributes, too."""

    __getattr__ = dict.__getitem__


class Contract:
    """stable-worldmodel's TD-MPC2, as our contract has it."""

    def __init__(self, model: Any) -> None:
        self.model, self.discount = model, model.cfg.wm.discount

    def encode(self, observations: Any) -> Any:
        return self.model.encode({"state": observations})

    def rollout(self, latents: Any, actions: Any) -> Any:
        reached = []
        for action in actions.unbind(dim=1):
            latents = self.model.dynamics(torch.cat([latents, action], dim=-1))
            reached.append(latents)
        return torch.stack(reached, dim=1)

    def reward(self, latents: Any, actions: Any) -> Any:
        return self._read(self.model.reward(torch.cat([latents, actions], dim=-1)))

    def terminal_value(self, latents: Any) -> Any:
        action = torch.tanh(self.model.pi(latents).chunk(2, dim=-1)[0])
        there = torch.cat([latents, action], dim=-1)
        values = torch.stack([self._read(q(there)) for q in self.model.qs])
        mean = values.mean(dim=0)
        penalty = self.model.cfg.wm.uncertainty_penalty
        return mean - penalty * mean.abs() * values.std(dim=0)

    def _read(self, logits: Any) -> Any:
        from stable_worldmodel.wm.tdmpc2 import two_hot_inv

        return two_hot_inv(logits, self.model.cfg)[..., 0]


def tdmpc2() -> Any:
    """Return TD-MPC2 with the sizes of the library's own settings, and random weights."""
    from stable_worldmodel.wm.tdmpc2 import TDMPC2

    torch.manual_seed(0)
    wm = Config(
        mlp_dim=384, enc_dim=256, simnorm_dim=8, num_q=5, tau=0.01, discount=0.99, num_bins=101,
        vmin=-6, vmax=2, uncertainty_penalty=0.5, encoding={"state": 128},
    )  # fmt: skip
    return TDMPC2(Config(action_dim=2, extra_dims={"state": 6}, wm=wm)).eval()


class Pictures(torch.nn.Module):
    """Stands for the encoder of pictures, which is asked once a plan."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, size)

    def forward(self, given: Any, **_: Any) -> Any:
        return Config(last_hidden_state=self.linear(given)[:, None])


def lewm() -> Any:
    """Return a small LeWM with random weights."""
    from stable_worldmodel.wm.lewm import LeWM
    from stable_worldmodel.wm.lewm.module import Embedder, Predictor

    torch.manual_seed(0)
    size = 64
    predictor = Predictor(
        num_frames=3, depth=2, heads=4, mlp_dim=4 * size, input_dim=size, hidden_dim=size,
        dim_head=16,
    )  # fmt: skip
    return LeWM(Pictures(size), predictor, Embedder(input_dim=2, emb_dim=size)).eval()


def with_goal(observations: Any) -> dict[str, Any]:
    """Return what LeWM reads: one frame, and the one to get to."""
    frames = observations[:, None]
    return {"pixels": frames, "goal": torch.ones_like(frames)}


def ours(model: Any, planner: CEM, count: int) -> Callable[[], object]:
    """Return what plans for so many episodes, as a gate does."""
    task = TASKS["reacher-easy"]()
    states = task.reset(np.arange(max(count, 8)))
    actions = task.actions.sample([np.random.default_rng(0)], (8,))[0]
    with inference():
        bound = bind(model, task, probe_states=states[:8], probe_actions=actions)
    world = Imagination("learned", task.actions, bound)
    rngs = [np.random.default_rng(row) for row in range(count)]
    world.plans_for(np.arange(count), np.zeros(count, dtype=int))
    remaining = np.full(count, task.budget)
    return lambda: planner.plan(world, world.encode(states[:count]), rngs, remaining)


def theirs(
    model: Any,
    planner: CEM,
    count: int,
    info: Callable[[Any], Any],
    *,
    at_once: int | None = None,
) -> Callable[[], Any]:
    """Return the library's own solver, for so many episodes at once; all by default."""
    import gymnasium
    from stable_worldmodel.policy import PlanConfig
    from stable_worldmodel.solver import CEMSolver

    task = TASKS["reacher-easy"]()
    observations = torch.tensor(task.observe(task.reset(np.arange(count))), dtype=torch.float32)
    solver = CEMSolver(
        model,
        batch_size=at_once or count,
        num_samples=planner.samples,
        n_steps=planner.iterations,
        topk=planner.elites,
    )
    space = gymnasium.spaces.Box(-1, 1, (count, 2))
    config = PlanConfig(horizon=planner.horizon, receding_horizon=1)
    solver.configure(action_space=space, n_envs=count, config=config)
    given = {**info(observations), "action": torch.zeros(count, 1, 2)}

    def solve() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            solver.solve(dict(given))

    return solve


class Network(torch.nn.Module):
    """A network of reacher's six numbers and two actions, which plans are rated in step by step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        linear, relu = torch.nn.Linear, torch.nn.ReLU
        self.net = torch.nn.Sequential(
            linear(8, 128), relu(), linear(128, 128), relu(), linear(128, 6)
        )

    def encode(self, observations: Any) -> Any:
        return observations

    def rollout(self, latents: Any, actions: Any) -> Any:
        reached = []
        for action in actions.unbind(dim=1):
            latents = latents + self.net(torch.cat([latents, action], dim=-1))
            reached.append(latents)
        return torch.stack(reached, dim=1)

    def reward(self, latents: Any, actions: Any) -> Any:
        del actions
        return -latents.square().sum(dim=-1)


def by_mbrl(model: Network, planner: CEM, count: int) -> Callable[[], None]:
    """Return mbrl-lib's own CEM, which plans for one episode after the other."""
    cem = import_module("mbrl.planning").CEMOptimizer
    observations = torch.zeros(planner.samples, 6)
    low = [[-1.0, -1.0]] * planner.horizon
    high = [[1.0, 1.0]] * planner.horizon
    optimiser = cem(
        planner.iterations, planner.elites / planner.samples, planner.samples, low, high, 0.1,
        torch.device("cpu"), clipped_normal=True,
    )  # fmt: skip

    @torch.no_grad()
    def rated(plans: Any) -> Any:
        return model.reward(model.rollout(observations, plans), plans).sum(dim=1)

    begun = torch.zeros(planner.horizon, 2)

    def solve() -> None:
        for _ in range(count):
            optimiser.optimize(rated, x0=begun)

    return solve


def turns(
    what: str,
    one: Callable[[], object],
    other: Callable[[], object],
    count: int,
    bar: float,
) -> str:
    """Return a row: milliseconds per plan on both sides, and the median ratio of the turns."""

    def turn() -> tuple[float, float]:
        # Theirs as it is without us: inference replaces a kernel of torch.
        with inference():
            mine = cpu_seconds(one) / count
        return mine, cpu_seconds(other) / count

    for _ in range(WARM_UPS):
        turn()
    pairs = [turn() for _ in range(TURNS)]
    mine, own = (1e3 * statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(second / first for first, second in pairs)
    return f"{what:44s} {count:3d} {mine:9.1f} ms {own:9.1f} ms {ratio:7.2f} x   >= {bar} x"


def rows() -> Iterator[str]:
    """Yield a row for each model, way to ask it and number of episodes."""
    planner = CEM(samples=64, horizon=15, iterations=3, elites=8, objective="terminal", execute=1)
    model = tdmpc2()
    by_cost = StableWorldModel(model, action_size=2, info="state")
    state = lambda observations: {"state": observations}  # noqa: E731
    for what, learned, bars in (
        ("its TD-MPC2 by get_cost, CEM 64 x 15 x 3", by_cost, (0.9, 1.0, 1.3)),
        ("the same by our contract", Contract(model), (1.0, 1.0, 1.3)),
    ):
        for count, bar in zip(SIZES, bars, strict=True):
            one, other = ours(learned, planner, count), theirs(model, planner, count, state)
            yield turns(what, one, other, count, bar)
    planner = CEM(samples=32, horizon=15, iterations=2, elites=4, objective="terminal", execute=1)
    model = lewm()
    by_cost = StableWorldModel(model, action_size=2, info=with_goal)
    for count, bar in zip(SIZES[:2], (0.9, 1.0), strict=True):
        # It refuses more than one: the goal's shape is right for one alone.
        other = theirs(model, planner, count, with_goal, at_once=1)
        one = ours(by_cost, planner, count)
        yield turns("LeWM by get_cost, CEM 32 x 15 x 2", one, other, count, bar)
    if find_spec("mbrl") is None:
        yield "mbrl-lib's CEM: not measured, as mbrl is not installed (make clients installs it)"
        return
    planner, network = CEM(samples=64, horizon=15, iterations=3, elites=8, execute=1), Network()
    for count in SIZES:
        one, other = ours(network.eval(), planner, count), by_mbrl(network, planner, count)
        yield turns("mbrl-lib's CEM 64 x 15 x 3, 128 x 128", one, other, count, 1.0)


def main() -> None:
    """Print the rows, as they are measured, or what to install."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            # Beside a torch for CPUs alone, torchvision is not imported without it.
            sys.path.append(str(Path(__file__).parent.parent / "tests"))
            import_module("cpu_torchvision")
            import stable_worldmodel.solver  # noqa: F401
        # Its imports fail in many ways where torch and torchvision do not fit.
        except (ImportError, RuntimeError) as error:
            sys.exit(TO_INSTALL.format(error=error))
    found = ", ".join(f"{name} {version(name)}" for name in ("stable-worldmodel", "torch"))
    print(f"{found}; milliseconds of processor time per plan, one thread\n")
    print(f"{'what':44s} {'N':>3s} {'ours':>12s} {'theirs':>12s} {'ratio':>9s}   bar")
    torch.set_num_threads(1)
    for row in rows():
        print(row, flush=True)


if __name__ == "__main__":
    main()
