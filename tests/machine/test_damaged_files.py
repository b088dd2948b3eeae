"""Damaged files, whatever their bytes: refused in words, and never by somebody else's traceback."""

import contextlib
import io
import json
import os
import zipfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from comparisons import POLICIES, cart_queries
from fakes import PROVENANCE
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_cpg.contracts import CpgError
from pytest_cpg.gates.kind import Finding
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.machine.files import FileError, archive_members
from pytest_cpg.render.command import main
from pytest_cpg.render.line import command_lines
from pytest_cpg.report.document import document
from pytest_cpg.report.session import Session

# A version of zip that there is not, where the directory of an archive has it.
_VERSION = 6


def archive(members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return packed.getvalue()


def of_another_version(content):
    at = content.index(b"PK\x01\x02") + _VERSION
    return content[:at] + bytes([92]) + content[at + 1 :]


def named_in_no_text(content):
    return content.replace("é".encode(), b"\xc3\x28")


def of_several_disks(content):
    end = content.rindex(b"PK\x05\x06")
    locator = b"PK\x06\x07" + bytes(12) + (2).to_bytes(4, "little")
    return content[:end] + locator + content[end:]


@pytest.mark.parametrize("damage", [of_another_version, named_in_no_text, of_several_disks])
def test_an_archive_that_python_cannot_read_has_no_members(tmp_path, damage):
    content = archive({"é": b"1", "b": b"2"})
    assert [member.filename for member in archive_members(io.BytesIO(content))] == ["é", "b"]
    (tmp_path / "model.pt").write_bytes(damage(content))
    assert archive_members(tmp_path / "model.pt") == []


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch")
@pytest.mark.parametrize("damage", [of_another_version, named_in_no_text, of_several_disks])
@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
def test_a_checkpoint_in_such_an_archive_is_refused(tmp_path, damage, suffix):
    from pytest_cpg.world_models.checkpoints.readers import load

    (tmp_path / f"model{suffix}").write_bytes(damage(archive({"é": b"1", "a/code/b": b"2"})))
    with pytest.raises(CpgError, match="model"):
        load(tmp_path / f"model{suffix}")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return what reads each kind of file, and the bytes of a good one."""
    folder = tmp_path_factory.mktemp("damaged")
    cart_queries(20).save(folder / "queries.npz")
    kinds = {"npz": lambda file: PolicyQueries.load(file, policies=POLICIES)}
    if find_spec("torch") is not None:
        import torch

        from pytest_cpg.world_models.weights import read_weights

        torch.save(torch.nn.Linear(2, 1).state_dict(), folder / "weights.pt")
        kinds["pt"] = read_weights
    if find_spec("onnxruntime") and find_spec("onnx"):
        from onnx import TensorProto, helper

        from pytest_cpg.world_models.checkpoints.onnx import OnnxDynamics

        infos = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 1])
            for name in ("observations", "actions", "next")
        ]
        node = helper.make_node("Add", ["observations", "actions"], ["next"])
        graph = helper.make_graph([node], "dynamics", infos[:2], infos[2:])
        opset = [helper.make_opsetid("", 13)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=8)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        kinds["onnx"] = OnnxDynamics.load
    good = {kind: next(folder.glob(f"*.{kind}")).read_bytes() for kind in kinds}
    return folder, kinds, good


KINDS = [
    "npz",
    *["pt"] * (find_spec("torch") is not None),
    *["onnx"] * bool(find_spec("onnxruntime") and find_spec("onnx")),
]
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(edits=EDITS, cut=st.floats(0, 1), is_cut=st.booleans())
def test_whatever_the_bytes_of_a_file_are_it_is_read_or_refused(
    saved, capsys, kind, edits, cut, is_cut
):
    folder, kinds, good = saved
    content = bytearray(good[kind])
    for place, value in edits:
        # Half of them in the directory at the end of an archive.
        at = place if place < 0.5 else 1 - (1 - place) * min(1, 1200 / len(content))
        content[int(at * (len(content) - 1))] = value
    file = folder / f"damaged.{kind}"
    file.write_bytes(content[: int(cut * len(content))] if is_cut else content)
    with contextlib.suppress(CpgError):
        kinds[kind](file)
    assert "EP Error" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", KINDS)
def test_a_good_file_is_read(saved, kind):
    folder, kinds, good = saved
    (folder / f"good.{kind}").write_bytes(good[kind])
    kinds[kind](folder / f"good.{kind}")


@pytest.mark.skipif("onnx" not in KINDS, reason="needs onnx")
@pytest.mark.parametrize("name", [b"observations", b"rows"])
def test_a_name_of_an_onnx_model_that_is_no_text_is_refused(saved, name):
    folder, kinds, good = saved
    (folder / "name.onnx").write_bytes(good["onnx"].replace(name, name[:-1] + b"\xff"))
    with pytest.raises(CpgError, match="no model that ONNX Runtime can read"):
        kinds["onnx"](folder / "name.onnx")


def changed_queries(folder, **arrays):
    cart_queries(20).save(folder / "q.npz")
    with np.load(folder / "q.npz") as stored:
        np.savez(folder / "q.npz", **{**stored, **arrays})
    return folder / "q.npz"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"policies": np.array(10**12)}, "says that it has 1000000000000 policies, and has"),
        ({"policies": np.array(np.inf)}, "cannot convert float infinity"),
        ({"policy0_answers": np.zeros((1, 3, 3))}, "policy0_answers has shape"),
        ({"policy0_answers": np.array(["x"] * 4)}, "could not convert string"),
    ],
)
def test_queries_with_one_wrong_array_are_refused(tmp_path, arrays, message):
    with pytest.raises(FileError, match=message):
        PolicyQueries.load(changed_queries(tmp_path, **arrays), policies=POLICIES)


def test_queries_with_a_header_that_does_not_end_are_refused(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,"
    array = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    (tmp_path / "q.npz").write_bytes(archive({"format.npy": array}))
    with pytest.raises(FileError, match="its array 'format' cannot be read"):
        PolicyQueries.load(tmp_path / "q.npz")


@pytest.mark.parametrize(
    ("place", "why"),
    [(os.devnull.replace("null", "zero"), "no regular file"), (__file__, "no .npz of plain")],
)
def test_queries_are_a_regular_file_and_nobody_is_told_to_load_it_unsafely(place, why):
    if not Path(place).exists():
        pytest.skip("no such device here")
    with pytest.raises(FileError, match=why) as refused:
        PolicyQueries.load(place)
    assert "trust" not in str(refused.value)
    assert "unsafe" not in str(refused.value)


def test_a_device_is_no_report(capsys):
    if not Path("/dev/zero").exists():
        pytest.skip("no such device here")
    assert main(["show", "/dev/zero"]) == 2
    assert "is a device" in capsys.readouterr().err


@pytest.mark.parametrize("field", ["warns", "answers"])
@pytest.mark.parametrize("command", ["show", "compare", "accept", "html"])
def test_a_report_with_one_wrong_field_of_a_finding_is_refused(
    tmp_path, monkeypatch, capsys, field, command
):
    monkeypatch.chdir(tmp_path)
    found = document(Session(gates=(), findings=(Finding("told"),), provenance=PROVENANCE))
    found["findings"][0][field] = 1
    (tmp_path / "r.json").write_text(json.dumps(found), encoding="utf-8")
    assert main([command, *["r.json"] * (1 + (command == "compare"))]) == 2
    assert f"findings[0].{field} is 1" in capsys.readouterr().err


def test_a_command_that_no_shell_can_read_is_shown_as_it_is():
    assert command_lines("pytest it's", lead="  ", width=20) == ["  pytest it's"]
