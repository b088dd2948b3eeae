"""The hash of a learned model's weights, and where they are."""

import functools

import pytest

from pytest_cpg.world_models import devices, weights_digest

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


def test_the_devices_of_all_weights_are_named():
    both = one, _ = network(), network().to("meta")
    assert devices(one) == "cpu"
    assert devices(lambda observations, actions: one(observations)) == "cpu"
    assert devices(lambda observations, actions: both) == "cpu, meta"
    assert devices(lambda observations, actions: observations) == ""


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no graphics processor")
def test_a_graphics_processor_is_named():
    assert devices(network().cuda()) == f"cuda:0 ({torch.cuda.get_device_name(0)})"


def test_sparse_weights_have_a_digest_of_their_places_and_values():
    def digest(weight):
        model = torch.nn.Module()
        model.register_buffer("graph", weight)
        return weights_digest(model)

    graph = torch.eye(3)
    assert digest(graph.to_sparse()) == digest(graph.clone().to_sparse())
    others = (graph.to_sparse(), 2 * graph.to_sparse(), graph.flip(0).to_sparse())
    assert len(set(map(digest, others))) == len(others)
