"""Failure section, summary and progress, on results that a run seldom gives."""

from dataclasses import replace

import pytest
from fakes import first, judged, result_of
from usual_settings import usual_settings

from pytest_cpg import Verdict
from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.episodes.stage import Stage
from pytest_cpg.gates import GATES
from pytest_cpg.gates.card import USUAL_LEVEL, Command, Ruling, Severity
from pytest_cpg.gates.drift import Drift, Label
from pytest_cpg.gates.kind import ForecastLine, max_verdict_of
from pytest_cpg.gates.notation import duration, fitted_names
from pytest_cpg.gates.planning_gap.card import card_of
from pytest_cpg.gates.planning_gap.forecast import settling
from pytest_cpg.gates.planning_gap.result import Look
from pytest_cpg.gates.planning_gap.ruling import ruling_of
from pytest_cpg.render import progress
from pytest_cpg.render.line import forecast_table
from pytest_cpg.render.progress import LiveLine, LogLines, Watch
from pytest_cpg.render.section import section, text_of
from pytest_cpg.render.summary import summary_lines
from pytest_cpg.render.words import reasons, rerun_command
from pytest_cpg.report.ledger import Entry, Judgement, Ledger, dump, load
from pytest_cpg.report.session import Session
from pytest_cpg.stats.sequential import paired_statistic

BAD = result_of(first(150, 150), first(0, 150), first(10, 150))
OPEN = result_of(first(47, 50), first(43, 50))
EVEN = result_of(first(25, 50), first(25, 50))
GOOD = result_of(first(50, 50), first(50, 50))
DROPPED = result_of(first(50, 50), first(20, 50), perturbation=DropActions(5))


def found_in(result, max_verdict=Verdict.MODEL_AS_GOOD_AS_ORACLE, drift=None):
    ruling = ruling_of(result, max_verdict)
    return Judgement(
        kind=GATES["cpg"],
        result=result,
        ruling=ruling,
        reason=ruling.reason if drift is None else drift.text,
        max_verdict=max_verdict_of(max_verdict, GATES["cpg"].labels),
        drift=drift,
    )


def said_of(result, max_verdict=Verdict.MODEL_AS_GOOD_AS_ORACLE, **options):
    found = found_in(result, max_verdict)
    again = rerun_command(found.card, found.ruling, "tests/test_wm.py::test_gate[a b]", {})
    return text_of(section(replace(found, commands=(again,)), **options))


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("result", [BAD, OPEN, EVEN], ids=["bad", "open", "even"])
def test_the_section_fits_the_terminal(result, width):
    lines = said_of(result, verbosity=1, width=width).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines[5 if result is BAD else 4]) > width - 13, "the bars grow"


def test_a_level_that_is_not_the_usual_one_stands_above_the_intervals():
    assert usual_settings().project["confidence"] == USUAL_LEVEL
    strict = result_of(first(20, 20), first(0, 20), level=0.99)
    assert said_of(strict).splitlines()[3].split() == ["arm", "success", "rate", "99%", "CI"]
    assert "CI" not in said_of(BAD)


WORSE = Drift(
    label=Label.REGRESSED,
    text="46 -> 36 of 50, lost 10 starts, gained 0 (p = 0.002); seed 1 -> 2",
    commit="d1bf6e3c0ffee",
    was="0.92",
    now="0.72",
    then={"learned": 0.92},
    worse=(0, 1),
)
LOSES = result_of([True] * 49 + [False], [False] * 13 + [True] * 36 + [False], first(15, 50))


def test_a_result_is_accepted_as_its_label_and_its_drift_ask_for():
    def accept(result, reason=None, drift=None, commands=()):
        found = replace(found_in(result, Verdict.INCONCLUSIVE, drift), commands=commands)
        return dict(reasons(replace(found, reason=reason or found.ruling.reason))).get("Accept", "")

    marker = 'set max_verdict="MODEL BOTTLENECK"'
    assert accept(LOSES) == marker
    assert accept(LOSES, drift=WORSE) == f"{marker}; then on main: pytest --cpg-update-baseline"
    assert accept(LOSES, WORSE.text, WORSE) == "on main: pytest --cpg-update-baseline"
    again = Command(what="Rerun this gate", text="pytest -p mine t.py", program="pytest -p mine")
    assert accept(LOSES, commands=(again,)) == f"{marker} in the marker"
    typed = accept(LOSES, WORSE.text, WORSE, (again,))
    assert typed == "on main: pytest -p mine --cpg-update-baseline"
    assert accept(result_of(first(4, 50), first(0, 50), first(1, 50))) == ""
    assert accept(OPEN, "the verdict is worse than INCONCLUSIVE") == ""


def test_the_command_repeats_what_was_typed_over_the_marker_and_only_that():
    typed = {"stop": "fixed", "episodes": 20, "baseline": "a b.json", "quick": True}
    card, node = card_of(OPEN, Verdict.INCONCLUSIVE), "t.py::test[a b]"

    def text(severity, options, **how):
        ruling = Ruling(label="A", severity=severity)
        return rerun_command(card, ruling, node, options, **how).text

    told = "--cpg-stop=fixed --cpg-episodes=20 --cpg-baseline='a b.json' --cpg-quick"
    assert text(Severity.BAD, typed, is_strict=True) == (
        f"pytest 't.py::test[a b]' {told} --cpg-strict"
    )
    # What is open is settled on other starts.
    assert text(Severity.UNSURE, {"episodes": 20}) == (
        "pytest 't.py::test[a b]' --cpg-episodes=115 --cpg-seed=5"
    )


def test_a_blind_gate_is_told_what_chance_did_and_never_to_run_more_of_the_same():
    blind = result_of(first(4, 50), first(0, 50), first(1, 50))
    text = " ".join(said_of(blind, Verdict.INCONCLUSIVE).split())
    assert "random actions would have passed this gate" in text
    assert "Random actions solve 1/50 starts, and the planner 4/50" in text
    assert "more episode" not in text
    # The strictest gate fails by its verdict, and chance would have failed it, too.
    assert "Mend the gate before it is given more starts" in settling(blind).advice
    assert settling(blind).options == {}


def test_only_a_strong_oracle_beside_chance_is_told_to_run_more_episodes():
    def text(oracle, chance, episodes=10, **more):
        arms = (first(count, episodes) for count in (oracle, oracle, chance))
        return " ".join(said_of(result_of(*arms, **more), Verdict.INCONCLUSIVE).split())

    enough = "about 40 episodes tell the oracle from random actions -> --cpg-episodes=40"
    assert enough in text(8, 5)
    assert "planner 8/10" in text(8, 8)
    assert "that random actions fail" in text(8, 8)
    assert "that random actions fail" in text(8, 9)
    assert "Do Look farther ahead" in text(3, 0)


def test_a_weak_planner_is_told_with_which_settings_its_task_is_solved():
    def text(task):
        weak = result_of(first(3, 10), first(3, 10), first(0, 10))
        named = replace(weak, design=replace(weak.design, task=task))
        return " ".join(said_of(named, Verdict.INCONCLUSIVE).split())

    solved = 'planner="preset" and no other settings the true dynamics solve 100 of 100 starts of '
    assert f"{solved}maze. Or look farther ahead (horizon, now" in text("maze")
    assert "preset" not in text("track")


def test_a_long_list_of_lost_episodes_is_cut():
    assert "38 39 and 110 more" in " ".join(said_of(BAD, verbosity=1).split())


def test_an_open_gate_says_how_many_episodes_would_resolve_it():
    assert "Run 115 starts of another seed." in " ".join(said_of(OPEN).split())
    assert settling(OPEN).options == {"episodes": 115, "seed": 5}
    assert "The rates are equal" in " ".join(said_of(EVEN).split())
    near = result_of(first(501, 1000), first(500, 1000))
    assert "no 10000 starts per arm would tell them apart" in " ".join(said_of(near).split())
    few = result_of(first(5, 5), first(5, 5))
    told = "Below 10 starts no two rates are called alike. Run 50 starts of another seed."
    assert told in " ".join(said_of(few).split())
    assert settling(few).options == {"episodes": 50, "seed": 5}


def test_a_gate_that_may_stop_early_is_resolved_by_its_own_rule():
    # The oracle alone solves one start in ten.
    fixed = result_of(first(25, 50), first(20, 50), interval="bonett-price")
    assert settling(fixed).options == {"episodes": 51, "seed": 5}
    boundary = paired_statistic(wins=10, losses=0, pairs=100) - 1e-9
    group = replace(fixed, stop="sequential", looks=(Look(50, 1.0, boundary),))
    assert settling(group).options == {"max_episodes": 100, "seed": 5}
    assert "Run 100 starts of another seed." in settling(group).advice


def test_a_margin_that_waits_for_its_oracle_alone_says_so():
    waits = result_of(first(20, 50), first(20, 50), margin=0.3, interval="tango")
    assert waits.interval.high < 0.3
    text = " ".join(said_of(waits).split())
    assert "The model loses less than the margin of 0.3. But the oracle solves 20/50" in text
    assert "a rate that may be 0.28" in text
    assert "is still possible" not in text
    # At 81 the Wilson bound of 0.4 is above 0.3, and at 80 it is not.
    assert settling(waits).options == {"episodes": 81, "seed": 5}


def test_a_gate_that_flagged_its_model_is_not_called_blind():
    low = result_of(first(4, 20), first(0, 20), interval="tango", level=0.9)
    assert low.verdict is Verdict.MODEL_BOTTLENECK
    assert not any("no model could fail" in note for note in low.notes)
    assert "smallest drop this gate could flag from 4/20" in said_of(low, verbosity=1)


def judgement_of(result, *, reason=None, **more):
    return judged(result, reason, **more)


def ledger_of(**gates):
    ledger = Ledger()
    ledger.expect(gates)
    for gate, (outcome, *results) in gates.items():
        if outcome:
            judgements = tuple(
                judgement_of(r, reason="bad" if outcome == "failed" else None) for r in results
            )
            ledger.note(gate, Entry(outcome=outcome, judgements=judgements))
    return ledger


def shown(ledger, **options):
    return [line.text for line in summary_lines(Session.of(ledger), **{"width": 80, **options})]


def test_the_summary_says_what_gates_that_passed_could_not_have_seen():
    one = " A drop below 0.14 may pass; larger ones fail 4 times in 5."
    both = " Drops below 0.14 to 0.21 may pass (-v: each); larger ones fail 4 times in 5."
    assert one in shown(ledger_of(a=("passed", GOOD), b=("failed", BAD)))
    assert both in shown(ledger_of(a=("passed", GOOD), b=("passed", OPEN)))
    assert max(map(len, shown(ledger_of(a=("passed", GOOD), b=("passed", OPEN))))) <= 80
    each = shown(ledger_of(a=("passed", GOOD), b=("passed", OPEN)), verbosity=1)
    assert [line for line in each if "may pass" in line] == [
        "     A drop below 0.14 may pass; larger ones fail 4 times in 5.",
        "     A drop below 0.21 may pass; larger ones fail 4 times in 5.",
    ]
    for silent in (
        shown(ledger_of(a=("failed", BAD))),
        shown(ledger_of(a=("passed", replace(GOOD, is_smoke=True)))),
        shown(ledger_of(a=("passed", GOOD)), verbosity=-1),
    ):
        assert not any("may pass" in line for line in silent)


def test_a_quiet_summary_leaves_no_part_of_a_name_to_a_heading_that_it_does_not_have():
    ledger = ledger_of(**{f"a.py::test_a[{i}]": ("failed", BAD) for i in (1, 2)})
    assert [line.split()[1] for line in shown(ledger, verbosity=-1)] == ["test_a[1]", "test_a[2]"]
    assert shown(ledger)[0] == " a.py::test_a[...], 150 starts"


def test_whatever_a_name_or_a_failure_holds_stays_on_its_line():
    ledger = ledger_of(**{"own\n##[error]pwn\x1b[2J": ("passed", GOOD), "b\n##[error]": ("",)})
    detail = "\x1b[1mboom\r##[error]"
    ledger.note("c", Entry(outcome="error", detail=detail, measurements=("x\x1b\n##[error]",)))
    lines = shown(ledger, width=120)
    assert all(line.isprintable() and "##[" not in line for line in lines)
    assert any(line.startswith(" . own ## [error]pwn [2J ") for line in lines)


def test_a_comparison_is_marked_alike_in_every_report():
    judgements = (judgement_of(OPEN), judgement_of(GOOD), judgement_of(BAD, reason="bad"))
    ledger = ledger_of()
    ledger.note("a", Entry(outcome="failed", judgements=judgements))
    marks = sorted(line.split()[:2] for line in shown(ledger) if line[3:4] == "a")
    (gate,) = Session.of(ledger).gates
    states = ["inconclusive", "passed", "failed"]
    assert marks == [[".", "a"], ["?", "a"], ["F", "a"]]
    assert [one.state for one in gate.comparisons] == states


def test_no_name_is_cut_and_what_all_share_is_said_once():
    ids = ("reacher-easy", "cheetah-run-cem-horizon-12", "x" + "y" * 60)
    of_one = {f"t/test_wm.py::test_planning_gap[{one}]": ("passed", GOOD) for one in ids}
    lines = shown(ledger_of(**of_one))
    assert lines[0] == " t/test_wm.py::test_planning_gap[...], 50 starts"
    assert lines[3].startswith(" . [reacher-easy]  ")
    long = next(at for at, line in enumerate(lines) if line == " . [x" + "y" * 60 + "]")
    assert lines[long + 1].lstrip().startswith("1.00 ")
    assert [line for line in lines if len(line) > 80] == []
    several = {"t.py::test_table_of_the_whole_maze": ("passed", GOOD), "t.py::test_t": ("error",)}
    assert shown(ledger_of(**several), width=60)[0] == " test_..., 50 starts"
    alone = shown(ledger_of(**{"t.py::test_table_of_the_whole_maze": ("passed", GOOD)}), width=60)
    assert alone[3] == " . test_table_of_the_whole_maze"
    # Of other functions all of the name is shown.
    mixed = shown(ledger_of(**of_one, **{"t/test_wm.py::test_b[x]": ("passed", GOOD)}))
    assert mixed[0] == " t/test_wm.py::test_planning_gap[...], 50 starts"
    assert any(line.startswith(" . test_b[x] ") for line in mixed)


@pytest.mark.parametrize(
    "names", [("a_", "a_b"), ("f[]", "f[x]"), ("f", "f"), ("x::", "y"), ("x[y", "x[z]")]
)
def test_a_name_is_never_empty(names):
    long = "_" * 40
    found = fitted_names(tuple(f"{n}.py::{long}{name}" for n, name in enumerate(names)), 20)
    assert all(found.of.values())
    assert len(set(found.of.values())) == 2


def test_gates_of_one_name_show_their_files_and_parameters_may_hold_what_divides_a_name():
    lines = shown(ledger_of(**{"a.py::test_x": ("passed", GOOD), "b.py::test_x": ("passed", GOOD)}))
    assert "a.py::test_x" in lines[3]
    assert "b.py::test_x" in lines[4]
    lines = shown(ledger_of(**{"a.py::TestX::test_x[b::c]": ("passed", GOOD)}))
    assert lines[3].startswith(" . test_x[b::c] ")


def test_the_worst_phase_of_a_test_decides_and_keeps_the_measurement():
    ledger = ledger_of(a=("passed", GOOD))
    ledger.note("a", Entry(outcome="error", detail="error in teardown: boom"))
    assert ledger.entries["a"].outcome == "error"
    assert ledger.entries["a"].judgements[0].result.verdict is GOOD.verdict


def test_judgements_survive_the_way_from_a_worker():
    judgements = (judgement_of(BAD, reason="worse"),)
    (again,) = load(dump(judgements), GATES)
    assert dump([again]) == dump(judgements)
    assert (again.kind, again.result.verdict) == (GATES["cpg"], BAD.verdict)


def test_the_live_line_says_where_an_arm_is_and_stays_within_the_line(monkeypatch):
    written, at = [], {"now": 0.0, "room": 55}
    monkeypatch.setattr(progress.time, "monotonic", lambda: at["now"])
    line = LiveLine(written.append, lambda: at["room"])
    for at["now"], done in ((0.0, 0), (1.0, 10), (2.0, 85)):
        line("learned", Stage(done, 200, "step", 17, 50))
    assert written[-1] == "\x1b7  learned   ████▎      step 85/200, 17 solved, 2 s\x1b[K\x1b8"
    line("learned", Stage(86, 200, "step", 17, 50))
    assert len(written) == 3, "at most ten times a second"
    for at["now"], at["room"], shown in (
        (3.0, 40, "  learned   step 100/200, 17 solved, 2 s"),
        (4.0, 23, " learned 17/50 solved"),
        (5.0, 20, None),
    ):
        line("learned", Stage(100, 200, "step", 17, 50))
        expected = shown and f"\x1b7{shown}\x1b[K\x1b8"
        assert (written.pop() if len(written) > 3 else None) == expected
    at["room"] = 55
    line("asking", Stage(0, 50, "queries"))
    assert "  asking               0/50 queries" in written[-1], "a new stage is shown at once"
    line.clear()
    assert written[-1] == "\x1b[K"
    line.clear()
    assert written[-2:] != ["\x1b[K"] * 2, "there is nothing to wipe"


def test_a_measurement_goes_on_where_nobody_takes_what_it_says():
    def refuse(told):
        raise OSError("cannot send to <Channel id=5 closed>")

    noted = []
    watch = Watch(noted.append, LogLines(refuse))
    watch("learned", 200, 200, "step", 17, 50)
    watch.clear()
    assert noted == ["learned, step 200/200, 17 solved"]


@pytest.mark.parametrize("room", [65, 40])
def test_a_stage_that_takes_minutes_hints_at_what_takes_less_where_there_is_room(monkeypatch, room):
    clock = iter((0.0, 1.0, 62.0, 124.0))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    shown, stage = [], Stage(0, 200, "step", 0, 50, hint="--cpg-stop=sequential")
    live = LiveLine(shown.append, lambda: room)
    for done in (0, 1, 60, 120):
        live("oracle", stage._replace(done=done))
    text = "step 60/200, 2 min (sooner: --cpg-stop=sequential)"
    assert [text in line for line in shown] == [False, False, room == 65, False]
    assert [len(line) <= room + 8 for line in shown] == [True] * 4


def test_a_log_hints_once(monkeypatch):
    clock = iter((0.0, 1.0, 62.0, 124.0))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    written, stage = (
        [],
        Stage(0, 300, "step", 0, 50, hint="--cpg-stop=sequential"),
    )
    log = LogLines(written.append)
    for done in (0, 1, 60, 120):
        log("oracle", stage._replace(done=done))
    assert written == [
        "\n  cpg: oracle   step 60/300, 0 of 50 starts solved, about 4 min left; "
        "--cpg-stop=sequential may end it sooner",
        "  cpg: oracle   step 120/300, 0 of 50 starts solved, about 3 min left",
    ]


def test_a_plan_fits_the_terminal_whatever_the_names_are():
    forecasts = {
        f"tests/test_world_models.py::test_planning_gap[cheetah-run-cem-{n}]": ForecastLine(
            cells={
                "starts": "<=10000",
                "oracle": "0.50?",
                "finds": "-",
                "paired": "1.00",
                "n@0.1": "-",
                "n@0.2": "100000",
                "n@0.3": "5",
                "time": duration(n),
            },
            notes=("?: not run here yet; assumed to be 0.50, where drops are hardest to find",),
            seconds=n,
        )
        for n in (59.4, 6e5)
    }
    lines = forecast_table(forecasts, width=80)
    assert [line for line in lines if len(line) > 80] == []
    assert lines[0] == " tests/test_world_models.py::test_planning_gap[...]"
    assert [line.split()[-2:] for line in lines if line.endswith((" s", " h"))] == [
        ["59", "s"],
        ["167", "h"],
    ]
    assert forecast_table({}, width=80) == ["no gate was collected"]


@pytest.mark.parametrize("verbosity", [-1, 0])
def test_what_is_said_in_place_of_numbers_begins_where_numbers_do(verbosity):
    ledger = ledger_of(bad=("failed", BAD), broken=(None,))
    ledger.note("broken", Entry(outcome="error", detail="it predicted NaN"))
    lines = shown(ledger, verbosity=verbosity)
    (numbers,) = (line for line in lines if line.startswith(" F bad"))
    (said,) = (line for line in lines if line.startswith(" E broken"))
    assert numbers.index("1.00") == said.index("it predicted")


def test_a_row_of_which_something_is_to_be_known_is_never_folded():
    green = ledger_of(**{f"t.py::test_gate[{name}]": ("passed", GOOD) for name in "abcdefg"})
    assert " 7 MODEL AS GOOD AS ORACLE, 50 starts each. Every row: pytest -v" in shown(green)
    again = Entry(
        outcome="passed",
        judgements=(judgement_of(GOOD),),
        attempt=2,
        earlier=("MODEL BOTTLENECK",),
    )
    green.note("t.py::test_gate[d]", again)
    lines = shown(green)
    assert any(line.startswith(" . [d] ") for line in lines)
    assert any("attempt 2" in line for line in lines)
    many = ledger_of(**{f"t.py::test_gate[{at}]": ("passed", GOOD) for at in range(70)})
    many.note("t.py::test_gate[7]", again)
    assert any(line.startswith(" . [7] ") for line in shown(many))
    assert any("attempt 2" in line for line in shown(many))
    assert " . 69 more passed (pytest -v)" in shown(many)


def test_an_error_beside_a_long_name_stays_in_the_lines():
    gates = {f"t.py::test_gate[{name}]": ("passed", GOOD) for name in ("a", "b" * 70)}
    smoke = replace(GOOD, is_smoke=True)
    for result in (GOOD, smoke):
        ledger = ledger_of(**{name: (ended, result) for name, (ended, _) in gates.items()})
        detail = "error in setup: the model's rollout gave nan in episode 0. Look for more."
        ledger.note("t.py::test_gate[c]", Entry(outcome="error", detail=detail))
        lines = shown(ledger)
        assert [line for line in lines if len(line) > 80] == []
        assert any(
            line.startswith((" E [c] ", " E test_gate[c] ")) and "the model's rollout gave" in line
            for line in lines
        )
        assert not any("Look for more" in line for line in lines)


def test_a_bad_verdict_that_a_marker_accepts_is_said_to_be():
    lines = shown(ledger_of(lax=("passed", BAD), good=("passed", GOOD)))
    at = next(at for at, line in enumerate(lines) if line.startswith(" . lax"))
    assert lines[at + 1] == "     accepted by max_verdict"
    assert sum("accepted by max_verdict" in line for line in lines) == 1


def test_a_smoke_test_says_why_a_test_failed_by_itself():
    smoke = judgement_of(replace(GOOD, is_smoke=True))
    ledger = ledger_of()
    ledger.note("own", Entry(outcome="failed", judgements=(smoke,), detail="RuntimeError: disk"))
    assert " F own  RuntimeError: disk" in shown(ledger)
