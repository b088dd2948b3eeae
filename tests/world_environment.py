"""A task of finite actions as an environment of Gymnasium."""

import gymnasium
import numpy as np


class Environment(gymnasium.Env):
    def __init__(self, task):
        self.task = task
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (task.observation_size,))
        self.action_space = gymnasium.spaces.Discrete(len(task.actions.values))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.states = self.task.reset(self.np_random.integers(2**31, size=1))
        return np.float32(self.task.observe(self.states)[0]), {}

    def step(self, action):
        actions = self.task.actions.values[[action]]
        self.states = self.task.step(self.states, actions)
        reward = float(self.task.reward(self.states, actions)[0])
        is_solved = bool(self.task.success(self.states, actions)[0])
        return np.float32(self.task.observe(self.states)[0]), reward, is_solved, False, {}
