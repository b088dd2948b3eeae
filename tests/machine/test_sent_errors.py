import os
import pickle

import pytest

from pytest_cpg.contracts import CpgError
from pytest_cpg.machine import workers
from pytest_cpg.machine.workers import Sender, run_block


class Broken:
    def run(self, block):
        try:
            return 1 / 0
        except ZeroDivisionError as error:
            raise CpgError("No plan.") from error


def test_an_error_is_sent_with_the_lines_of_its_cause(monkeypatch):
    monkeypatch.setitem(workers._LOADED, "key", Broken())
    with pytest.raises(CpgError) as caught:
        run_block(("key",), (), Sender(1, os.getpid(), []), "block")
    here = caught.value.lines
    assert "return 1 / 0" in here
    sent = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # written here
    assert sent.__cause__ is None
    assert sent.whole == f"No plan.\n\n{here}"
