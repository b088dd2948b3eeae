"""Processors: how many this process may keep busy, which they are, and how they compute."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import sys
from functools import cache
from pathlib import Path

# In the environment of a worker process: how many share the processors of its machine.
SHARERS = "PYTEST_CPG_SHARERS"
# What OpenBLAS calls the function that names its kernels: in numpy's wheels, and elsewhere.
_CORE_NAMES = (
    "scipy_openblas_get_corename64_",
    "openblas_get_corename64_",
    "openblas_get_corename",
)


def processors() -> int:
    """Return those this process may use; a container may have fewer than the machine."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def own_share() -> int:
    """Return how many threads this process may keep busy, next to others that share the work."""
    others = os.environ.get(SHARERS) or os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    return max(1, processors() // int(others))


@cache
def processor_name() -> str:
    """Return the processor's name, or what kind it is where that is all the system says."""
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        described = ""
    name = re.search(r"^model name\s*:\s*(.+)$", described, re.MULTILINE)
    return name[1].strip() if name else platform.processor() or platform.machine()


def kernels() -> dict[str, str]:
    """Return the kernels that each loaded library has chosen for this processor, by library.

    Others round otherwise. ``OPENBLAS_CORETYPE`` and ``ATEN_CPU_CAPABILITY`` choose them, too.
    Nothing is imported: a library that is not loaded has no part in what was computed.
    """
    chosen_by = {}
    if (numpy := sys.modules.get("numpy")) is not None:
        simd = (numpy.show_config(mode="dicts") or {}).get("SIMD Extensions", {})
        chosen_by["numpy"] = " ".join((simd.get("found") or simd.get("baseline") or [])[-1:])
        chosen_by["OpenBLAS"] = _openblas_core()
    if (torch_on_cpu := sys.modules.get("torch.backends.cpu")) is not None:
        chosen_by["torch"] = str(torch_on_cpu.get_cpu_capability())
    return {library: chosen for library, chosen in chosen_by.items() if chosen}


@cache
def _openblas_core() -> str:
    """Return the name of the kernels in numpy's OpenBLAS; empty where it has another library."""
    # The second is where it is before numpy 2.
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None:
            continue
        # Symbols of the libraries that an extension was linked with are found through it.
        library = ctypes.CDLL(file)
        for symbol in _CORE_NAMES:
            function = getattr(library, symbol, None)
            if function is not None:
                function.restype = ctypes.c_char_p
                return str(function().decode())
    return ""
