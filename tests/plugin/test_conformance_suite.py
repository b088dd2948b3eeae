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


def test_a_rollout_off_by_rounding_is_told_by_step_row_and_size(pytester):
    pytester.makeconftest(
        """
        import numpy as np
        import pytest
        from pytest_cpg.tasks.grids import two_room

        class Rounding:
            def __init__(self):
                self._task = two_room()

            def __getattr__(self, name):
                return getattr(self._task, name)

            def rollout(self, states, actions):
                imagined = self._task.rollout(states, actions)
                imagined[2, 1, 0] = np.nextafter(imagined[2, 1, 0], 99)
                return imagined

        @pytest.fixture
        def conformance_task():
            return Rounding()
        """
    )
    result = pytester.runpytest("--pyargs", "pytest_cpg.conformance.test_tasks")
    result.stdout.fnmatch_lines(
        [
            "*AssertionError: observe after step 2, in a rollout and by steps, row 2, column 0: * "
            "and *, different bits; 1 of 12 numbers differ, by *e-16 at most. Let rollout do the "
            "same operations as step*",
        ]
    )
    assert "assert b'" not in result.stdout.str()


def test_a_class_without_the_members_is_told_what_it_lacks(pytester):
    pytester.makeconftest(
        """
        import pytest

        class Bare:
            budget = 3

            def reset(self, seeds):
                return seeds

        @pytest.fixture
        def conformance_task():
            return Bare()

        @pytest.fixture
        def conformance_planner():
            return Bare()
        """
    )
    result = pytester.runpytest("--pyargs", "pytest_cpg.conformance", "-k", "is_a_task or lie_in")
    result.stdout.fnmatch_lines(
        [
            "*planner 'conformance_planner' is <*Bare object*>, which lacks horizon, name, plan. *",
            "*task 'conformance_task' is <*Bare object*>, which lacks actions, control_period, "
            "name, observation_size, observe, *. Give it every member of pytest_cpg.Task.",
        ]
    )


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
