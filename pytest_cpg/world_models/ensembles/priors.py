"""Priors: networks that are drawn once and never trained, one for each member.

Added to what is trained, they keep members apart where there are no data to bring them together
(Osband et al. 2018, "Randomized Prior Functions for Deep Reinforcement Learning", algorithm 1).
"""

from __future__ import annotations

from pytest_cpg.world_models.binding.tensors import torch
from pytest_cpg.world_models.ensembles.networks import Architecture, Layers, drawn_layers


def drawn_prior(architecture: Architecture, generator: torch.Generator) -> Layers | None:
    """Return the layers of a prior, which has means alone; None where its scale is 0."""
    if not architecture.prior_scale:
        return None
    *below, given = architecture.sizes
    means = given // 2 if architecture.output == "gaussian" else given
    return drawn_layers((*below, means), architecture.members, generator)
