import json
import os
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fakes import first, result_of

from pytest_cpg.contracts.codec import encode
from pytest_cpg.gates import GATES
from pytest_cpg.machine.files import FileError
from pytest_cpg.report import lost_episodes
from pytest_cpg.report.lost_episodes import LostEpisodes, file_name, parse_target

IDS = [
    "test_gates.py::test_maze",
    "test_gates.py::Test_Maze",
    "tests/a b/test_gates.py::test_maze[../../etc/passwd]",
    "C:\\models\\test_gates.py::test_maze[x:y|z?*]",
    "test_été.py::test_迷路[🤖]",
    "test_gates.py::test_maze[\ud83e]",
    "con",
    "..",
    "",
    "x" * 5000,
]


read = partial(lost_episodes.read, kinds=GATES)


def lost_by(result, *, gate, nodeid):
    found = GATES["cpg"].lost(result)
    return LostEpisodes(
        gate=gate, nodeid=nodeid, episodes=found.episodes, values=encode(found.then)
    )


@pytest.fixture
def lost():
    result = result_of([1, 1, 1, 0, 0, 1], [1, 0, 0, 1, 0, 1], starts="fixed", metric="return")
    return lost_by(result, gate="gates/test_wm.py::test_gate[a]", nodeid="test_wm.py::t")


@pytest.fixture
def file(lost, tmp_path):
    return lost_episodes.write(lost, tmp_path / ".cpg" / "lost")


def test_the_lost_episodes_are_those_that_only_the_oracle_solved(lost):
    then = lost_episodes.loss_for(GATES["cpg"], lost)
    assert (lost.episodes, then.oracle_steps) == ((1, 2), (100, 100))
    assert (then.design.task, then.design.budget, then.seed) == ("track", 500, 4)
    assert (then.design.starts, then.design.metric) == ("fixed", "return")
    assert then.design.planner.startswith("RandomShooting(candidates=50")


def test_the_usual_ones_show_most_and_not_those_that_the_oracle_solves_at_once():
    result = result_of([1] * 5, [0] * 5)
    oracle = replace(result.oracle, steps=np.array([3, 90, 40, 35, 400]))
    found = GATES["cpg"].lost(replace(result, oracle=oracle))
    assert found.telling == (2, 3, 0, 1, 4)
    assert GATES["cpg"].lost(result_of([1, 0], [1, 0])).telling == ()


def test_a_file_is_read_as_it_was_written(lost, file):
    assert read(file) == lost
    assert file.name == file_name(lost.gate)
    assert lost_episodes.write(lost, file.parent) == file
    assert os.listdir(file.parent) == [file.name]


def test_a_file_of_before_it_held_the_whole_design_is_read(lost, file):
    values = json.loads(file.read_text("utf-8"))
    for name in ("perturbation", "horizon", "control_period"):
        del values[name]
    file.write_text(json.dumps(values), encoding="utf-8")
    found, then = (lost_episodes.loss_for(GATES["cpg"], one) for one in (read(file), lost))
    assert found == replace(then, design=replace(then.design, horizon=0, control_period=0.0))


def test_another_kind_is_named_in_its_file(lost, tmp_path):
    other = replace(lost, kind="one_step_error", values={"noise": 2})
    path = lost_episodes.write(other, tmp_path)
    values = json.loads(path.read_text("utf-8"))
    assert (values["kind"], values["noise"]) == ("one_step_error", 2)
    assert "kind" not in encode(lost)
    assert read(path) == other


def test_a_file_has_one_attribute_a_line_and_its_keys_sorted(file):
    lines = file.read_text("utf-8").splitlines()
    values = json.loads(file.read_text("utf-8"))
    assert (values["schema"], list(values)) == (1, sorted(values))
    assert len(lines) == len(values) + 2
    assert '  "episodes": [1, 2],' in lines


@pytest.mark.parametrize("gate", IDS, ids=lambda gate: gate[:30].encode("unicode_escape").decode())
def test_a_gate_of_any_id_has_a_file_that_every_file_system_takes(lost, gate, tmp_path):
    assert re.fullmatch(r"[0-9a-f]{8}\.json", file_name(gate))
    assert len(file_name(gate)) <= 80
    named = replace(lost, gate=gate)
    assert read(lost_episodes.write(named, tmp_path)) == named


def test_no_two_gates_share_a_file():
    assert len({file_name(gate).lower() for gate in IDS}) == len(IDS)


def test_a_missing_file_says_who_writes_one(tmp_path):
    with pytest.raises(FileError, match=r"there is no file .*lost.json. .* run it again"):
        read(tmp_path / "lost.json")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{", "it is no JSON"),
        ("[]", "it has no schema"),
        ('{"schema": 1}', "it has no 'gate'"),
        ('{"schema": 9}', "schema 9, and this pytest-cpg reads up to 1. Upgrade: pip install -U"),
    ],
)
def test_a_file_that_is_none_says_what_is_wrong_and_what_to_do(text, wrong, tmp_path):
    path = tmp_path / "lost.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(FileError, match=re.escape(wrong)) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert ("Run the gate again" in str(caught.value)) == ("Upgrade" not in wrong)


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [
        ({"gate": 1}, "gate is 1, and has to be text"),
        ({"budget": 0}, "need a budget of at least 1 step, got 0"),
        ({"budget": True}, "budget is True, and has to be a whole number"),
        ({"seed": -1}, "need a seed of at least 0, got -1"),
        ({"starts": ["fixed"]}, "starts is ['fixed'], and has to be one of 'sampled', 'fixed'"),
        ({"metric": "reward"}, "metric is 'reward', and has to be one of"),
        ({"episodes": "7"}, "episodes is '7', and has to be a list"),
        ({"episodes": [2, 1]}, "need rising episodes from 0 on, got (2, 1)"),
        ({"episodes": [1, 1.5]}, "episodes[1] is 1.5, and has to be a whole number"),
        ({"episodes": [1, 10**18]}, "it names episode 1000000000000000000, and a replay goes to"),
        ({"episodes": [1, 2**64]}, "it names episode 18446744073709551616, and a replay goes to"),
        ({"oracle_steps": [9, -1]}, "need oracle_steps of at least 0, got (9, -1)"),
        ({"oracle_steps": [9]}, "need as many oracle_steps as episodes, got 1 and 2"),
        ({"versions": {"numpy": 2}}, "versions.numpy is 2, and has to be text"),
        ({"extra": 1}, "it has an unknown 'extra'"),
    ],
)
def test_a_file_with_a_wrong_value_names_it(changed, wrong, file):
    file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **changed}))
    with pytest.raises(FileError, match=re.escape(wrong)):
        read(file)


def test_a_file_without_lost_episodes_has_nothing_to_replay(tmp_path):
    none = lost_by(result_of(first(3, 3), first(3, 3)), gate="g", nodeid="n")
    with pytest.raises(FileError, match="there is nothing to replay"):
        read(lost_episodes.write(none, tmp_path))


@pytest.mark.parametrize(
    ("target", "path", "episodes"),
    [
        ("lost.json", "lost.json", None),
        ("lost.json::7", "lost.json", (7,)),
        ("lost.json::9,7,9", "lost.json", (7, 9)),
        ("C:\\cpg\\lost.json", "C:\\cpg\\lost.json", None),
        ("C:\\cpg\\lost.json::0", "C:\\cpg\\lost.json", (0,)),
        ("a::b/lost.json", "a::b/lost.json", None),
        ("a::3/lost.json::12", "a::3/lost.json", (12,)),
        ("lost.json::1::2", "lost.json::1", (2,)),
        ("lost.json::", "lost.json::", None),
        ("::7", "::7", None),
        ("lost.json::٣", "lost.json::٣", None),
    ],
)
def test_only_whole_numbers_at_the_end_of_a_target_are_episodes(target, path, episodes):
    found, chosen = parse_target(target)
    assert (str(found), chosen) == (path, episodes)


@pytest.mark.parametrize("wrong", ["x", "-1", "1.5", "1,", "", "9" * 5000])
def test_an_episode_that_is_no_number_says_how_to_write_one(wrong, file):
    with pytest.raises(FileError, match=r"names no episodes\. .*::7,9, or --cpg-replay="):
        parse_target(f"{file}::{wrong}")


def test_a_file_that_is_named_like_a_target_is_found(file):
    odd = file.rename(file.with_name("lost.json::x"))
    assert parse_target(str(odd)) == (odd, None)


def test_episodes_are_chosen_among_the_lost(lost):
    assert lost.chosen(None) == (1, 2)
    assert lost.chosen((2,)) == (2,)
    with pytest.raises(FileError, match=r"episode 3 is not among .* Choose of 1, 2, or"):
        lost.chosen((2, 3))
