"""Models that are named for a session, or by a marker."""

GATE = """
import pytest

@pytest.mark.cpg(task="track", episodes=10{more})
def test_gate(cpg):
    assert cpg.learned.success_rate == {rate}
"""


def test_a_factory_named_for_the_session_is_judged_in_place_of_fixture_and_marker(repository):
    repository.makepyfile(
        models="""
        def make(task):
            return lambda observations, actions: observations + actions if task.budget else None
        """,
        test_marked=GATE.format(more=', model="mirrored"', rate=1.0),
        test_own="""
        import pytest
        from conftest import mirrored

        @pytest.fixture
        def learned_dynamics():
            return mirrored
        """
        + GATE.format(more="", rate=1.0).replace("\n", "\n        "),
    )
    result = repository.runpytest("--cpg-model=models:make")
    result.assert_outcomes(passed=2)
    for text, said in (
        ("models:mak", "'models' has no 'mak'. Did you mean 'make'?"),
        ("runs/none.pt", "there is no model file 'runs/none.pt'"),
        ("mirored", "Did you mean 'mirrored'?"),
    ):
        wrong = repository.runpytest(f"--cpg-model={text}", "test_marked.py")
        wrong.assert_outcomes(errors=1)
        assert said in " ".join(wrong.stdout.str().split())


def test_a_session_whose_model_a_test_does_not_compare_fails(repository):
    repository.makepyfile(
        """
        import pytest
        from conftest import right

        @pytest.mark.cpg(task="track", episodes=10)
        def test_gate(benchmark_runner):
            benchmark_runner.compare(learned=right)

        @pytest.mark.cpg(task="track", episodes=10)
        def test_sweep(benchmark_runner):
            benchmark_runner.sweep(learned=right, horizons=[3])

        @pytest.mark.cpg(task="track", episodes=10)
        def test_ranking(benchmark_runner):
            benchmark_runner.rank({"right": right, "again": right})
        """
    )
    result = repository.runpytest("--cpg-model=mirrored")
    result.assert_outcomes(failed=2)
    assert result.parseoutcomes()["measured"] == 1
    said = "--cpg-model names model='mirrored', and this test judged*"
    result.stdout.fnmatch_lines([said, said])


def test_a_model_named_in_the_marker_is_judged_in_place_of_a_fixture_for_other_gates(repository):
    repository.makepyfile(
        """
        import pytest
        from conftest import mirrored

        @pytest.fixture(scope="session")
        def learned_dynamics():
            return mirrored

        @pytest.mark.cpg(task="track")
        def test_model(cpg): ...

        @pytest.mark.cpg(task="track", model="oracle")
        def test_aa(cpg): ...
        """
    )
    result = repository.runpytest()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [" A/A (1): *", " . test_aa * 0.00 *", " MODEL BOTTLENECK (1): *", " F test_model *"]
    )
