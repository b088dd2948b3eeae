"""Users run their own components through the suite that ours pass."""


def test_components_given_by_fixtures_are_tried_and_the_others_skipped(pytester):
    pytester.makeconftest(
        """
        import pytest
        from pytest_cpg.tasks.grids import two_room

        class Leaky:
            def __init__(self):
                self._task = two_room()
                self.seen = 0

            def __getattr__(self, name):
                return getattr(self._task, name)

            def observe(self, states):
                self.seen += 1
                return self._task.observe(states) + self.seen

        @pytest.fixture
        def conformance_task():
            return Leaky()

        @pytest.fixture
        def conformance_model():
            return lambda observations, actions: observations + actions
        """
    )
    result = pytester.runpytest("--pyargs", "pytest_cpg.conformance", "-rsf")
    outcomes = result.parseoutcomes()
    assert outcomes["skipped"] == 14
    result.stdout.fnmatch_lines(
        ["*no planner to try: write a fixture conformance_planner into conftest.py*"]
    )
    failed = [line for line in result.outlines if line.startswith("FAILED")]
    assert any("test_the_same_arguments_give_the_same_bits" in line for line in failed)
    assert not any("test_a_start_depends_on_its_seed_alone" in line for line in failed)


def test_a_planner_of_a_user_is_tried_in_a_module_of_their_own(pytester):
    pytester.makepyfile(
        """
        import pytest
        from pytest_cpg.conformance.test_planners import *
        from pytest_cpg.planners import CEM

        @pytest.fixture
        def conformance_planner():
            return CEM(samples=4, elites=2, iterations=1, horizon=5, warm_start=True)
        """
    )
    pytester.runpytest().assert_outcomes(passed=14)


def test_a_misspelt_fixture_is_no_success(pytester):
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def conformance_modell():
            return lambda observations, actions: observations + actions
        """
    )
    pytester.makepyfile(test_own="from pytest_cpg.conformance.test_tasks import *")
    result = pytester.runpytest("--pyargs", "pytest_cpg.conformance", "test_own.py")
    result.assert_outcomes(failed=1, errors=10, skipped=27)
    result.stdout.fnmatch_lines(
        [
            "no task to try: write a fixture conformance_task into conftest.py*",
            "no component was tried: none of the fixtures conformance_task, conformance_planner*",
        ]
    )


def test_a_model_without_a_task_is_not_passed_over(pytester):
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture
        def conformance_model():
            return lambda observations, actions: observations + actions
        """
    )
    result = pytester.runpytest("--pyargs", "pytest_cpg.conformance")
    result.assert_outcomes(passed=1, errors=3, skipped=24)
    result.stdout.fnmatch_lines(["*a model is tried on a task, and there is no task to try: *"])
