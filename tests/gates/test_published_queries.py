"""The published queries come with the package or from a folder, and mean what they meant."""

from pathlib import Path

import numpy as np
import pytest

import pytest_cpg.gates.policy_comparison
from pytest_cpg.contracts import ComponentError
from pytest_cpg.gates.policy_comparison.environments import ENVIRONMENTS, environment
from pytest_cpg.gates.policy_comparison.published import SHIPPED, published_queries, queries_at
from pytest_cpg.machine.files import FileError

OWN = Path(pytest_cpg.gates.policy_comparison.__file__).parent / "data"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "opcc"
# Share of labels that are true, counted in the files of the public benchmark.
TRUE_SHARES = {
    "hopper": 372 / 1500,
    "halfcheetah": 478 / 1500,
    "walker2d": 671 / 1500,
    "maze-open": 510 / 1500,
    "maze-umaze": 666 / 1500,
    "maze-medium": 757 / 1500,
    "maze-large": 57 / 121,
}


@pytest.mark.parametrize("name", SHIPPED)
def test_two_mazes_come_with_the_package(name):
    queries = queries_at(name)
    assert len(queries) == 1500
    assert queries.labels.mean() == TRUE_SHARES[name]
    assert (queries.policy_a < queries.policy_b).all()
    assert sorted(set(queries.horizons)) == [20, 30, 40, 50]
    np.testing.assert_array_equal(queries.observations_a, queries.states_a)
    assert queries.action_space is environment(name).actions


def test_the_shipped_data_are_small_and_bear_their_licence():
    assert sum(path.stat().st_size for path in OWN.glob("*.npz")) <= 310_000
    assert "Apache License" in (OWN / "LICENSE").read_text(encoding="utf-8")
    notice = (OWN / "NOTICE").read_text(encoding="utf-8")
    assert "Copyright 2021 Anurag Koul" in notice
    assert "Changes:" in notice


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the folder with all published queries")
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_others_are_read_from_a_folder(name):
    in_files = name.replace("maze-", "maze2d_")
    queries = queries_at(SHARED / f"queries_{in_files}.npz")
    assert queries.environment == name
    assert queries.labels.mean() == pytest.approx(TRUE_SHARES[name])
    world = environment(name)
    assert queries.observations_a.shape[1] == world.observation_size
    # Upstream, nobody starts where an episode has ended.
    assert not world.terminated(queries.observations_a).any()


def test_queries_that_are_not_there_say_what_to_name_instead(tmp_path):
    with pytest.raises(
        ComponentError, match=r"only .* maze-umaze do\. .*convert\(clone, 'hopper'\)"
    ):
        queries_at("hopper")
    with pytest.raises(ComponentError, match=r"named 'maze-umaz'\. Did you mean 'maze-umaze'"):
        queries_at("maze-umaz")
    with pytest.raises(FileError, match=r"there is no file of queries .*queries_walker2d"):
        queries_at(tmp_path / "queries_walker2d.npz")
    with pytest.raises(ComponentError, match="no published environment is named 'Hopper'"):
        published_queries("Hopper")


def test_queries_are_taken_as_they_are():
    queries = queries_at("maze-umaze")
    assert queries_at(queries) is queries


@pytest.mark.parametrize("given", [None, 5, ["maze-umaze"]])
def test_what_stands_for_no_queries_is_told_what_does(given):
    with pytest.raises(ComponentError, match="need a published name such as 'maze-umaze', the pat"):
        queries_at(given)


def test_saved_queries_are_found_by_their_path(tmp_path):
    queries_at("maze-umaze").take(range(20)).save(tmp_path / "few.npz")
    assert len(queries_at(tmp_path / "few.npz")) == 20


@pytest.mark.parametrize(
    ("name", "upright", "fallen"),
    [
        ("hopper", [1.25, 0.1], [[0.69, 0.0], [1.25, 0.21], [1.25, -0.21], [np.nan, 0]]),
        ("walker2d", [1.25, 0.9], [[0.79, 0.0], [2.01, 0.0], [1.25, 1.01], [1.25, np.nan]]),
    ],
)
def test_bodies_fall_where_the_environment_says(name, upright, fallen):
    world = environment(name)
    rest = np.zeros(world.observation_size - 2)
    assert not world.terminated(np.array([*upright, *rest]))
    for one in fallen:
        assert world.terminated(np.array([*one, *rest]))
    assert world.terminated(np.zeros((2, 3, world.observation_size))).shape == (2, 3)


def test_what_never_ends_never_terminates():
    for name in ("halfcheetah", "maze-open"):
        size = environment(name).observation_size
        assert not environment(name).terminated(np.full((4, size), 1e6)).any()
