"""Every report of a gate that asks something else than the planning gap, from its card alone."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes import PROVENANCE
from rendered import html_page

from pytest_cpg.gates.card import Card, Cause, Command, Figure, Remark, Row, Ruling, Severity, Table
from pytest_cpg.gates.kind import ForecastLine, MaxVerdict
from pytest_cpg.render.failure import judged, rerun_command
from pytest_cpg.render.forecasts import forecast_table
from pytest_cpg.render.markdown import markdown
from pytest_cpg.render.section import section, text_of
from pytest_cpg.render.summary import summary_lines, title
from pytest_cpg.report.ledger import Entry, Judgement, Ledger
from pytest_cpg.report.session import Session, SessionEnd
from pytest_cpg.stats import Interval

ERROR = Card(
    headline="error 0.31 [0.25,0.38]",
    size="T=200",
    cells={"error": "0.31", "95% CI": "[0.25,0.38]", "limit": "0.10"},
    table=Table(
        name="model",
        columns=("error", "95% CI"),
        rows=(
            Row(
                name="learned",
                cells=("0.31", "[0.25, 0.38]"),
                bound=Interval(estimate=0.5, low=0.25, high=9.0, level=0.95, method="t"),
            ),
            Row(name="persistence", cells=("0.90", "")),
        ),
        axis=(0.0, 1.0),
        below=(("ratio", "0.34 of what persistence errs"),),
    ),
    facts=(("transitions", "200 of random actions"),),
    meaning=("The model errs by more than the limit of 0.10.",),
    advice=("Mend it.",),
    paragraphs=("Note: all of one episode.",),
    cause=Cause(
        name="BIAS",
        text="It drifts left.",
        advice="Turn it right.",
        source="200 steps",
        measures=(("bias", "0.2", "a step"), ("spread", "0.1", "a step")),
        main=("bias",),
    ),
    remarks=(Remark(text="worst in x"), Remark(text="seed 3", detail=1)),
    numbers={"error": 0.31, "task": "a\x1bb"},
)
INACCURATE = Ruling(label="INACCURATE", severity=Severity.BAD, reason="0.25 is above 0.10")
ACCEPTED = MaxVerdict(label="UNCLEAR", severity=Severity.UNSURE)
OTHER = Card(
    headline="rank 0.5", size="n=9", cells={"tau": "0.5"}, table=ERROR.table, verdict="SO SO"
)
UNCLEAR = Ruling(label="UNCLEAR", severity=Severity.UNSURE)
FOUND = Judgement(result=None, ruling=INACCURATE, shown=ERROR, max_verdict=ACCEPTED)


def judgement(card, ruling):
    """Return what a ledger has of a comparison."""
    return SimpleNamespace(card=card, ruling=ruling, reason=ruling.reason, drift=None)


@pytest.fixture
def found():
    ledger = Ledger()
    ledger.expect(["a", "b", "c"])
    ledger.note("a", Entry(outcome="failed", judgements=(judgement(ERROR, INACCURATE),)))
    ledger.note("b", Entry(outcome="passed", judgements=(judgement(OTHER, UNCLEAR),)))
    ledger.note("c", Entry(outcome="passed", judgements=(judgement(OTHER, UNCLEAR),)))
    return Session.of(ledger)


def test_a_reason_that_ends_in_a_question_gets_no_full_stop():
    assert judged(replace(FOUND, reason="why?")) == "Failed: why?"


def test_a_failing_section_is_a_card_laid_out():
    again = rerun_command(ERROR, INACCURATE, "t.py::a", {"workers": 2}, is_strict=True)
    more = Command(what="Look at it", text="view it")

    def lines(verbosity=0):
        found = replace(FOUND, reason=INACCURATE.reason, commands=(more, again))
        return text_of(section(found, verbosity=verbosity)).splitlines()

    shown = [
        "INACCURATE: error 0.31 [0.25,0.38], T=200.",
        "Failed: 0.25 is above 0.10.",
        "",
        f"  learned      0.31  {'█' * 20}{' ' * 20}  [0.25, 0.38]",
        "  persistence  0.90",
        "",
        "  ratio    0.34 of what persistence errs",
        "",
        "  Why      BIAS: It drifts left.",
        "  Do       Turn it right.",
        "  Note     all of one episode.",
        "",
        "  Look     view it",
        "  Rerun    pytest t.py::a --cpg-workers=2 --cpg-strict",
    ]
    assert lines() == shown
    assert lines(verbosity=1) == [
        *shown,
        "",
        "  Facts",
        "  transitions  200 of random actions",
        "",
        "  Why: BIAS (200 steps)",
        "    bias       0.2                    a step",
    ]


def test_cells_become_rows_of_signs_with_what_they_mean():
    sets = {"fine": (0, 2), "lost": (1, 3), "won": (), "neither": tuple(range(4, 160))}
    cells = Figure(kind="cells", title="Starts", reading="", axes=("start", ""), series=sets)
    drawn = replace(ERROR, figures=(cells,))
    lines = text_of(section(replace(FOUND, shown=drawn, reason="so"))).splitlines()
    ten = "-" * 10
    assert lines[5:10] == [
        f"  starts   .X.X{'-' * 6} {ten} {ten} {ten} {ten}",
        *[f"           {ten} {ten} {ten} {ten} {ten}"] * 2,
        "           ... and 10 more",
        "           X lost: 2   . fine: 2   - neither: 156",
    ]


def test_the_summary_has_a_heading_wherever_the_columns_change(found):
    assert [line.text for line in summary_lines(found, width=80)] == [
        "        error   95% CI    limit",
        " INACCURATE (1)",
        " F a     0.31 [0.25,0.38]  0.10",
        "     worst in x",
        "         tau",
        " UNCLEAR (2)",
        " ? b     0.5",
        " ? c     0.5",
    ]
    assert "     seed 3" in [line.text for line in summary_lines(found, width=80, verbosity=1)]
    assert title(found) == "cpg: 3 gates, 1 failed, 2 inconclusive"


def test_forecasts_of_several_kinds_have_headings_of_their_own():
    forecasts = {
        "a": ForecastLine(cells={"n": "200"}, notes=("n: transitions",)),
        "b": ForecastLine(cells={"episodes": "50"}),
        "c": ForecastLine(cells={"episodes": "<=150"}),
    }
    assert forecast_table(forecasts, width=80) == [
        " gate      n",
        " a       200",
        " gate episodes",
        " b          50",
        " c       <=150",
        " n: transitions",
    ]


def test_every_report_says_why_a_gate_is_blind_whatever_its_card_says():
    why = "97 % name the right one without looking"
    blind = Ruling(label="BLIND", severity=Severity.BLIND, reason=f"{why}.")
    for card in (ERROR, replace(ERROR, sentence="the model errs", brief="errs")):
        shown = replace(FOUND, ruling=blind, reason=blind.reason, shown=card)
        lines = text_of(section(shown)).splitlines()
        assert lines[:2] == [f"BLIND: {why}.", "error 0.31 [0.25,0.38]."]
        ledger = Ledger()
        ledger.note("a", Entry(outcome="failed", judgements=(shown,)))
        session = Session.of(ledger, PROVENANCE, SessionEnd(exit_code=1))
        for text in (markdown(session), html_page([session])):
            assert why in " ".join(text.split())


def test_a_comment_has_a_table_for_each_set_of_columns():
    ledger = Ledger()
    for name, outcome, ruling, card in (
        ("a", "failed", INACCURATE, ERROR),
        ("b", "passed", UNCLEAR, OTHER),
    ):
        found = replace(FOUND, ruling=ruling, reason=ruling.reason, shown=card)
        ledger.note(name, Entry(outcome=outcome, judgements=(found,)))
    text = markdown(Session.of(ledger, PROVENANCE, SessionEnd(exit_code=1)))
    for line in (
        "|  | gate | error | 95% CI | limit | verdict |",
        "| ❌ | `a` | 0.31 | [0.25,0.38] | 0.10 | INACCURATE |",
        "|  | gate | tau | verdict |",
        "| ❔ | `b` | 0.5 | SO SO |",
        "- transitions: 200 of random actions",
        "**Why** (`a`): BIAS: It drifts left.  ",
        "**Do:** Turn it right.",
    ):
        assert f"\n{line}\n" in text
