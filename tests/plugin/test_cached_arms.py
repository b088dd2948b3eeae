"""Arms that do not change with the model are kept from session to session."""

import pytest
from sessions import flat, untimed

GATE = """
import pytest


@pytest.mark.cpg(task="track", model={model!r}, max_verdict="MODEL BOTTLENECK"{more})
def test_gate(cpg):
    print("reuse:", *cpg.reuse, sep="\\n")
"""


@pytest.fixture
def project(repository):
    """The miniature, whose task says by its key that it has not changed."""
    repository.change(
        "conftest.py", '    versions = {"track"', '    cache_key = "1"\n    versions = {"track"'
    )

    def gate(model="mirrored", more=""):
        repository.makepyfile(test_gates=GATE.format(model=model, more=more))

    gate()
    repository.gate = gate
    return repository


def measured(project, *options):
    project.runpytest("--cpg-json=report.json", *options)
    (gate,) = project.json("report.json")["gates"]
    (comparison,) = gate["comparisons"]
    return untimed(comparison["result"])


@pytest.mark.parametrize(
    ("more", "workers"), [("", ("-n", "1")), (', stop="sequential", max_episodes=60', ())]
)
@pytest.mark.usefixtures("own_hashes")
def test_a_result_is_the_same_however_much_of_it_was_stored(project, more, workers):
    project.gate("right", more)
    anew = measured(project, "--cpg-no-cache")
    assert measured(project, *workers) == anew
    assert measured(project, *workers) == anew
    text = project.runpytest("-s").stdout.str()
    assert " episodes stored (key " in text
    assert "two checked and equal" in text


def test_another_number_of_episodes_takes_what_is_there(project):
    project.runpytest("--cpg-episodes=12")
    more = measured(project, "--cpg-episodes=30")
    told = project.runpytest("-sv", "--cpg-episodes=30")
    assert "oracle: 30 episodes stored" in told.stdout.str()
    told.stdout.fnmatch_lines(
        [
            "  cpg: oracle   30 of 30 starts solved, ?.? s (from the cache, 2 checked)",
            "  cpg: learned  * of 30 starts solved, ?.? s",
        ]
    )
    fewer = measured(project, "--cpg-episodes=20")
    assert more == measured(project, "--cpg-episodes=30", "--cpg-no-cache")
    assert fewer == measured(project, "--cpg-episodes=20", "--cpg-no-cache")


def test_what_is_stored_and_cannot_be_repeated_is_discarded_and_said(project):
    project.runpytest()
    # The rewards are others, and the key still says that nothing has changed.
    project.change("conftest.py", ".astype(float)", ".astype(float) + 0.25")
    result = project.runpytest()
    said = flat(result)
    assert "the stored oracle arm could not be repeated: returns of episode" in said
    assert "it was discarded and run anew" in said
    assert "could not be repeated" not in project.runpytest().stdout.str()


def test_a_task_without_a_key_is_not_stored_and_says_why(repository):
    repository.makepyfile(test_gates=GATE.format(model="mirrored", more=""))
    for _ in range(2):
        result = repository.runpytest("-s")
        result.stdout.fnmatch_lines(["not stored: task 'track' has no cache_key"])


def test_nothing_is_stored_where_pytest_keeps_nothing(project):
    for options in (("--cpg-no-cache",), ("-p", "no:cacheprovider"), ("--cpg-quick",)):
        project.runpytest(*options)
        assert not list(project.path.glob(".pytest_cache/d/cpg-arms/*"))
    project.runpytest()
    assert len(list(project.path.glob(".pytest_cache/d/cpg-arms/*"))) == 3


def test_a_gate_that_was_broken_off_keeps_the_arm_that_was_finished(project):
    begins = "def mirrored(observations, actions):\n"
    stops = "    calls.append(1)\n    if len(calls) > 40:\n        raise KeyboardInterrupt\n"
    project.change("conftest.py", begins, f"calls = []\n\n\n{begins}{stops}")
    assert project.runpytest_subprocess().ret == pytest.ExitCode.INTERRUPTED
    project.change("conftest.py", stops, "")
    assert "oracle: 20 episodes stored" in project.runpytest("-s").stdout.str()


def test_what_one_stored_arm_shows_to_have_changed_is_run_anew_in_all(project):
    project.runpytest()
    # A step to the right succeeds, which the oracle hardly takes; the key says nothing of it.
    project.change("conftest.py", "< 0.3)", "< 0.3 + 9 * (actions[..., 0] == 1.0))")
    found = measured(project)
    assert any("discarded and run anew" in note for note in found["notes"])
    anew = measured(project, "--cpg-no-cache")
    assert {**found, "notes": anew["notes"]} == anew


def test_a_damaged_file_is_run_anew_and_named_and_fails_no_strict_session(project):
    text = GATE.format(model="right", more=", episodes=100, confidence=0.9")
    project.makepyfile(test_gates=text.replace(', max_verdict="MODEL BOTTLENECK"', ""))
    project.runpytest()
    for path in project.path.glob(".pytest_cache/d/cpg-arms/*"):
        path.write_bytes(path.read_bytes()[:-9])
    result = project.runpytest("--cpg-strict")
    assert "is not as it was written; its arm is run again" in flat(result)
    assert result.ret == 0
