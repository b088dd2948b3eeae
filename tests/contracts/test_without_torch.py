"""The package and its tests do without torch, as on interpreters that have no small build of it."""

import subprocess
import sys

COLLECT = """
import sys
from importlib.machinery import PathFinder

import pytest


class WithoutTorch(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            return None
        return super().find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutTorch
sys.exit(pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "tests"]))
"""


def test_all_tests_are_collected_without_torch(request):
    collected = subprocess.run(
        [sys.executable, "-c", COLLECT],
        cwd=request.config.rootpath,
        capture_output=True,
        text=True,
        check=False,
    )
    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr[-2000:]
