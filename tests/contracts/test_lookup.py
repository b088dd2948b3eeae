import pytest

from pytest_cpg import Planner
from pytest_cpg.contracts import ComponentError
from pytest_cpg.contracts.lookup import check_complete, did_you_mean, lookup


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("cemm", "Did you mean 'cem'?"),
        ("mine", "Known: a, cem. To add one, return it from the pytest_cpg_planners hook."),
    ],
)
def test_an_unknown_name_gets_the_nearest_one_or_the_hook(name, fix):
    with pytest.raises(ComponentError) as caught:
        lookup("planner", name, {"cem": 1, "a": 2})
    assert str(caught.value) == f"no planner named {name!r}. {fix}"


def test_a_name_like_no_other_gets_the_whole_list():
    assert did_you_mean("zzz", ["b", "a"]) == "Known: a, b."


def test_a_component_that_is_no_such_thing_is_told_what_it_lacks():
    class Half:
        name = "half"

        def plan(self):
            pass

    with pytest.raises(ComponentError, match=r"planner 'half' is .* which lacks horizon. Give it"):
        check_complete("planner", "half", Half(), Planner)
