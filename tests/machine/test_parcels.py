import os
import pickle
import subprocess
import sys

import pytest

from pytest_cpg.contracts import ComponentError, CpgError
from pytest_cpg.machine import workers


@pytest.mark.parametrize("has_cloudpickle", [True, False])
def test_what_is_sent_arrives(has_cloudpickle, monkeypatch):
    if has_cloudpickle:
        pytest.importorskip("cloudpickle")
        factor = 3
        assert workers.load(workers.dump(lambda x: factor * x, "it"))(2) == 6
    else:
        monkeypatch.setitem(sys.modules, "cloudpickle", None)
        with pytest.raises(ComponentError, match=r"it cannot be sent .* or install cloudpickle"):
            workers.dump(lambda: 0, "it")
    assert workers.load(workers.dump([1, 2.5, "c"], "it")) == [1, 2.5, "c"]


def test_modules_are_found_where_the_sender_found_them(tmp_path, monkeypatch):
    (tmp_path / "sent_module.py").write_text("class Model:\n    size = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    model = __import__("sent_module").Model()
    data = workers.dump(model, "it")
    code = (
        "import pickle, sys; from pytest_cpg.machine import workers; "
        "print(workers.load(pickle.load(sys.stdin.buffer)).size)"
    )
    sent = pickle.dumps(data)
    received = subprocess.run([sys.executable, "-c", code], input=sent, stdout=-1, check=True)
    assert received.stdout.strip() == b"3"


def test_a_module_that_is_not_found_is_named(tmp_path, monkeypatch):
    path = tmp_path / "lost_module.py"
    path.write_text("class Model:\n    size = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = workers.dump(__import__("lost_module").Model(), "it")
    monkeypatch.delitem(sys.modules, "lost_module")
    path.unlink()
    with pytest.raises(ComponentError, match=r"cannot load what it was sent \(No module named"):
        workers.load(data)


class Broken:
    def run(self, block):
        try:
            return 1 / 0
        except ZeroDivisionError as error:
            raise CpgError("No plan.") from error


def test_an_error_is_sent_with_the_lines_of_its_cause(monkeypatch):
    monkeypatch.setitem(workers._LOADED, "key", Broken())
    with pytest.raises(CpgError) as caught:
        workers.run_block(("key",), (), workers.Sender(1, os.getpid(), []), "block")
    here = caught.value.lines
    assert "return 1 / 0" in here
    sent = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # written here
    assert sent.__cause__ is None
    assert sent.whole == f"No plan.\n\n{here}"
