"""stable-worldmodel's own solver as the planner of a gate: both arms plan with it."""

from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from typing import ClassVar

import gymnasium
import numpy as np
import torch
from stable_worldmodel.policy import PlanConfig
from stable_worldmodel.solver import CEMSolver

from pytest_cpg.contracts import Plans


@dataclass(frozen=True)
class Costs:
    """Stands for the model that a solver asks: the truth's in one arm, and yours in the other."""

    world_model: object
    latent: np.ndarray
    lengths: np.ndarray

    def get_cost(self, info, candidates):
        """Return costs [1, K] of plans [1, K, H, A]; bounds are the environment's to keep."""
        plans = np.clip(candidates.double().numpy(), -1, 1)
        return torch.tensor(self.world_model.plan_costs(self.latent, plans, self.lengths))


@dataclass(frozen=True, kw_only=True)
class StableCEM:
    """Its CEM. The last step of a plan is rated, as its models do."""

    samples: int = 32
    iterations: int = 2
    elites: int = 5
    horizon: int = 5
    execute: int = 2
    objective: str = "terminal"
    name: ClassVar[str] = "stable-worldmodel's CEM"

    def plan(self, world_model, latents, rngs, remaining):
        """Plan for one episode after the other: a solver has one generator for all it solves."""
        config = PlanConfig(horizon=self.horizon, receding_horizon=self.execute)
        space = gymnasium.spaces.Box(-1, 1, (1, world_model.actions.size))
        plans = []
        for row, rng in enumerate(rngs):
            episode = slice(row, row + 1)
            lengths = np.minimum(remaining[episode], self.horizon)
            solver = CEMSolver(
                Costs(world_model, latents[episode], lengths),
                num_samples=self.samples,
                n_steps=self.iterations,
                topk=self.elites,
                seed=int(rng.integers(2**31)),
            )
            solver.configure(action_space=space, n_envs=1, config=config)
            with redirect_stdout(StringIO()):  # it prints how long it took
                solved = solver.solve({"episode": np.array([row])})
            plans.append(solved["actions"][0].double().numpy())
        return Plans(np.clip(plans, -1, 1), np.minimum(remaining, self.execute))
