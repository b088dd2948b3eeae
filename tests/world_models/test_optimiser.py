"""Steps and rates of training against torch's own optimiser and schedule, to the last bit."""

import pytest

torch = pytest.importorskip("torch")

from pytest_cpg.world_models.optimiser import Adam, one_cycle


def parameters():
    generator = torch.Generator().manual_seed(0)
    shapes = ((5, 3), (5,), (2, 5))
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def loss_of(weight, bias, last):
    return (last @ (weight @ torch.ones(3) + bias).tanh()).square().sum()


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 10, 33])
def test_a_cycle_is_the_one_of_torch(steps):
    ours, theirs = parameters(), parameters()
    optimiser, reference = Adam(ours), torch.optim.Adam(theirs, lr=1e-2, fused=True)
    pace = torch.optim.lr_scheduler.OneCycleLR(reference, max_lr=1e-2, total_steps=steps)
    for rate, momentum in one_cycle(1e-2, steps):
        (group,) = reference.param_groups
        assert (rate, momentum) == (group["lr"], group["betas"][0])
        optimiser.step(loss_of(*ours), rate=rate, momentum=momentum)
        reference.zero_grad()
        loss_of(*theirs).backward()
        reference.step()
        pace.step()
    assert all(map(torch.equal, ours, theirs))


def test_steps_of_one_rate_are_those_of_torch():
    ours, theirs = parameters(), parameters()
    optimiser, reference = Adam(ours), torch.optim.Adam(theirs, lr=1e-2, fused=True)
    for _ in range(20):
        optimiser.step(loss_of(*ours), rate=1e-2)
        reference.zero_grad()
        loss_of(*theirs).backward()
        reference.step()
    assert all(map(torch.equal, ours, theirs))
