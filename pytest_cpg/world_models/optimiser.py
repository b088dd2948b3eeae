"""Optimiser: steps of Adam by torch's own update, and the learning rates of one cycle.

Weights are those that `torch.optim.Adam` gives, to the last bit. Its first step imports torch's
compiler, which takes more than a second, and every step some 60 microseconds beside the update.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from torch.optim.adam import adam

from pytest_cpg.world_models.binding.tensors import Tensor, torch

# Kingma and Ba (2015), algorithm 1, and of the second moment.
_MOMENTUM, _SECOND, _EPSILON = 0.9, 0.999, 1e-8
# Smith and Topin (2019), as torch's OneCycleLR has them by default: the share of steps on which the
# rate rises, what it begins with and ends with below its peak, and the momentum at peak and ends.
_RISE, _BEGIN, _END = 0.3, 25.0, 1e4
_LEAST_MOMENTUM, _MOST_MOMENTUM = 0.85, 0.95


class Adam:
    """Adam over some parameters, which are changed in place."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self._parameters = list(parameters)
        self._means = [torch.zeros_like(parameter) for parameter in parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in parameters]
        self._steps = [torch.zeros(()) for _ in parameters]

    def step(self, loss: Tensor, *, rate: float, momentum: float = _MOMENTUM) -> None:
        """Change the parameters by one step down the gradients of a loss."""
        gradients = torch.autograd.grad(loss, self._parameters)
        with torch.no_grad():
            adam(
                self._parameters,
                list(gradients),
                self._means,
                self._squares,
                [],
                self._steps,
                fused=True,
                amsgrad=False,
                beta1=momentum,
                beta2=_SECOND,
                lr=rate,
                weight_decay=0.0,
                eps=_EPSILON,
                maximize=False,
            )


def one_cycle(most: float, steps: int) -> Iterator[tuple[float, float]]:
    """Yield rate and momentum of each of so many steps, up to the highest rate and down again."""
    begin = most / _BEGIN
    rise, last = float(_RISE * steps) - 1, steps - 1
    for step in range(steps):
        if step <= rise:
            share = step / rise
            rates, momenta = (begin, most), (_MOST_MOMENTUM, _LEAST_MOMENTUM)
        else:
            share = (step - rise) / (last - rise)
            rates, momenta = (most, begin / _END), (_LEAST_MOMENTUM, _MOST_MOMENTUM)
        yield _annealed(*rates, share), _annealed(*momenta, share)


def _annealed(begin: float, end: float, share: float) -> float:
    """Return a number on its way along half a cosine."""
    return end + (begin - end) / 2.0 * (math.cos(math.pi * share) + 1)
