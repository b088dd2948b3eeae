"""A session: what is worst in it, and what its gates are called."""

from documents import gate, measured, session
from fakes import drift_since, first, result_of
from rendered import session_of

from pytest_cpg.report.session import Session

GOOD = result_of(first(50, 50), first(50, 50))
FEW, MANY = result_of(first(50, 50), first(45, 50)), result_of(first(50, 50), first(30, 50))
WORSE = "the verdict is worse than INCONCLUSIVE"


def failing(name, result, before=None):
    drift = None if before is None else drift_since("3f2c1e9", before, result)
    return gate(name, result, outcome="failed", reason=WORSE, drift=drift)


def test_the_worst_lost_most_since_it_was_accepted_and_errors_come_behind_what_was_measured():
    found = session_of(
        session(
            gate("passed", GOOD),
            gate("doubt", result_of(first(47, 50), first(43, 50))),
            gate("error", outcome="error", detail="boom"),
            gate("missing", outcome="missing"),
            failing("large", measured(0.96, 0.1)),
            failing("small", measured(0.96, 0.5)),
            failing("lost few", result_of(first(50, 50), first(40, 50)), before=GOOD),
            failing("lost many", MANY, before=GOOD),
            gate("known", MANY, outcome="xfailed", reason=WORSE),
        )
    )
    assert [one.id for one in found.worst_first] == [
        *("lost many", "lost few", "large", "small", "error", "missing"),
        *("known", "doubt", "passed"),
    ]


def test_a_gate_is_looked_at_for_its_worst_comparison():
    both = gate("t.py::test", GOOD, MANY, outcome="failed", reason=None)
    both["comparisons"][1]["reason"] = WORSE
    (found,) = session_of(session(both)).gates
    assert found.worst.name == "t.py::test #2"
    assert [row.state for row in found.rows] == ["passed", "failed"]


def test_no_name_stands_without_its_function():
    ids = ("a.py::test_x[0.1]", "a.py::test_y", "b.py::test_z")
    found = session_of(session(*(gate(name, GOOD, FEW) for name in ids)))
    assert list(found.names.values()) == [
        *("test_x[0.1]", "test_x[0.1] #2", "test_y", "test_y #2", "test_z", "test_z #2"),
    ]
    assert Session(gates=()).names == {}
