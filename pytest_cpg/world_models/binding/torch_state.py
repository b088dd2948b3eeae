"""Torch state: what torch is kept in while a gate runs, without importing torch."""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain
from types import FunctionType, MethodType, ModuleType
from typing import Any

# How far from the model a network is looked for, and the longest container that is looked into:
# far enough for a closure over a wrapper that holds an ensemble in a list.
_DEPTH = 4
_LONGEST = 64


@contextmanager
def inference(*models: object) -> Iterator[None]:
    """Keep torch in inference mode, on one thread, and the models' networks in eval mode.

    On a processor layers of Mish, which take torch half the time of a TD-MPC2, are computed four
    times as fast, to rounding. Everything is put back on leaving, also each submodule's own
    training flag. Networks are found in the models themselves, in their attributes, closures and
    partial arguments. Without torch, nothing happens.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    networks = _networks(*models)
    modes = [(part, part.training) for network in networks for part in network.modules()]
    try:
        for network in networks:
            network.eval()
        with one_torch_thread(), _FAST_MISH.on(), torch.inference_mode():
            yield
    finally:
        for part, training in modes:
            part.training = training


def weights_digest(model: object) -> str:
    """Return the SHA-256 of all weights and buffers that a model holds, in hexadecimal digits.

    By name, type, shape and bits, on whatever device they are; empty where there is no network.
    """
    networks, torch = _networks(model), sys.modules.get("torch")
    inner = {id(part) for network in networks for part in network.modules() if part is not network}
    digest, is_empty = hashlib.sha256(), True
    for network in networks:
        if id(network) in inner:
            continue
        for name, value in network.state_dict().items():
            if torch is None or not isinstance(value, torch.Tensor):
                continue
            is_empty = False
            digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
            flat = value.detach().cpu().to_dense().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes())
    return "" if is_empty else digest.hexdigest()


def devices(model: object) -> str:
    """Return where the weights and buffers of a model are; empty where it has none.

    As torch names the device, with the name of the graphics processor behind it: ``"cpu"`` or
    ``"cuda:0 (NVIDIA H200)"``.
    """
    names = {
        f"{device} ({sys.modules['torch'].cuda.get_device_name(device)})"
        if device.type == "cuda"
        else str(device)
        for device in {value.device for value in _weights(model)}
    }
    return ", ".join(sorted(names))


def is_elsewhere(model: object) -> bool:
    """Say whether a model has weights or buffers on another device than the processor."""
    return any(value.device.type != "cpu" for value in _weights(model))


def holds_network(model: object) -> bool:
    """Say whether a model is, or holds, a network of torch."""
    return bool(_networks(model))


def _networks(*models: object) -> list[Any]:
    """Return the networks that can be reached from models, each once."""
    torch = sys.modules.get("torch")
    return [] if torch is None else _reached(models, torch.nn.Module)


def _weights(model: object) -> Iterator[Any]:
    """Yield the weights and buffers of a model."""
    for network in _networks(model):
        for value in network.state_dict().values():
            if isinstance(value, sys.modules["torch"].Tensor):
                yield value


def place_of(model: object) -> dict[str, Any]:
    """Return dtype and device of the tensors that a network, or what else is tried, is given."""
    torch = sys.modules["torch"]
    if isinstance(model, torch.nn.Module):
        for value in chain(model.parameters(), model.buffers()):
            if value.is_floating_point():
                return {"dtype": value.dtype, "device": value.device}
    return {"dtype": torch.float32, "device": "cpu"}


def is_compiled(model: object) -> bool:
    """Say whether torch compiles any part of a model anew for rows of another number."""
    return any(
        hasattr(part, "_orig_mod") or getattr(part, "_compiled_call_impl", None) is not None
        for network in _networks(model)
        for part in network.modules()
    ) or any(
        "_torchdynamo_orig_callable" in vars(value) for value in _reached([model], FunctionType)
    )


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Run torch on one thread.

    Networks this small gain little from a second one (1.7x at best), and on cores that somebody
    else uses too, waiting for it made them five times slower.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


class _FastMish:
    """Lets layers of Mish compute it as `mish.mish` does; the function of torch stays."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._own: Any = None

    @contextmanager
    def on(self) -> Iterator[None]:
        """Replace the layers' forward while the context lasts, or another thread's does."""
        from pytest_cpg.world_models.binding.mish import layer_mish

        layers = sys.modules["torch"].nn.Mish
        with self._lock:
            if not self._users:
                self._own, layers.forward = layers.forward, layer_mish
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if not self._users:
                    layers.forward = self._own


_FAST_MISH = _FastMish()


def same_mode() -> Callable[[], AbstractContextManager[None]]:
    """Return what brings torch in another thread into the modes that it is in here."""
    torch = sys.modules.get("torch")
    if torch is None:
        return nullcontext
    is_inference, has_gradients = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    is_mixed, dtype = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")

    @contextmanager
    def mode() -> Iterator[None]:
        with (
            torch.inference_mode(is_inference),
            torch.set_grad_enabled(has_gradients),
            torch.autocast("cpu", dtype=dtype, enabled=is_mixed),
        ):
            yield

    return mode


def _reached(models: Iterable[object], kind: type) -> list[Any]:
    """Return what is of a kind, such as networks, and can be reached from models, each once."""
    reached: list[Any] = []
    seen: set[int] = set()
    level = list(models)
    for _ in range(_DEPTH):
        fresh = {id(value): value for value in level if id(value) not in seen}
        seen.update(fresh)
        reached += [value for value in fresh.values() if isinstance(value, kind)]
        level = [part for value in fresh.values() for part in _parts(value)]
    return reached


def _parts(value: object) -> list[object]:
    """Return what a value holds: a model is often a closure or an object around its network."""
    if isinstance(value, type | ModuleType):
        return []
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, FunctionType):
        parts = [value.__globals__.get(name) for name in value.__code__.co_names]
        for cell in value.__closure__ or ():
            # A cell may still be empty.
            with suppress(ValueError):
                parts.append(cell.cell_contents)
        return parts
    if isinstance(value, dict):
        return list(value.values())[:_LONGEST]
    if isinstance(value, list | tuple):
        return list(value[:_LONGEST])
    slots = (getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))
    return [*slots, *getattr(value, "__dict__", {}).values()]
