import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest
from fakes import first, result_of
from filelock import FileLock
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_cpg import Verdict
from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes.design import DesignRecord
from pytest_cpg.gates import GATES
from pytest_cpg.gates.kept import KeptResult
from pytest_cpg.gates.planning_gap.records import BaselineGate
from pytest_cpg.machine.files import FileError
from pytest_cpg.report import baseline as baseline_file
from pytest_cpg.report.baseline import Baseline, missing, text_of, updated, without

GATE = BaselineGate.of(result_of(first(9, 10), first(8, 10)))
load = partial(baseline_file.load, kinds=GATES)
update = partial(baseline_file.update, kinds=GATES)


def kept(name, gate=GATE, commit="3f2c1e9"):
    return KeptResult(id=name, kind="cpg", commit=commit, values=encode(gate))


def named(*names):
    return [kept(name) for name in names]


def gate_of(learned, *, commit="3f2c1e9"):
    solved = [True] * len(learned)
    return kept("g", BaselineGate.of(result_of(solved, learned)), commit)


def saved(path, *names, **options):
    return update(path, lambda baseline: updated(baseline, named(*names)), **options)


@pytest.fixture
def path(tmp_path):
    return tmp_path / ".cpg" / "baseline.json"


finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def gates(draw):
    metric = draw(st.sampled_from(["success", "return"]))
    learned = draw(st.text("01", min_size=1, max_size=20))
    design = DesignRecord(
        task=draw(st.text()),
        planner=draw(st.text()),
        starts="sampled",
        metric=metric,
        budget=draw(st.integers(1, 10**6)),
        horizon=draw(st.integers(1, 100)),
        control_period=draw(finite),
        versions=draw(st.dictionaries(st.text(), st.text(), max_size=3)),
    )
    gate = BaselineGate(
        design=design,
        seed=draw(st.integers(0)),
        oracle=learned + draw(st.text("01", max_size=20)),
        learned=learned,
        oracle_mean_return=draw(finite),
        learned_mean_return=draw(finite),
        learned_returns=(
            tuple(draw(st.lists(finite, min_size=len(learned), max_size=len(learned))))
            if metric == "return"
            else ()
        ),
        level=draw(st.floats(0.01, 0.999)),
        verdict=draw(st.sampled_from(Verdict)),
        model=draw(st.text()),
    )
    return kept(draw(st.text()), gate, commit=draw(st.text()))


@settings(max_examples=50)
@given(
    accepted=st.lists(gates(), max_size=4),
    family_size=st.none() | st.integers(1, 10**6),
)
def test_what_was_written_is_read(accepted, family_size, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "round-trip.json"
    path.unlink(missing_ok=True)
    baseline = updated(Baseline(declared_family_size=family_size), accepted)
    assert update(path, lambda _: baseline) == baseline
    assert load(path) == baseline


def test_without_a_file_there_is_no_baseline(path):
    assert load(path) is None


def test_the_file_is_json_with_one_line_for_each_gate_sorted_by_id(path):
    saved(path, "c", "a", "b")
    text = path.read_text()
    rows = json.loads(text)
    assert rows[0] == {"schema": 1}
    assert [next(iter(row)) for row in rows[1:]] == ["a", "b", "c"]
    lines = text.splitlines()
    assert lines[0] == '[{"schema": 1}'
    assert [line[:5] for line in lines[1:4]] == [',{"a"', ',{"b"', ',{"c"']
    assert lines[4:] == ["]"]
    assert text.endswith("]\n")
    keys = list(rows[1]["a"])
    assert keys == sorted(keys)


@pytest.mark.parametrize("name", ["a", "c", "z"])
def test_a_gate_that_comes_or_goes_is_one_line(path, name):
    saved(path, "b", "d")
    before = path.read_text().splitlines()
    saved(path, name)
    after = path.read_text().splitlines()
    assert len(after) == len(before) + 1
    assert [line for line in after if line in before] == before
    update(path, lambda baseline: without(baseline, {name}))
    assert path.read_text().splitlines() == before


def test_updating_one_gate_leaves_the_lines_of_all_others(path):
    saved(path, "a", "b", "c")
    before = path.read_text().splitlines()
    changed = kept("b", replace(GATE, learned="0" * 10))
    update(path, lambda baseline: updated(baseline, [changed]))
    after = path.read_text().splitlines()
    same = [old == new for old, new in zip(before, after, strict=True)]
    assert same == [True, True, False, True, True]


def test_a_file_that_was_laid_out_by_hand_is_read(path):
    saved(path, "a", "b")
    baseline = load(path)
    path.write_text(json.dumps(json.loads(path.read_text()), indent=4))
    assert load(path) == baseline


def test_the_declared_size_of_the_family_stays(path):
    update(path, lambda _: Baseline(declared_family_size=12))
    assert path.read_text() == '[{"family_size": 12, "schema": 1}\n]\n'
    assert saved(path, "a").family_size == 12


def test_what_a_killed_process_left_behind_does_no_harm(path):
    path.parent.mkdir()
    path.with_name("baseline.json.lock").write_text("half a li")
    saved(path, "a")
    assert [entry.name for entry in path.parent.iterdir()] == ["baseline.json"]
    assert list(load(path).gates) == ["a"]


def good_text():
    return text_of(updated(Baseline(), named("a", "b")))


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "line 1, column 1: Expecting value"),
        (good_text()[:-20], "line 3, column"),
        (good_text().replace("\n]", ""), "line 4, column 1: Expecting ',' delimiter"),
        (good_text().replace('"seed": 4', '"seed": NaN', 1), "NaN is no number"),
        (good_text().replace('"seed": 4', '"seed": "4"', 1), "gate 'a': seed is '4', and has"),
        (good_text().replace('"b"', '"a"'), "gate 'a' stands there twice"),
        (good_text().replace('{"b"', '{"c": 3, "b"'), "gate 2 is not of the form {id: {...}}"),
        ('[{"schema": 1}, {"a": []}]', "gate 1 is not of the form {id: {...}}"),
        ('[{"schema": 1}, 7]', "gate 1 is not of the form {id: {...}}"),
        ("[]", "it has no schema"),
        ("7", "it has no schema"),
        ('[{"schema": true}]', "it has no schema"),
        ('[{"schema": 0}]', "it has no schema"),
        ('{"schema": 1}', "its first object may hold a schema and a family_size only"),
        ('[{"schema": 1, "owner": "me"}]', "its first object may hold a schema and a fam"),
        ('[{"schema": 1, "family_size": 0}]', "family_size is 0, and has to be a whole number"),
        pytest.param("[" * 100_000, "it is no JSON (maximum recursion depth", id="deep"),
        (f'[{{"schema": 1, "family_size": 1{"0" * 400}}}]', "family_size is 1000"),
        (f'[{{"schema": 1}}\n,{{"g": {{"return": 1{"0" * 400}}}}}]', "'g': it has no 'commit'"),
    ],
)  # fmt: skip
def test_a_corrupted_file_is_named_and_left_as_it_is(path, text, wrong):
    path.parent.mkdir()
    path.write_text(text)
    for use in (load, lambda path: saved(path, "c")):
        with pytest.raises(FileError) as caught:
            use(path)
        message = str(caught.value)
        assert message.startswith(f"cannot use the baseline {path}: ")
        assert "It was left as it is. Move it away and accept results anew (pytest --" in message
        assert message.endswith(f"or restore it with git: git checkout -- {path}")
        assert wrong in message
        assert path.read_text() == text


@pytest.mark.parametrize("is_pipe", [True, False])
def test_a_pipe_and_bytes_that_are_no_text_are_refused_and_left(path, is_pipe):
    path.parent.mkdir()
    damaged = b'[{"schema": 1}\xff]'
    os.mkfifo(path) if is_pipe else path.write_bytes(damaged)
    for use in (load, lambda path: saved(path, "c")):
        with pytest.raises(FileError, match="is no regular file" if is_pipe else "byte 14 is no"):
            use(path)
    assert path.is_fifo() if is_pipe else path.read_bytes() == damaged


@pytest.mark.parametrize(
    "text", ['[{"schema": 2, "more": 1}\n,{"a": {"new": 1}}\n]\n', '{"schema": 2, "gates": {}}']
)
def test_a_newer_schema_asks_for_an_upgrade_and_stays_untouched(path, text):
    path.parent.mkdir()
    path.write_text(text)
    for use in (load, lambda path: saved(path, "c")):
        with pytest.raises(FileError) as caught:
            use(path)
        assert str(caught.value) == (
            f"cannot use the baseline {path}: it has schema 2, and this pytest-cpg reads up to 1. "
            f"It was left as it is. Upgrade: pip install -U pytest-cpg"
        )
        assert path.read_text() == text


def test_a_merge_conflict_is_named_with_its_line(path):
    path.parent.mkdir()
    path.write_text('[{"schema": 1}\n<<<<<<< HEAD\n=======\n>>>>>>> other\n]\n')
    with pytest.raises(FileError, match=r"line 2 is the mark of a merge conflict.* Keep one"):
        load(path)


def test_a_number_that_json_does_not_know_is_not_written(path):
    saved(path, "a")
    before = path.read_bytes()
    endless = replace(kept("b"), values={"mean": float("nan")})
    with pytest.raises(ValueError, match="not JSON compliant"):
        update(path, lambda baseline: updated(baseline, [endless]))
    assert path.read_bytes() == before


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    saved(path, "a")
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match=r"cannot write .*: No space left on device"):
        saved(path, "b")
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["baseline.json"]


def test_a_lock_that_is_never_given_back_ends_in_an_error(path):
    saved(path, "a")
    with (
        FileLock(path.with_name("baseline.json.lock")),
        pytest.raises(FileError, match="another process has been updating the baseline"),
    ):
        saved(path, "b", patience=0.1)
    saved(path, "c")
    assert list(load(path).gates) == ["a", "c"]


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from pytest_cpg.gates import GATES
from pytest_cpg.report.baseline import load, update, updated

path, name = Path(sys.argv[1]), sys.argv[2]
(gate,) = load(path, GATES).gates.values()
print("ready", flush=True)
sys.stdin.readline()
for number in range(25):
    mine = replace(gate, id=f"{name}{number}")
    update(path, lambda baseline: updated(baseline, [mine]), GATES)
"""


def test_processes_that_write_at_once_lose_nothing(path):
    saved(path, "seed")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "abc"
    ]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate()
        assert writer.returncode == 0
    assert len(load(path).gates) == 76
    assert [entry.name for entry in path.parent.iterdir()] == ["baseline.json"]


def test_updating_replaces_and_adds_gates_and_keeps_all_others():
    one, two = gate_of(first(40, 50)), replace(gate_of(first(30, 50)), id="h")
    baseline = updated(Baseline(declared_family_size=7), [one, two])
    better = gate_of(first(41, 50))
    again = updated(baseline, [better])
    assert again.gates == {"g": better, "h": two}
    assert again.declared_family_size == 7
    assert baseline.gates == {"g": one, "h": two}


def test_a_result_keeps_the_commit_at_which_it_was_first_accepted_with_one():
    baseline = updated(Baseline(), [gate_of(first(40, 50))])
    again = gate_of(first(40, 50), commit="0000000")
    assert updated(baseline, [again]) == baseline
    changed = gate_of(first(41, 50), commit="0000000")
    assert updated(baseline, [changed]).gates == {"g": changed}
    unknown = updated(Baseline(), [gate_of(first(40, 50), commit="")])
    assert updated(unknown, [again]).gates == {"g": again}


def test_the_family_is_what_was_declared_or_accepted_and_never_smaller():
    gates = {name: replace(gate_of(first(4, 5)), id=name) for name in "abc"}
    assert Baseline().family_size == 0
    assert Baseline(gates=gates).family_size == 3
    assert Baseline(gates=gates, declared_family_size=10).family_size == 10
    assert Baseline(gates=gates, declared_family_size=2).family_size == 3


@pytest.mark.parametrize(
    ("accepted", "collected", "measured", "gone"),
    [
        (["g"], {"renamed"}, {"renamed"}, ("g",)),
        # Collected and not run.
        (["a", "a #2", "b"], {"a"}, (), ("b",)),
        (["a", "a #2", "b"], {"b"}, (), ("a", "a #2")),
        # A comparison that its gate no longer makes.
        (["a", "a #2", "a #3"], {"a"}, {"a", "a #2"}, ("a #3",)),
        # An id that ends like a second comparison.
        (["walker", "walker #2"], {"walker", "walker #2"}, {"walker"}, ()),
    ],
)
def test_what_was_accepted_and_is_not_there_any_more_is_missing(
    accepted, collected, measured, gone
):
    gates = updated(Baseline(), named(*accepted))
    assert missing(gates, collected, measured=measured) == gone
