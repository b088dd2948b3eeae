"""Checkpoints of pictures as the official code writes them, and its answers beside ours.

``python official_code.py tdmpc2 FOLDER FILE.pt`` imports the code of a clone of its repository,
which makes a model of the published size and trains it for two updates on frames of the reacher,
from random weights. No function of its networks is replaced. What it cannot do here:

- TD-MPC2's agent asks for a graphics processor as it is made. So its world model is made alone, and
  an agent of its class is given that and an optimiser; the policy is left as it began. Random
  shifts of frames are drawn anew at each call: the encoder's other layers are asked.
- DreamerV3's port imports `gym`, which is Gymnasium here, and a parser of YAML and TensorBoard's
  writer, which are empty modules. None of the three is used.
"""

import importlib
import sys
from itertools import count
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import torch
from omegaconf import OmegaConf

from pytest_cpg.tasks import TASKS
from pytest_cpg.tasks.pixel_task import seen_as_pixels
from pytest_cpg.world_models.checkpoints.dreamer import DreamerV3
from pytest_cpg.world_models.checkpoints.tdmpc2 import TDMPC2

EPISODES, STEPS, UPDATES = 8, 6, 2


def walk(*, stack):
    """Return frames [B, T + 1, F, H, W, C], actions [B, T, A] and rewards [B, T] of the reacher."""
    task = TASKS["reacher-easy"](action_repeat=2, actions="box")
    task = seen_as_pixels(task, size=64, stack=stack)
    actions = np.random.default_rng(0).uniform(-1, 1, (EPISODES, STEPS, 2))
    states = task.reset(np.arange(EPISODES))
    seen, rewards = [task.pictures(states)], []
    for step in range(STEPS):
        rewards.append(task.reward(states, actions[:, step]))
        states = task.step(states, actions[:, step])
        seen.append(task.pictures(states))
    return np.stack(seen, 1), actions.astype(np.float32), np.stack(rewards, 1)


def spread_out(network):
    """Add noise to weights, of which some begin at zero: answers shall differ between frames."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))


def tdmpc2(path):
    """Train and save a TD-MPC2; return our answers and its own, by the part that gives them."""
    official, networks = importlib.import_module("tdmpc2"), importlib.import_module("common")
    world, math = (importlib.import_module(f"common.{name}") for name in ("world_model", "math"))
    cfg = OmegaConf.load(Path(official.__file__).with_name("config.yaml"))
    cfg.update(networks.MODEL_SIZE[5])
    cfg.update(obs="rgb", obs_shape={"rgb": [9, 64, 64]}, action_dim=2, multitask=False, task_dim=0)
    cfg.update(batch_size=EPISODES, bin_size=(cfg.vmax - cfg.vmin) / (cfg.num_bins - 1))
    agent = official.TDMPC2.__new__(official.TDMPC2)
    torch.nn.Module.__init__(agent)
    agent.cfg, agent.device, agent.discount = cfg, torch.device("cpu"), 0.99
    agent.model = network = world.WorldModel(cfg).eval()
    spread_out(network)
    agent.optim = torch.optim.Adam(network.parameters(), lr=cfg.lr)
    agent.update_pi = lambda *_: {}
    pictures, actions, rewards = walk(stack=3)
    # [T + 1, B, F C, H, W], as its own frames are stacked.
    frames = torch.tensor(pictures).permute(1, 0, 2, 5, 3, 4).flatten(2, 3)
    taken, earned = torch.tensor(actions).transpose(0, 1), torch.tensor(rewards).float().t()
    for update in range(UPDATES):
        ahead = slice(update, update + cfg.horizon)
        agent._update(
            frames[update : update + cfg.horizon + 1],
            taken[ahead],
            earned[ahead, :, None],
            torch.zeros(cfg.horizon, EPISODES, 1),
        )
    agent.save(path)

    model = TDMPC2.load(path, action_repeat=2, simnorm_dim=8, discount=0.99)
    plans = torch.tensor(actions)
    latents = model.encode(torch.tensor(pictures[:, 0]))
    imagined = model.rollout(latents, plans)
    before = torch.cat([latents[:, None], imagined[:, :-1]], dim=1)
    shifts, *layers = network._encoder["rgb"]
    assert type(shifts).__name__ == "ShiftAug"
    z = encoded = torch.nn.Sequential(*layers)(frames[0].float())
    reached, scalars = [], []
    for action in plans.unbind(1):
        scalars.append(math.two_hot_inv(network.reward(z, action, None), cfg)[:, 0])
        reached.append(z := network.next(z, action, None))
    mean = network.pi(z, None)[1]["mean"]
    values = math.two_hot_inv(network.Q(z, mean, None, return_type="all"), cfg)
    return {
        "encoder": (latents, encoded),
        "dynamics": (imagined, torch.stack(reached, 1)),
        "reward": (model.reward(before, plans), torch.stack(scalars, 1)),
        "policy": (model.policy(imagined[:, -1], torch.zeros(EPISODES, 2)), mean),
        "value": (model.terminal_value(imagined[:, -1]), values.mean(0)[:, 0]),
    }


def dreamer(path):
    """Train and save a DreamerV3 of `dmc_vision`; return our answers and its own."""
    import gymnasium

    # Before the port names a renderer.
    pictures, actions, rewards = walk(stack=1)
    sys.modules["gym"] = gymnasium
    for name, member in (
        ("ruamel", "yaml"),
        ("ruamel.yaml", "safe_load"),
        ("torch.utils.tensorboard", "SummaryWriter"),
    ):
        sys.modules[name] = ModuleType(name)
        setattr(sys.modules[name], member, sys.modules.get("ruamel.yaml"))
    official, tools = importlib.import_module("dreamer"), importlib.import_module("tools")
    presets = OmegaConf.load(Path(official.__file__).with_name("configs.yaml"))
    preset = OmegaConf.to_container(OmegaConf.merge(presets.defaults, presets.dmc_vision))
    config = SimpleNamespace(**{**preset, "device": "cpu", "num_actions": 2})
    none = np.zeros((EPISODES, 1))
    # Its rows are observations, after the actions that led to them.
    data = {
        "image": pictures[:, :, 0],
        "action": np.concatenate([0 * actions[:, :1], actions], 1),
        "reward": np.concatenate([none, rewards], 1)[..., None],
        "is_first": np.tile(np.arange(STEPS + 1) == 0, (EPISODES, 1)),
        "is_terminal": np.zeros((EPISODES, STEPS + 1)),
        "discount": np.ones((EPISODES, STEPS + 1)),
    }
    space = gymnasium.spaces.Dict({"image": gymnasium.spaces.Box(0, 255, (64, 64, 3), np.uint8)})
    bounds = gymnasium.spaces.Box(-1, 1, (2,))
    agent = official.Dreamer(
        space, bounds, config, SimpleNamespace(step=0), (data for _ in count())
    )
    agent.requires_grad_(requires_grad=False)
    spread_out(agent)
    for _ in range(UPDATES):
        agent._train(next(agent._dataset))
    optimisers = tools.recursively_collect_optim_state_dict(agent)
    torch.save({"agent_state_dict": agent.state_dict(), "optims_state_dict": optimisers}, path)

    model = DreamerV3.load(path, action_repeat=2, discount=0.997)
    plans = torch.tensor(actions)
    latents = model.encode(torch.tensor(pictures[:, 0]))
    imagined = model.rollout(latents, plans)
    world, dynamics = agent._wm, agent._wm.dynamics
    embedded = world.encoder(world.preprocess(data))

    def packed(state):
        return torch.cat([state["deter"], state["stoch"].argmax(-1)], dim=-1)

    first, later = (torch.full((EPISODES,), flag) for flag in (1.0, 0.0))
    state, _ = dynamics.obs_step(None, None, embedded[:, 0], first, sample=False)
    after, _ = dynamics.obs_step(state, plans[:, 0], embedded[:, 1], later, sample=False)
    begun, reached, scalars = packed(state), [], []
    acted = agent._task_behavior.actor(dynamics.get_feat(state)).mode()
    for action in plans.unbind(1):
        state = dynamics.img_step(state, action, sample=False)
        reached.append(packed(state))
        scalars.append(world.heads["reward"](dynamics.get_feat(state)).mode()[:, 0])
    return {
        "encoder": (latents, begun),
        "memory": (model.update(latents, plans[:, 0], torch.tensor(pictures[:, 1])), packed(after)),
        "dynamics": (imagined, torch.stack(reached, 1)),
        "reward": (model.reward(imagined, plans, imagined), torch.stack(scalars, 1)),
        "policy": (model.policy(latents, torch.zeros(EPISODES, 2)), acted),
    }


if __name__ == "__main__":
    name, source, checkpoint = sys.argv[1:]
    # In the place of this folder: its modules and ours may bear the same names.
    sys.path[0] = source
    torch.manual_seed(0)
    torch.set_num_threads(1)
    for part, (own, theirs) in {"tdmpc2": tdmpc2, "dreamer": dreamer}[name](checkpoint).items():
        off, spread = float((own - theirs).abs().max()), float(theirs.std(0).mean())
        sys.stdout.write(f"{part}: off by {off:.1e}, of answers that spread by {spread:.1e}\n")
        # Frames of eight episodes: answers that hardly differ between them would show little.
        assert off < 1e-5 < 1e-3 < spread
