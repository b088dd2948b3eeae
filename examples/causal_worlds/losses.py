"""What the models are trained on, each a loss of latents, pictures or both."""

import torch
from torch.nn import functional

# A cell of the board weighs as much as the pixels that the published pictures have of it.
PIXELS = 100
# Of C-SWM: energies of true successors against those of other rows, at least this far apart.
MARGIN, SIGMA = 1.0, 0.5


def energy(model, latents, others):
    """Return the energy [B] between latents [B, N, Z]: the mean over objects; a whole is one."""
    away = (latents - others).square().sum(dim=(1, 2)) * 0.5 / SIGMA**2
    return away if model.is_whole else away / model.objects


def contrastive(model, before, actions, after):
    """Draw predictions to true successors, and push states of other rows apart."""
    now, reached = model.spread(torch.cat([before, after]))[0].chunk(2)
    other = now[torch.randperm(len(now))]
    apart = functional.relu(MARGIN - energy(model, now, other))
    return (energy(model, model.next(now, actions), reached) + apart).mean()


def pictured(model, latents, seen):
    """Return the loss of the picture of latents [B, N, Z] against what is seen [B, I]."""
    logits = model.picture(latents.flatten(1))
    pixels = functional.binary_cross_entropy_with_logits(logits, seen, reduction="none")
    return PIXELS * pixels.sum(dim=1).mean()


def drawn(model, seen):
    """Return latents [B, N, Z] of what is seen, and the loss of their prior: a VAE alone has one.

    In training a VAE's latents are drawn, otherwise they are their means.
    """
    mean, log_variance = model.spread(seen)
    if log_variance is None:
        return mean, 0.0
    prior = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance)
    noise = torch.randn_like(mean) if model.training else 0.0
    return mean + (0.5 * log_variance).exp() * noise, prior.sum(dim=(1, 2)).mean()


def reconstruction(model, before, actions, after):
    """The first stage of NLL: what is seen."""
    now, prior = drawn(model, before)
    return pictured(model, now, before) + prior


def transition(model, before, actions, after):
    """The second: latents of the next step, of an encoder that stays as it is."""
    with torch.no_grad():
        now, reached = model.spread(torch.cat([before, after]))[0].chunk(2)
    return (model.next(now, actions) - reached).square().sum(dim=(1, 2)).mean()


def finetuning(model, before, actions, after):
    """The third: both together, and the picture of what is predicted."""
    (now, prior), (reached, later) = drawn(model, before), drawn(model, after)
    predicted = model.next(now, actions)
    away = (predicted - reached).square().sum(dim=(1, 2)).mean()
    pictures = pictured(model, now, before) + pictured(model, predicted, after)
    return pictures + prior + later + away


def rewards(model, latents, reward):
    """The reward of a step by a frozen encoder, which sees latents [B, 2 N Z] alone."""
    return (model.head(latents)[..., 0] - reward).abs().mean()


# What a row of the published tables is trained by, in stages.
STAGES = {
    "contrastive": {"contrastive": (contrastive,)},
    "nll": {"nll": (reconstruction, transition), "nll-finetuned": (finetuning,)},
}
