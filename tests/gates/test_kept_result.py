import pytest
from fakes import first, result_of

from pytest_cpg.contracts.codec import encode
from pytest_cpg.gates import GATES
from pytest_cpg.gates.kept import KeptResult, drift_of, entry_for
from pytest_cpg.gates.planning_gap.records import BaselineGate

GAP = GATES["cpg"]
RESULT = result_of(first(50, 50), first(44, 50))


def kept(name, mean=0.5, commit="3f2c1e9"):
    return KeptResult(id=name, kind="step_error", commit=commit, values={"mean": mean})


def test_the_first_kind_stands_in_the_file_as_it_did_when_it_was_the_only_one():
    then = BaselineGate.of(RESULT)
    gap = KeptResult(id="g", kind="cpg", commit="3f2c1e9", values=encode(then))
    written = encode(gap)
    assert (written["commit"], written["learned_successes"]) == ("3f2c1e9", "44/50")
    assert not {"kind", "values", "id"} & set(written)
    assert KeptResult.read("g", written) == gap
    assert entry_for(GAP, gap) == then


def test_another_kind_is_named_beside_its_values():
    written = encode(kept("g"))
    assert written == {"kind": "step_error", "commit": "3f2c1e9", "values": {"mean": 0.5}}
    assert KeptResult.read("g", written) == kept("g")
    assert entry_for(GAP, kept("g")) is None


def test_a_drift_says_at_which_commit_its_kind_was_accepted_last():
    then = encode(BaselineGate.of(RESULT))
    gap = KeptResult(id="g", kind="cpg", commit="3f2c1e9", values=then)
    assert drift_of(GAP, gap, RESULT).commit == "3f2c1e9"
    new = drift_of(GAP, kept("g"), RESULT)
    assert (new, new.commit) == (drift_of(GAP, None, RESULT), "")


@pytest.mark.parametrize("name", ["commit", "values"])
def test_what_a_kept_result_lacks_is_named(name):
    written = encode(kept("g"))
    del written[name]
    with pytest.raises(ValueError, match=f"has no {name!r}"):
        KeptResult.read("g", written)
