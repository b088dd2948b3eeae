import json
import os
import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pytest_cpg.machine.processors import SHARERS, own_share, processor_name


@pytest.mark.parametrize(
    ("environment", "share"),
    [
        ({}, 8),
        ({"PYTEST_XDIST_WORKER_COUNT": "4"}, 2),
        ({SHARERS: "3", "PYTEST_XDIST_WORKER_COUNT": "4"}, 2),
        ({"PYTEST_XDIST_WORKER_COUNT": "3"}, 2),
        ({SHARERS: "100"}, 1),
    ],
)
def test_processes_that_share_the_work_share_the_processors(environment, share, monkeypatch):
    for name in (SHARERS, "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8), raising=False)
    assert own_share() == share


@pytest.mark.parametrize(
    ("described", "name"),
    [
        ("processor\t: 0\nmodel name\t: Turbo 5 @ 3 GHz\n\nmodel name\t: Other", "Turbo 5 @ 3 GHz"),
        ("processor\t: 0\nBogoMIPS\t: 50.00", "what the system says"),
        (None, "what the system says"),
    ],
)
def test_the_processor_is_named_as_the_system_names_it(monkeypatch, described, name):
    def read_text(path, **options):
        if described is None:
            raise FileNotFoundError(path)
        return described

    monkeypatch.setattr(Path, "read_text", read_text)
    monkeypatch.setattr(platform, "processor", lambda: "what the system says")
    assert processor_name.__wrapped__() == name


def kernels(imports, **environment):
    program = f"import json, {imports}; from pytest_cpg.machine.processors import kernels"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}; print(json.dumps(kernels()))"],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def test_no_library_is_imported_to_learn_its_kernels():
    assert kernels("sys") == {}


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="needs its kernels")
def test_numpy_says_what_it_and_its_openblas_chose():
    found = kernels("numpy", OPENBLAS_CORETYPE="Nehalem")
    assert list(found) == ["numpy", "OpenBLAS"]
    assert found["OpenBLAS"] == "Nehalem"


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
def test_torch_says_what_it_chose():
    assert kernels("torch", ATEN_CPU_CAPABILITY="default")["torch"] == "DEFAULT"
