"""Every reader of a gate of a user's own kind, from its card alone."""

import json
from dataclasses import replace

import pytest
from golden import recorded
from other_kind import other_card

from pytest_cpg import evaluate
from pytest_cpg.gates.arguments import REQUIRED, Argument, name
from pytest_cpg.gates.card import Card, Figure, Note, Row, Ruling, Severity, Table
from pytest_cpg.gates.kind import ForecastLine, MaxVerdict
from pytest_cpg.render.github import annotations
from pytest_cpg.render.line import forecast_table
from pytest_cpg.render.section import section
from pytest_cpg.render.words import crash_line
from pytest_cpg.report.document import document
from pytest_cpg.report.ledger import Judgement

WHY = "97 % of states name the right one without looking"
READERS = {
    "log": lambda session: "\n".join(annotations(session)).replace("%25", "%"),
    "JSON": lambda session: json.dumps(document(session)),
    "JUnit": lambda session: "".join(map(crash_line, session.gates[2].entry.judgements)),
}


# Those of which test_golden.py pins no text.
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_says_why_a_gate_is_blind_whatever_its_card_says(reader):
    assert WHY in READERS[reader](recorded("other-kinds"))


def test_an_evaluation_says_why_a_gate_is_blind():
    (kind,) = (one.judgement.kind for one in recorded("other-kinds").gates[2].comparisons)

    class Measuring:
        fixture, arguments, help = "blind", (Argument("task", name, REQUIRED),), ""

        def __getattr__(self, name):
            return getattr(kind, name)

        def accepts(self, spec):
            return MaxVerdict(label="SEEN", severity=Severity.GOOD)

        def parse(self, asked):
            return asked

        def measure(self, spec, model, run):
            return {"error": 0.0}

    found = evaluate("two-room", lambda o, a: o, kind=Measuring(), cache=None)
    assert WHY in " ".join(str(found).split())
    assert WHY in repr(found)


def test_a_reason_of_a_ruling_that_is_not_blind_is_the_first_why():
    card = other_card(0.3)
    ruling = Ruling(label="FAR", severity=Severity.BAD, reason="0.3 is above 0.25")
    accepts = MaxVerdict(label="NEAR", severity=Severity.GOOD)
    shown = Judgement(result=None, ruling=ruling, max_verdict=accepts, reason=ruling.reason)
    told = replace(shown, shown=card).card.texts("why")
    assert told == ["0.3 is above 0.25.", *card.texts("why")]
    # It is not said twice, and what every test says that is worse is said in its own words.
    known = replace(card, notes=(Note("why", "0.3 is above 0.25."),))
    assert replace(shown, shown=known).card == known
    usual = replace(ruling, reason=accepts.exceeded)
    assert replace(shown, shown=card, ruling=usual, reason=usual.reason).card == card


def test_cells_become_rows_of_signs_with_what_they_mean():
    sets = {"fine": (0, 2), "lost": (1, 3), "won": (), "neither": tuple(range(4, 160))}
    cells = Figure(kind="cells", title="Starts", reading="", axes=("start", ""), series=sets)
    table = Table(name="", columns=("error",), rows=(Row(name="learned", cells=("0.3",)),))
    card = Card(sentence="error 0.3", size="", cells={}, table=table, figures=(cells,))
    accepts = MaxVerdict(label="NEAR", severity=Severity.GOOD)
    ruling = Ruling(label="FAR", severity=Severity.BAD)
    shown = Judgement(result=None, ruling=ruling, max_verdict=accepts, shown=card)
    ten = "-" * 10
    assert [line.text for line in section(shown)][4:] == [
        f"  starts   .X.X{'-' * 6} {ten} {ten} {ten} {ten}",
        *[f"           {ten} {ten} {ten} {ten} {ten}"] * 2,
        "           ... and 10 more",
        "           X lost: 2   . fine: 2   - neither: 156",
    ]


def test_forecasts_of_several_kinds_have_headings_of_their_own():
    forecasts = {
        "a": ForecastLine(cells={"n": "200"}, notes=("n: transitions",)),
        "b": ForecastLine(cells={"episodes": "50"}),
        "c": ForecastLine(cells={"episodes": "<=150"}),
    }
    assert forecast_table(forecasts, width=80) == [
        " gate     n",
        " a      200",
        " gate episodes",
        " b          50",
        " c       <=150",
        " n: transitions",
    ]
