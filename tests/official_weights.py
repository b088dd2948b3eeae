"""Random weights in the layouts of others' checkpoints, for the tests and the benchmarks."""

from functools import cache
from itertools import pairwise

import torch

TDMPC2_SIZES = {1: (256, 128, 384, 2), 5: (256, 512, 512, 5)}
DREAMER_OBSERVED = {"orientations": 4, "velocity": 2}
_NAMES = ("weight", "bias", "ln.weight", "ln.bias")


def tdmpc2(
    model_size=1, observation=6, action=1, bins=101, seed=0, actions=(), embedding=96, channels=0
):
    """Make random weights in the official layout of TD-MPC2 at present.

    Of several tasks where ``actions`` says how many each has; ``action`` is the most of them. With
    ``channels`` it reads three frames of 64 x 64 by so many.
    """
    encoder, latent, hidden, members = TDMPC2_SIZES[model_size]
    latent = 16 * channels or latent
    generator = torch.Generator().manual_seed(seed)

    def layers(prefix, widths, *, plain_end=True, lead=()):
        made = {}
        for i, (before, after) in enumerate(pairwise(widths)):
            scale = before**-0.5
            made[f"{prefix}.{i}.weight"] = scale * torch.randn(
                *lead, after, before, generator=generator
            )
            made[f"{prefix}.{i}.bias"] = 0.1 * torch.randn(*lead, after, generator=generator)
            if not (plain_end and i == len(widths) - 2):
                noise = torch.randn(2, *lead, after, generator=generator)
                made[f"{prefix}.{i}.ln.weight"] = 1 + 0.1 * noise[0]
                made[f"{prefix}.{i}.ln.bias"] = 0.1 * noise[1]
        return made

    many, own = {}, 0
    if actions:
        # Rows longer than 1 are cut as they are read, shorter ones are not.
        rows = torch.randn(len(actions), embedding, generator=generator) / embedding**0.5
        masks = (torch.arange(action) < torch.tensor(actions)[:, None]).float()
        scale = torch.linspace(0.5, 3, len(actions))[:, None]
        many, own = {"_task_emb.weight": scale * rows, "_action_masks": masks}, embedding
    joint = latent + own + action
    reads = {}
    places = ((2, 7, 9), (4, 5, channels), (6, 3, channels), (8, 3, channels))
    for place, side, before in places if channels else ():
        weight = torch.randn(channels, before, side, side, generator=generator)
        reads[f"_encoder.rgb.{place}.weight"] = weight * 3 / (before * side**2) ** 0.5
        reads[f"_encoder.rgb.{place}.bias"] = 0.1 * torch.randn(channels, generator=generator)
    if not reads:
        reads = layers("_encoder.state", (observation + own, encoder, latent), plain_end=False)
    state = {
        **many,
        "log_std_min": torch.tensor(-10),
        "log_std_dif": torch.tensor(12),
        **reads,
        **layers("_dynamics", (joint, hidden, hidden, latent), plain_end=False),
        **layers("_reward", (joint, hidden, hidden, bins)),
        **layers("_pi", (latent + own, hidden, hidden, 2 * action)),
        **layers("_Qs.params", (joint, hidden, hidden, bins), lead=(members,)),
    }
    ensemble = {name: value for name, value in state.items() if name.startswith("_Qs.")}
    for copy in ("_detach_Qs_params.", "_target_Qs_params."):
        state |= {name.replace("_Qs.params.", copy): v.clone() for name, v in ensemble.items()}
    return state


def tdmpc2_before(state):
    """Rename the ensemble as it was before October 2024."""
    old = {}
    for name, value in state.items():
        if name.startswith(("log_std", "_detach_Qs_params.")):
            continue
        for now, then in (
            ("_Qs.params.", "_Qs.params."),
            ("_target_Qs_params.", "_target_Qs.params."),
        ):
            if name.startswith(now):
                layer, _, tensor = name.removeprefix(now).partition(".")
                name = f"{then}{4 * int(layer) + _NAMES.index(tensor)}"
        old[name] = value
    return old


def tdmpc2_december(state):
    """Rename the ensemble and its copies as they were in December 2024."""
    named = {
        name.replace("_Qs_params.", "_Qs.params."): value.clone() for name, value in state.items()
    }
    own = {name: value for name, value in state.items() if name.startswith("_Qs.params.")}
    member = {name.replace("_Qs.params.", "_Qs.module."): v[0].clone() for name, v in own.items()}
    return {**named, **member}


@cache
def dreamer(*, gaussian=False, observed=(), action=1, parts=1, depth=0):
    """Make random weights as DreamerV3's port has them for dmc_proprio: world model, and agent.

    They read six numbers that are ``observed``, by name and size, and actions of so many. Layers
    may be an ``n``-th of what they are wide there: ``parts=n``. With a ``depth`` they read pictures
    of 64 x 64, as for dmc_vision, by so many channels at first.

    With Gaussian latents (``dyn_discrete: 0``) the agent has the actor of continuous actions, too.
    """
    read, statistics = (32, 64) if gaussian else (1024, 1024)
    wide, recurrent = 1024 // parts, 512 // parts
    generator = torch.Generator().manual_seed(0)
    made = {}

    def linear(name, after, before, *, bias=False):
        made[f"{name}.weight"] = 3 * before**-0.5 * torch.randn(after, before, generator=generator)
        if bias:
            made[f"{name}.bias"] = 0.1 * torch.randn(after, generator=generator)

    def norm(name, width):
        made[f"{name}.weight"] = 1 + 0.1 * torch.randn(width, generator=generator)
        made[f"{name}.bias"] = 0.1 * torch.randn(width, generator=generator)

    def stack(prefix, name, count, width, first):
        for layer in range(count):
            linear(f"{prefix}.{name}_linear{layer}", width, width if layer else first)
            norm(f"{prefix}.{name}_norm{layer}", width)

    channels = 3
    for stage in range(4 if depth else 0):
        after = depth << stage
        weight = torch.randn(after, channels, 4, 4, generator=generator)
        made[f"encoder._cnn.layers.{3 * stage}.weight"] = weight / channels**0.5
        norm(f"encoder._cnn.layers.{3 * stage + 1}.norm", after)
        channels = after
    if not depth:
        stack("encoder._mlp.layers", "Encoder", 5, wide, 6)
    made["dynamics.W"] = torch.randn(1, recurrent, generator=generator)
    for name, before in (
        ("img_in", read + action),
        ("img_out", recurrent),
        ("obs_out", recurrent + (16 * channels if depth else wide)),
    ):
        linear(f"dynamics._{name}_layers.0", recurrent, before)
        norm(f"dynamics._{name}_layers.1", recurrent)
    linear("dynamics._cell.layers.GRU_linear", 3 * recurrent, 2 * recurrent)
    norm("dynamics._cell.layers.GRU_norm", 3 * recurrent)
    for name in ("imgs", "obs"):
        linear(f"dynamics._{name}_stat_layer", statistics, recurrent, bias=True)
    if depth:
        linear("heads.decoder._cnn._linear_layer", 16, read + recurrent, bias=True)
    else:
        stack("heads.decoder._mlp.layers", "Decoder", 5, wide, read + recurrent)
        for name, width in observed or DREAMER_OBSERVED.items():
            linear(f"heads.decoder._mlp.mean_layer.{name}", width, wide, bias=True)
    stack("heads.reward.layers", "Reward", 2, recurrent, read + recurrent)
    linear("heads.reward.mean_layer", 255, recurrent, bias=True)
    linear("heads.cont.mean_layer", 1, recurrent, bias=True)
    world = dict(made)
    made.clear()
    if gaussian:
        stack("layers", "Actor", 2, recurrent, read + recurrent)
        linear("mean_layer", action, recurrent, bias=True)
        linear("std_layer", action, recurrent, bias=True)
    else:
        made["layers.Actor_linear0.weight"] = torch.zeros(recurrent, read + recurrent)
    actor = {f"_task_behavior.actor.{name}": value for name, value in made.items()}
    made = world
    agent = {f"_wm.{name}": value for name, value in made.items()}
    copies = {f"_task_behavior._world_model.{name}": value for name, value in made.items()}
    return made, {"agent_state_dict": {**agent, **copies, **actor}, "optims_state_dict": {}}
