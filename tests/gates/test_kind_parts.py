import pytest

from pytest_cpg.gates import GATES
from pytest_cpg.gates.parts import half_part


@pytest.mark.parametrize("marker", GATES)
def test_a_kind_of_ours_has_whole_parts(marker):
    assert half_part(GATES[marker]) == ""


def test_what_a_part_builds_on_is_missed():
    class Kind:
        def unprovable(self, accepted):
            return []

    assert half_part(Kind()) == (
        "has unprovable and lacks compare, entry. Give it all of these, or leave unprovable out"
    )
