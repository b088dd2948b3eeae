"""Sessions as their reports have them, for readers that are pinned whole."""

from dataclasses import replace

from documents import comparison, gate, measured, session
from fakes import drift_since, first, result_of
from other_kind import blind_gate, number_gate, other_gate
from rendered import past, session_of

from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes.perturbations import DropActions
from pytest_cpg.gates.card import Command
from pytest_cpg.report.history import History

FILE = "tests/test_wm.py::test_planning_gap"
WORSE = "the verdict is worse than INCONCLUSIVE"
GOOD = result_of(first(50, 50), first(50, 50), first(4, 50))
OPEN = result_of(first(48, 50), first(44, 50), first(15, 50))
BEFORE = result_of(first(50, 50), first(46, 50), first(15, 50))
LOST = replace(result_of(first(50, 50), first(36, 50), first(15, 50)), notes=("starts are fixed",))
BLIND = result_of(first(26, 50), first(25, 50), first(27, 50))
WEAK = result_of(first(12, 12), first(12, 12), first(1, 12))
POOR = result_of(first(2, 50), first(0, 50), first(1, 50))
DEAF = result_of(first(50, 50), first(10, 50), first(5, 50), ignores_action=True)
EARNED = measured(0.9, 0.3, 20, metric="return", margin=60.0)
SHAKEN = result_of(first(50, 50), first(20, 50), first(3, 50), perturbation=DropActions(5))


def found(result, name, *, reason=None, drift=None, **more):
    """Return a gate with one comparison, which fails where there is a reason."""
    rerun = Command(what="Rerun this gate", text=f"pytest '{name}'")
    document = gate(name, outcome="failed" if reason else "passed", **more)
    compared = comparison(name, result, reason=reason, drift=drift)
    document["comparisons"] = [compared | {"commands": encode((rerun,))}]
    return document


def since(before, now):
    """Return how a result stands beside an accepted one."""
    return drift_since("d1bf6e3c0ffee", before, now)


REGRESSED = found(LOST, f"{FILE}[reacher-easy]", reason=WORSE, drift=since(BEFORE, LOST))
SESSIONS = {
    "green": session(
        *(found(GOOD, f"{FILE}[{name}]", drift=since(GOOD, GOOD)) for name in ("maze", "reacher"))
    ),
    "several-failures": session(
        found(EARNED, f"{FILE}[hopper]", reason=WORSE),
        gate(f"{FILE}[maze]", outcome="error", detail="error in setup: boom. Mend it."),
        REGRESSED,
        found(GOOD, f"{FILE}[two-room]", drift=since(LOST, GOOD)),
        exit_code=1,
        findings=[("Of 4 gates one may fail by chance.", False)],
        branch="longer-training",
        ci_run="https://hub.example/o/r/actions/runs/11",
    ),
    "inconclusive": session(found(OPEN, FILE, drift=since(BEFORE, OPEN))),
    "blind": session(
        found(BLIND, f"{FILE}[walker]", reason="random actions would have passed this gate"),
        found(POOR, f"{FILE}[acrobot]", reason=WORSE),
        exit_code=1,
    ),
    "broken": session(found(DEAF, FILE, reason=WORSE), exit_code=1),
    "drifted": session(
        found(OPEN, FILE, reason=since(GOOD, OPEN).text, drift=since(GOOD, OPEN)), exit_code=1
    ),
    "unjudged": session(
        gate("a.py::test_gone", outcome="missing", detail="learned, step 85/200, 17 solved"),
        gate("a.py::test_raises", outcome="error", detail="error in setup: KeyError: 'mine'"),
        gate("a.py::test_asserts", GOOD, outcome="failed", detail="assert 0.9 > 1"),
        gate("a.py::test_known", LOST, outcome="xfailed", reason=WORSE),
        gate("a.py::test_left", outcome="skipped", detail="no network"),
        gate("a.py::test_ranks", measurements=("ranking: x > y",)),
        deselected=("a.py::test_other",),
        uncollected={"b.py": "ImportError: no module named 'mine'"},
        exit_code=2,
        failed_tests=1,
    ),
    "repeated": session(
        gate("t.py::test_two", OPEN, GOOD, attempt=2, earlier=("MODEL BOTTLENECK",)),
        gate("t.py::test_weak", WEAK),
        gate("t.py::test_shaken", SHAKEN, outcome="failed", reason=WORSE),
        exit_code=1,
    ),
    "smoke": session(
        found(replace(GOOD, is_smoke=True), f"{FILE}[maze]"),
        gate(f"{FILE}[quadruped]", outcome="error", detail="the model predicted NaN. Mend it."),
        exit_code=1,
    ),
    "many": session(
        *(found(GOOD, f"{FILE}[p{number}]") for number in range(69)), REGRESSED, exit_code=1
    ),
    "other-kinds": session(
        other_gate(0.31)[0], number_gate("WITHIN LIMIT"), blind_gate(), REGRESSED, exit_code=1
    ),
}
KINDS = {**other_gate(0.31)[1], **number_gate.kinds, **blind_gate.kinds}


def recorded(name):
    """Return a session with three earlier ones, of which the second was measured twice."""
    now = session_of(SESSIONS[name], KINDS)
    if name not in ("several-failures", "green"):
        return now
    earlier = [
        session_of(
            session(found(result, f"{FILE}[reacher-easy]"), revision=revision, dirty=dirty), KINDS
        )
        for result, revision, dirty in (
            (GOOD, "a" * 40, False),
            (OPEN, "d1bf6e3c0ffee", False),
            (BEFORE, "d1bf6e3c0ffee", False),
            (LOST, "b" * 40, True),
        )
    ]
    return replace(now, history=History(tuple(map(past, (*earlier, now)))))
