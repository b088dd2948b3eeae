"""The hash of a learned model's weights."""

import functools

import pytest

from pytest_cpg.world_models import weights_digest

torch = pytest.importorskip("torch")


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))


def test_the_same_weights_have_one_digest_however_they_are_held():
    module = network()

    def closure(observations, actions):
        return module(torch.cat([observations, actions], -1))

    digest = weights_digest(module)
    assert len(digest) == 64
    assert weights_digest(network()) == digest
    assert weights_digest(closure) == digest
    assert weights_digest(functools.partial(closure, actions=None)) == digest


def test_any_change_of_a_weight_a_buffer_or_a_type_is_another_digest():
    digests = {weights_digest(network()), weights_digest(network(1))}
    nudged = network()
    with torch.no_grad():
        nudged[0].weight[0, 0] = torch.nextafter(nudged[0].weight[0, 0], torch.tensor(9.0))
    buffer = network()
    buffer[1].running_mean += 1
    digests |= {weights_digest(one) for one in (nudged, buffer, network().double())}
    digests |= {weights_digest(network().to(torch.bfloat16))}
    assert len(digests) == 6


def test_what_holds_no_network_has_no_digest():
    assert weights_digest(lambda observations, actions: observations) == ""
    assert weights_digest(torch.nn.Identity()) == ""
