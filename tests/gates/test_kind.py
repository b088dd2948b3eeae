from argparse import ArgumentTypeError

import pytest

from pytest_cpg import Verdict
from pytest_cpg.gates import GATES
from pytest_cpg.gates.arguments import as_given
from pytest_cpg.gates.kind import max_verdict_of


def accepted(name):
    return max_verdict_of(name, GATES["cpg"].labels)


@pytest.mark.parametrize("verdict", Verdict)
def test_a_verdict_is_parsed_in_any_case_with_dashes_or_underscores(verdict):
    for name in (verdict, verdict.name, verdict.lower(), verdict.title().replace(" ", "-")):
        assert accepted(name).label == verdict
    assert accepted(f"  {verdict} ".replace(" ", "  ")).label == verdict


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("MODEL BOTLENECK", "MODEL BOTTLENECK"),
        ("inconclusiv", "INCONCLUSIVE"),
        ("as-good-as-oracle", "MODEL AS GOOD AS ORACLE"),
        ("outperforms oracle", "LEARNED OUTPERFORMS ORACLE"),
    ],
)
def test_an_unknown_verdict_names_the_nearest_one(name, nearest):
    with pytest.raises(ValueError, match=f"no verdict named '{name}'. Did you mean '{nearest}'?"):
        accepted(name)


@pytest.mark.parametrize("name", ["fail", "", None, 3])
def test_an_unknown_verdict_like_none_lists_them_all(name):
    with pytest.raises(
        ValueError, match=f"no verdict named {name!r}. Known: MODEL AS GOOD"
    ) as info:
        accepted(name)
    assert all(verdict in str(info.value) for verdict in Verdict)


@pytest.mark.parametrize("marker", GATES)
def test_every_whole_number_of_a_marker_has_a_largest_one(marker):
    """What runs for ever, or asks for any memory, is a mistake that nobody sees."""
    bounded = []
    for argument in GATES[marker].arguments:
        try:
            found = argument.parse and argument.parse(10**30)
        except ValueError:
            continue
        except ArgumentTypeError as error:
            bounded += [argument.name] * ("at most" in str(error))
        else:
            # Other numbers are read as float, and what is read later is checked then.
            assert not isinstance(found, int) or argument.parse is as_given
    # Queries bring their own numbers, and a suite has those of its gates.
    assert bounded or marker in ("cpg_opcc", "cpg_suite")
