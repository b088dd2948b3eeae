"""What tells a model from any other by its content and code."""

import functools
import importlib
import subprocess
import sys
import threading
from collections.abc import Sized
from enum import Enum
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest

from pytest_cpg.machine.fingerprint import fingerprint, source_of

FACTOR = 2.0


class Level(Enum):
    HIGH = 1


def steps(observations, actions):
    return observations + FACTOR * actions


def looped(count):
    return looped(count - 1) if count else FACTOR


class Model:
    def __init__(self, size, weights=()):
        self.size, self.weights = size, np.array(weights)

    def __call__(self, observations, actions):
        return observations


def test_equal_content_has_an_equal_fingerprint():
    assert fingerprint(Model(3, [1.0])) == fingerprint(Model(3, [1.0]))
    assert fingerprint(steps) == fingerprint(steps)
    assert fingerprint(lambda o, a: o + a) == fingerprint(lambda o, a: o + a)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Model(3), Model(4)),
        (Model(3, [1.0]), Model(3, [1.0 + 1e-16 * 4])),
        (Model(3, [1.0]), Model(3, np.array([1.0], dtype=np.float32))),
        (Model(3).__call__, Model(4).__call__),
        (functools.partial(steps, 1), functools.partial(steps, 2)),
        (lambda o, a: o + a, lambda o, a: o - a),
        (lambda o, a: o + 1, lambda o, a: o + 2),
        (lambda o, a=1: o, lambda o, a=2: o),
    ],
)
def test_other_content_has_another_fingerprint(one, other):
    assert fingerprint(one) != fingerprint(other)


def test_what_a_closure_and_a_function_read_is_in_it(monkeypatch):
    def closed_over(factor):
        return lambda observations, actions: observations * factor

    assert fingerprint(closed_over(2)) != fingerprint(closed_over(3))
    before = fingerprint(steps)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert fingerprint(steps) != before


def test_a_function_that_calls_itself_has_one():
    assert fingerprint(looped) == fingerprint(looped)


@pytest.mark.parametrize("model", [threading.Lock(), Model(threading.Lock()), (i for i in "ab")])
def test_what_cannot_be_read_is_said(model):
    with pytest.raises(ValueError, match=r"its content cannot be read: .*"):
        fingerprint(model)


CODE = """
import sys

sys.path.insert(0, {folder!r})
from mine import Net
from pytest_cpg.machine.fingerprint import fingerprint, source_of

print(fingerprint(Net(2)))
"""
NET = """
class Net:
    def __init__(self, size):
        self.size = size
        self.names = {{"a": 1, "b": 2}}

    def __call__(self, observations, actions):
        return observations {sign} actions
"""


def elsewhere(folder):
    code = CODE.format(folder=str(folder))
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout


def test_another_process_finds_the_same_and_other_code_another(tmp_path):
    (tmp_path / "mine.py").write_text(NET.format(sign="+"), encoding="utf-8")
    first = elsewhere(tmp_path)
    assert elsewhere(tmp_path) == first
    (tmp_path / "mine.py").write_text(NET.format(sign="-"), encoding="utf-8")
    assert elsewhere(tmp_path) != first


def test_what_a_function_reads_of_a_module_of_the_users_is_in_it(monkeypatch):
    net = ModuleType("net")
    net.package = ModuleType("net.package")
    monkeypatch.setattr(sys.modules[__name__], "net", net, raising=False)
    net.package.WEIGHTS, net.NOT_READ = np.zeros(3), 0
    before = fingerprint(lambda o, a: o + net.package.WEIGHTS)
    net.NOT_READ = 1
    assert fingerprint(lambda o, a: o + net.package.WEIGHTS) == before
    net.package.WEIGHTS[1] = 5e-324
    assert fingerprint(lambda o, a: o + net.package.WEIGHTS) != before


def test_whatever_a_class_holds_is_in_it():
    class Held(Sized):
        __slots__ = ("own",)

        def __len__(self):
            return 1

        part, level = Model(1, [1.0]), Level.HIGH

    before = fingerprint(Held())
    assert fingerprint(Held()) == before
    Held.part = Model(1, [2.0])
    assert fingerprint(Held()) != before


TORCH = """
import torch
from pytest_cpg.machine.fingerprint import fingerprint, source_of

for seed, change in {networks}:
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    net[0].weight.data[0, 0] += change
    print(fingerprint(net), fingerprint(lambda o, a: net(o)))
"""


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_every_weight_is_in_it():
    # By its seed and the change of one weight; in a new process, as torch is imported once.
    code = TORCH.format(networks=[(0, 0.0), (0, 0.0), (1, 0.0), (0, 1e-6)])
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    first, same, *others = [line.split() for line in result.stdout.splitlines()]
    assert same == first
    for other in others:
        assert all(a != b for a, b in zip(first, other, strict=True))


HELPED = """
from base import Base


class Net(Base):
    scale = 2
    names = {{"a", "b", "c"}}

    def __call__(self, observations, actions):
        import helper

        return helper.step(observations, actions) if "x" in {{"x", "y"}} else None


def changed():
    net = Net()
    {change}
    return net
"""


CHANGES = [
    {"base": "class Base:\n    bias = 1\n"},
    {"helper": "def step(o, a): return o - a\n"},
    {"change": "Net.scale = 3"},
    {"change": "Net.__call__ = lambda self, o, a: o"},
    {"change": "globals().update(Base=None); net.more = 1"},
]


def test_all_code_and_class_state_of_a_model_is_in_it(tmp_path):
    def of(values):
        text = HELPED.format(change=values.get("change", "pass"))
        (tmp_path / "mine.py").write_text(text, encoding="utf-8")
        for name, code in (("base", "class Base: ..."), ("helper", "def step(o, a): return o + a")):
            (tmp_path / f"{name}.py").write_text(values.get(name, code), encoding="utf-8")
        code = (
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import base, helper, mine; "
            "from pytest_cpg.machine.fingerprint import fingerprint; "
            "print(fingerprint(mine.changed()))"
        )
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        return result.stdout

    found = [of(values) for values in ({}, *CHANGES)]
    assert of({}) == found[0]
    assert len(set(found)) == len(found)


def test_a_module_of_the_same_name_in_another_file_has_code_of_its_own(tmp_path, monkeypatch):
    found = []
    for name, factor in (("first", 1), ("second", 2)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "same.py").write_text(f"def steps(o, a): return o + {factor} * a\n")
        monkeypatch.syspath_prepend(tmp_path / name)
        monkeypatch.delitem(sys.modules, "same", raising=False)
        found.append(source_of(importlib.import_module("same").steps))
    monkeypatch.delitem(sys.modules, "same")
    assert found[0] != found[1]
