import json
import sys
import typing
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar

import numpy as np
import pytest
from fakes import result_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_cpg.contracts import BoolArray, FloatArray, IntArray
from pytest_cpg.contracts.codec import BESIDE, UNWRITTEN, CodecError, decode, encode, loads
from pytest_cpg.gates.drift import Drift
from pytest_cpg.gates.kind import Finding
from pytest_cpg.gates.planning_gap.cause import Diagnosis
from pytest_cpg.gates.planning_gap.records import BaselineGate, Loss
from pytest_cpg.stats import Interval

WRITTEN = [Drift, Diagnosis, Interval, Finding]
# JSON has no others.
st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))


class Shade(IntEnum):
    LIGHT = 1
    DARK = 2


class Point(NamedTuple):
    x: float
    y: float


class Labels(TypedDict):
    title: str
    owner: str | None


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    points: tuple[Point, ...] = ()
    times: tuple[float, ...] = ()
    ends: tuple[int, str] = (0, "")
    shade: Shade = Shade.DARK
    mode: Literal["fast", "slow"] = "fast"
    limits: dict[str, float] = field(default_factory=dict)
    near: float | str | None = None
    kept: Any = field(default=None, metadata=UNWRITTEN)


@dataclass(frozen=True, kw_only=True)
class Whole:
    parts: list[Part]
    labels: Labels
    rates: FloatArray
    counts: IntArray
    solved: BoolArray | None = None

    def __post_init__(self):
        if not self.parts:
            raise ValueError("need at least one part, got none")


def plain(**more):
    part = {"name": "a", "points": [[1, 2.5]], "ends": [3, "c"], "shade": 1, "mode": "slow"}
    part |= {"times": [0.5, 2]}
    return {
        "parts": [part | {"limits": {"b c": 1.5}, "near": "x"}],
        "labels": {"title": "t", "owner": None},
        "rates": [0.5, 1.0],
        "counts": [[1, 2], [3, 4]],
        "solved": [1, 0],
        **more,
    }


def test_a_value_becomes_plain_and_is_read_back_as_it_was():
    read = decode(Whole, plain())
    assert read.parts[0].points == (Point(1, 2.5),)
    assert read.parts[0].shade is Shade.LIGHT
    assert read.parts[0].ends == (3, "c")
    assert (read.counts.dtype, read.counts.shape) == (np.int64, (2, 2))
    assert (read.solved.dtype, read.solved.tolist()) == (np.bool_, [True, False])
    assert encode(read) == plain()
    assert json.loads(json.dumps(encode(read), allow_nan=False)) == plain()


def test_a_field_may_bear_any_name():
    @dataclass(frozen=True)
    class Named:
        at: int
        make: str

    assert decode(Named, encode(Named(3, "x"))) == Named(3, "x")


def test_what_has_a_default_may_be_missing_and_is_written():
    read = decode(Whole, {**plain(solved=None), "parts": [{"name": "a"}]})
    assert read.parts == [Part(name="a")]
    assert encode(read.parts[0])["mode"] == "fast"


@dataclass(frozen=True, kw_only=True)
class Owner:
    part: Part = field(metadata=BESIDE)
    age: int


def test_parts_may_stand_beside_the_fields_of_their_owner():
    owner = Owner(part=Part(name="a", ends=(1, "z")), age=3)
    plain = encode(owner)
    assert plain == {**encode(owner.part), "age": 3}
    assert decode(Owner, plain) == owner
    assert decode(Owner, {"name": "a", "age": 3}).part == Part(name="a")
    wrong = [({"name": 1, "age": 3}, "owner.name is 1"), ({"age": 3}, "owner has no 'name'")]
    for values, said in wrong:
        with pytest.raises(CodecError, match=said):
            decode(Owner, values, at="owner")
    for unknown in ("nane", "part"):
        with pytest.raises(CodecError, match=f"owner has an unknown '{unknown}'"):
            decode(Owner, {"name": "a", "age": 3, unknown: 2}, at="owner")


def test_what_is_not_written_is_not_read():
    part = Part(name="a", kept=object())
    assert "kept" not in encode(part)
    with pytest.raises(CodecError, match="it has an unknown 'kept'"):
        decode(Part, {"name": "a", "kept": 1})


@pytest.mark.parametrize(
    ("place", "wrong", "said"),
    [
        ((), 3, "here is 3, and has to be an object"),
        (("more",), 3, "here has an unknown 'more'"),
        (("parts",), {}, "here.parts is {}, and has to be a list"),
        (("parts",), [], "here: need at least one part, got none"),
        (("parts", 0), {}, "here.parts[0] has no 'name'"),
        (("parts", 0, "name"), 3, "here.parts[0].name is 3, and has to be text"),
        (
            ("parts", 0, "points"),
            [[1]],
            "here.parts[0].points[0] is [1], and has to be a list of 2",
        ),
        (("parts", 0, "points", 0, 1), True, "points[0][1] is True, and has to be a number"),
        (("parts", 0, "points", 0, 1), 1e999, "points[0][1] is inf, and has to be a finite number"),
        (("parts", 0, "points", 0, 1), 10**400, "points[0][1] is 1000"),
        (("parts", 0, "times"), [1, True], "times[1] is True, and has to be a number"),
        (("parts", 0, "times"), [1, 1e999], "times[1] is inf, and has to be a finite number"),
        (("parts", 0, "times"), [1, 10**400], "times[1] is 1000"),
        (("parts", 0, "ends"), [3], "here.parts[0].ends is [3], and has to be a list of 2"),
        (
            ("parts", 0, "ends", 0),
            3.0,
            "here.parts[0].ends[0] is 3.0, and has to be a whole number",
        ),
        (("parts", 0, "shade"), 3, "here.parts[0].shade is 3, and has to be one of 1, 2"),
        (("parts", 0, "shade"), True, "here.parts[0].shade is True, and has to be one of 1, 2"),
        (("parts", 0, "mode"), "", "mode is '', and has to be one of 'fast', 'slow'"),
        (("parts", 0, "limits"), {"b c": ""}, "limits['b c'] is '', and has to be a number"),
        (("parts", 0, "near"), [], "here.parts[0].near is [], and has to be text"),
        (("labels",), {"title": ""}, "here.labels has no 'owner'"),
        (("labels", "owner"), 3, "here.labels.owner is 3, and has to be text"),
        (("rates",), 0.5, "here.rates is 0.5, and has to be a list"),
        (("rates", 1), "a", "here.rates is [0.5, 'a'], and has to be a list of finite numbers"),
        (("rates", 1), 1e999, "here.rates is [0.5, inf], and has to be a list of finite numbers"),
        (("counts", 1), [3], "here.counts is no array: "),
        (("counts", 1, 0), 3.0, "here.counts is [[1, 2], [3.0, 4]], and has to be a list of whole"),
        (("counts", 1, 0), 2**64, "here.counts is no array: "),
        (("solved", 1), 2, "here.solved is [1, 2], and has to be a list of 0 or 1"),
    ],
)
def test_every_wrong_value_names_its_place(place, wrong, said):
    value = plain()
    if place:
        found = value
        for key in place[:-1]:
            found = found[key]
        found[place[-1]] = wrong
    else:
        value = wrong
    with pytest.raises(CodecError) as caught:
        decode(Whole, value, at="here")
    assert said in str(caught.value)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no such aliases")
def test_an_alias_stands_for_what_it_was_declared_as():
    scalar = TypeVar("scalar")
    array = np.ndarray[tuple[Any, ...], np.dtype[scalar]]
    rows = typing.TypeAliasType("rows", array, type_params=(scalar,))
    flag = typing.TypeAliasType("flag", bool)
    assert decode(rows[np.floating], [1, 2.5]).tolist() == [1.0, 2.5]
    assert decode(tuple[flag, ...], [True]) == (True,)
    with pytest.raises(CodecError, match="has to be"):
        decode(rows[np.floating], ["text"])


def test_what_json_cannot_hold_is_refused_and_not_guessed():
    for value in (object(), {1: "a"}, 3j, len):
        with pytest.raises(TypeError, match="JSON has no form for"):
            encode(value)
    with pytest.raises(TypeError, match="JSON has no form for"):
        decode(set[int], [1])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "line 1, column 2: Expecting property name"),
        ("[\nNaN]", "NaN is no number"),
        ("[" * 100_000, "maximum recursion"),
    ],
)
def test_a_text_that_is_no_json_says_where(text, said):
    with pytest.raises(ValueError, match=said):
        loads(text)


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.__name__)
@settings(max_examples=50, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_anything_that_is_written_is_read_back(kind, data):
    value = data.draw(st.builds(kind))
    text = json.dumps(encode(value), allow_nan=False)
    assert decode(kind, loads(text)) == value
    assert json.dumps(encode(decode(kind, loads(text)))) == text


outcomes = st.lists(st.booleans(), min_size=3, max_size=12)


@settings(max_examples=30)
@given(oracle=outcomes, metric=st.sampled_from(["success", "return"]), data=st.data())
def test_a_result_and_all_that_is_kept_of_it_are_read_back_to_the_byte(oracle, metric, data):
    learned = data.draw(st.lists(st.booleans(), min_size=len(oracle), max_size=len(oracle)))
    result = result_of(oracle, learned, metric=metric, seed=data.draw(st.integers(0, 2**31)))
    lost = Loss.of(result)
    for value in (result, *result.arms, lost):
        text = json.dumps(encode(value), allow_nan=False)
        assert json.dumps(encode(decode(type(value), loads(text)))) == text
    gate = BaselineGate.of(result)
    assert BaselineGate.read(loads(json.dumps(encode(gate))), commit="") == gate
