"""A kind of gate from a conftest: whatever the plugin does for one kind, it does for another."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from kinds_page import BY_CRITERIA, WRITTEN_OUT
from sessions import flat

GATE = """
import pytest


@pytest.fixture
def learned_dynamics():
    return lambda observations, actions: observations + actions


@pytest.mark.one_step_error(task="two-room", limit={limit}, transitions=100{more})
def test_step(one_step_error):
    pass
"""
NAME = "test_custom.py::test_step"
SAMPLED = """
import numpy as np
from pytest_cpg.gates.at_most import AtMost
from pytest_cpg.gates.arguments import Argument, whole
from pytest_cpg.stats.sampled import Percentile
from pytest_cpg.world_models.transitions import collect_transitions


def sample(asked, model, run):
    count, seed = asked.values["transitions"], asked.values["seed"]
    steps = collect_transitions(run.task(asked.task), count=count, seed=seed)
    errors = np.abs(model(steps.observations, steps.actions) - steps.next_observations).mean(axis=1)
    means = errors[np.random.default_rng(seed).integers(count, size=(2000, count))].mean(axis=1)
    return Percentile(estimate=float(errors.mean()), resamples=means), f"{count} steps"


ONE_STEP_ERROR = AtMost(
    marker="one_step_error",
    help="gate this test on the mean error of one step.",
    number="one-step error",
    sample=sample,
    own=(Argument("transitions", whole(10), 500),),
)


def pytest_cpg_gates():
    return {ONE_STEP_ERROR.marker: ONE_STEP_ERROR}
"""
OF_WRITTEN_OUT = GATE.replace("one_step_error", "missed_steps").replace(
    "limit={limit}, transitions=100{more}", "share={share}"
)


@pytest.fixture
def custom(repository):
    """Runs one gate of the kind in the conftest of examples/custom_gate."""
    repository.copy_example("custom_gate/conftest.py")
    repository.makeini("[pytest]\naddopts = -p no:hypothesispytest --strict-markers\n")

    def run(*arguments, limit=0.02, more=""):
        repository.makepyfile(test_custom=GATE.format(limit=limit, more=more))
        return repository.runpytest(*arguments)

    run.pytester = repository
    return run


@pytest.fixture
def sampled(custom):
    """Runs one gate of the same kind whose number is no mean of errors."""
    custom.pytester.makeconftest(SAMPLED)
    return custom


@pytest.fixture
def written_out(repository):
    """Runs one gate of the kind that stands on the page about kinds."""
    repository.makeini("[pytest]\naddopts = -p no:hypothesispytest\n")

    def run(*arguments, kind=WRITTEN_OUT, share=0.1):
        repository.makeconftest(kind)
        repository.makepyfile(test_custom=OF_WRITTEN_OUT.format(share=share))
        return repository.runpytest(*arguments)

    return run


BARE = """
import numpy
import pytest

{marks}
def test_bare({fixture}): pass
"""
NAN = """

@pytest.fixture
def learned_dynamics(): return lambda seen, actions: numpy.nan * seen
"""
MARK = '@pytest.mark.one_step_error(task="maze", limit=1)'
# What is said of a module, where everything but its mistake is right.
MISTAKEN = {
    "the marker has no argument 'limt'. Did you mean 'limit'?": {"more": ", limt=1"},
    "no verdict named 'UNCLER'. Did you mean 'UNCLEAR'?": {"more": ', max_verdict="UNCLER"'},
    "confidence: need a number between 0 and 1": {"more": ", confidence=2"},
    "no world model named 'nothing'": {"more": ', model="nothing"'},
    "this test is marked cpg and one_step_error, and a test is one gate": {
        "marks": f'@pytest.mark.cpg(task="maze")\n{MARK}'
    },
    "the fixture cpg measures for tests marked cpg, and this one is marked one_step": {
        "marks": MARK.replace("limit=1", 'limit=1, model="oracle"'),
        "fixture": "cpg",
    },
    "a gate marked one_step_error makes one measurement. Take the fixt": {
        "fixture": "benchmark_runner"
    },
    'or name a model: @pytest.mark.one_step_error(..., model="mlp")': {},
    "@pytest.mark.one_step_error(task=..., limit=...) above": {"marks": ""},
    "the one-step error of the model is nan. Clip its predictions (clip_bounds), or": {
        "after": NAN
    },
}


def test_each_mistake_is_told_with_what_to_write_instead(custom):
    def module(marks=MARK, fixture="one_step_error", after="", more=None):
        if more is not None:
            return GATE.format(limit=0.02, more=more)
        return BARE.format(marks=marks, fixture=fixture) + after

    modules = {f"test_{at}": module(**one) for at, one in enumerate(MISTAKEN.values())}
    custom.pytester.makepyfile(**modules)
    result = custom.pytester.runpytest("--continue-on-collection-errors")
    result.assert_outcomes(errors=len(MISTAKEN))
    for said in MISTAKEN:
        assert said in flat(result)


def test_it_stands_among_the_markers(custom):
    custom("--markers").stdout.fnmatch_lines(
        ["@pytest.mark.one_step_error(task, limit, seed, confidence, transitions=500, *): gate *"]
    )


@pytest.mark.parametrize("how", [(), ("-n", "2"), ("--cpg-workers=2",)], ids=str)
@pytest.mark.usefixtures("own_hashes")
def test_it_runs_and_fails_wherever_it_runs(custom, how):
    result = custom(*how)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "INACCURATE: one-step error * 100 questions.",
            "*cpg: 1 gate failed*",
            " * error * limit knows nothing",
            " INACCURATE (1)",
            " F test_step * 0.02*",
        ]
    )


def test_it_passes_where_its_marker_accepts_what_it_found(custom):
    custom(limit=0.2).assert_outcomes(passed=1)
    custom(more=', max_verdict="bad"').assert_outcomes(passed=1)
    custom(more=', max_verdict="inaccurate"').assert_outcomes(passed=1)
    custom(more=', max_verdict="blind"').assert_outcomes(failed=1)


def test_every_report_shows_it(custom, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = custom("--cpg-json=o.json", "--cpg-md=o.md", "--cpg-html=o.html", "--junit-xml=o.xml")
    folder = custom.pytester.path
    (gate,) = json.loads((folder / "o.json").read_text())["gates"]
    (comparison,) = gate["comparisons"]
    assert (comparison["kind"], comparison["label"]) == ("one_step_error", "INACCURATE")
    assert comparison["result"]["limit"] == 0.02
    properties = ElementTree.parse(folder / "o.xml").iter("property")  # noqa: S314  # our own
    assert {"cpg_verdict", "cpg_one_step_error"} <= {one.get("name") for one in properties}
    for file in ("o.md", "o.html"):
        assert "INACCURATE" in (folder / file).read_text()
    result.stdout.fnmatch_lines(
        ["::error file=test_custom.py,line=*,title=INACCURATE%3A test_step::One-step error *"]
    )


def test_it_is_planned(custom):
    custom("--cpg-plan").stdout.fnmatch_lines(
        [" gate * limit transitions *time", " test_step * 0.02 * 100*"]
    )


def test_it_is_required_in_ci(custom, monkeypatch):
    monkeypatch.setenv("CI", "true")
    result = custom("-k", "nothing", limit=0.2)
    assert result.ret != 0
    result.stdout.fnmatch_lines([f"*1 of 1 gates was not selected, and all are*{NAME}*"])


def test_it_is_accepted_and_compared(custom):
    custom("--cpg-update-baseline", limit=0.2).stdout.fnmatch_lines(["*accepted*"])
    text = custom.pytester.text(".cpg/baseline.json")
    kept = json.loads(text)[1][NAME]
    assert kept["kind"] == "one_step_error"
    custom("--cpg-drift=fail", limit=0.2).assert_outcomes(passed=1)
    # As if a better model had been accepted.
    error = {**kept["values"]["found"], **dict.fromkeys(("estimate", "low", "high"), 0.01)}
    better = {**kept, "values": {**kept["values"], "found": error, "errors": [0.01] * 100}}
    file = custom.pytester.path / ".cpg" / "baseline.json"
    file.write_text(text.replace(json.dumps(kept, sort_keys=True), json.dumps(better)))
    result = custom("--cpg-drift=fail", limit=0.2)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["REGRESSED: one-step error *"])


def test_it_is_compared_under_the_conditions_of_its_marker_and_whatever_the_limit(custom):
    custom("--cpg-update-baseline", limit=0.2)
    custom("--cpg-drift=fail", "--cpg-confidence=0.9", limit=0.25).assert_outcomes(passed=1)
    result = custom("--cpg-drift=fail", "--cpg-seed=1", limit=0.2)
    result.assert_outcomes(failed=1)
    assert "; seed 0 -> 1" in flat(result)


def test_an_accepted_number_that_was_written_by_hand_is_named_with_its_file(custom):
    custom("--cpg-update-baseline", limit=0.2)
    file = custom.pytester.path / ".cpg" / "baseline.json"
    file.write_text(file.read_text().replace('"found": {', '"fund": {'))
    result = custom("--cpg-drift=fail", limit=0.2)
    assert result.ret not in (0, 5)
    assert "gate 'test_custom.py::test_step': it has no 'found'. It was left as" in flat(result)


MODELS = """
import numpy as np
import pytest


class Latent:
    def encode(self, observations):
        return 2 * observations

    def rollout(self, latents, actions):
        return latents[:, None] + 2 * np.cumsum(actions, axis=1)

    def decode(self, latents):
        return latents / 2


@pytest.fixture
def learned_dynamics():
    return {model}


@pytest.mark.one_step_error(task="two-room", limit={limit})
def test_step(one_step_error):
    assert len(one_step_error.errors) == {count}
"""


def of_model(custom, *options, model="Latent()", limit=0.2, count=500, head=("", ""), run=None):
    custom.pytester.makepyfile(
        test_custom=MODELS.replace("{model}", model)
        .replace("{limit}", str(limit))
        .replace("{count}", str(count))
        .replace(*head)
    )
    return (run or custom.pytester.runpytest)(*options)


def test_any_model_is_asked(custom):
    for model in ("Latent()", "lambda observations, actions: observations + actions"):
        result = of_model(custom, "-v", model=model)
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines([" . test_step * 0.0850 * 0.2 *"])


def test_a_limit_that_a_model_keeps_which_knows_nothing_is_blind(custom):
    result = of_model(custom, limit=0.6)
    result.assert_outcomes(failed=1)
    assert "BLIND: a model that knows nothing would have passed: its one-step error is 0.4" in flat(
        result
    )


def test_a_smoke_test_asks_a_few_questions_and_judges_nothing(custom):
    result = of_model(custom, "--cpg-quick", limit=0.001, count=8)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*1 of 1 gates ran*"])


def test_the_true_dynamics_are_a_check_of_the_gate_itself(custom):
    result = of_model(custom, "--cpg-model=oracle")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*A/A check*"])


def test_changes_are_found_question_by_question(custom):
    of_model(custom, "--cpg-update-baseline")
    of_model(custom, "--cpg-drift=fail").assert_outcomes(passed=1)
    # A little worse in every question, which intervals that overlap would not show.
    worse = "lambda observations, actions: observations + 0.99 * actions"
    result = of_model(custom, "--cpg-drift=fail", model=worse)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["Since it was accepted: one-step error 0.0850 -> 0.0883: REGRESSED"]
    )


def test_an_interrupted_one_goes_on_and_says_so(custom):
    head = "    def decode(self, latents):\n"
    begun = "        Latent.asked = getattr(Latent, 'asked', 0) + 1\n"
    stops = f"{head}{begun}        if Latent.asked > 5: raise KeyboardInterrupt\n"
    result = of_model(custom, head=(head, stops), run=custom.pytester.runpytest_subprocess)
    result.stdout.fnmatch_lines(["*--cpg-resume*"])
    result = of_model(custom, "--cpg-resume", "--cpg-json=o.json")
    result.assert_outcomes(passed=1)


@pytest.fixture
def by_criteria(repository):
    """Runs gates of the kind by criteria that stands on the page about kinds."""
    repository.makeini("[pytest]\naddopts = -p no:hypothesispytest\n")
    repository.makeconftest(BY_CRITERIA)

    def run(*options, model="observations + actions", **asked):
        says = "".join(f", {name}={value!r}" for name, value in asked.items())
        repository.makepyfile(
            test_told=(
                "import pytest\n\n@pytest.fixture\ndef learned_dynamics():\n"
                f"    return lambda observations, actions: {model}\n\n"
                f"@pytest.mark.retrieval(task='two-room'{says})\ndef test_told(retrieval): ...\n"
            )
        )
        return repository.runpytest(*options)

    return run


@pytest.mark.parametrize(
    ("asked", "label"),
    [
        ({}, "WITHIN LIMITS"),
        ({"error": 0.17}, "UNCLEAR"),
        ({"error": 0.01}, "BEYOND LIMITS"),
        ({"hits": 0.1}, "BLIND"),
    ],
)
def test_a_kind_by_criteria_of_fewer_than_90_lines_is_whole(by_criteria, asked, label):
    assert len(BY_CRITERIA.splitlines()) <= 90
    result = by_criteria("--cpg-json=o.json", "--cpg-html=o.html", "--cpg-md=o.md", **asked)
    is_good = label in ("WITHIN LIMITS", "UNCLEAR")
    assert result.ret == (0 if is_good else 1)
    assert label in flat(result) or label == "WITHIN LIMITS"
    for option in ("--cpg-plan", "--cpg-quick", "--cpg-model=oracle", "--cpg-workers=2"):
        assert by_criteria(option, **asked).ret == (1 if not is_good and "2" in option else 0)


def test_a_kind_by_criteria_is_accepted_and_compared_number_by_number(by_criteria):
    by_criteria("--cpg-update-baseline")
    by_criteria("--cpg-drift=fail").assert_outcomes(passed=1)
    result = by_criteria("--cpg-drift=fail", model="observations + 0.9 * actions")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["Since it was accepted: H@1 1 -> *: REGRESSED"])
    result = by_criteria("--cpg-drift=fail", hits=0.8)
    result.assert_outcomes(failed=1)
    assert "; hits 0.9 -> 0.8" in flat(result)


def changed(custom, was, becomes):
    conftest = custom.pytester.path / "conftest.py"
    text = conftest.read_text(encoding="utf-8")
    assert was in text
    conftest.write_text(text.replace(was, becomes), encoding="utf-8")


@pytest.mark.parametrize("limit", [0.02, 0.2])
def test_a_number_may_be_one_of_numpy(sampled, limit):
    changed(sampled, "float(errors.mean())", "errors.mean()")
    sampled(limit=limit).assert_outcomes(passed=limit == 0.2, failed=limit == 0.02)


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        (', f"{count} steps"', "", "sample() returned Percentile(estimate="),
        ('f"{count} steps"', "count", "has to return the number as sampled, and on how much: Perc"),
        (
            "Percentile(estimate=float(errors.mean()), resamples=means)",
            "0.2",
            "returned (0.2, '100",
        ),
        ("means)", "means * np.nan)", "Give finite bounds in order, of that level, and a p-value"),
        ("float(errors.mean())", '"small"', "which cannot be read (TypeError: must be real number"),
    ],
    ids=["no-size", "size-is-a-number", "number-is-not-sampled", "no-bounds", "text"],
)
def test_a_sample_that_is_none_is_told_what_to_return(sampled, was, becomes, said):
    changed(sampled, was, becomes)
    result = sampled()
    result.assert_outcomes(errors=1)
    assert said in flat(result)


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        ("Severity.BAD", "Severity.BLIND", "AtMost: labels lacks BAD. Write a label for each"),
        ('number="one-step error"', "number=7", "AtMost: number is 7. Write its name."),
        ("    error=error,", "", "AtMost: write sample=, or questions= and error=."),
        *(
            (f"    {member}=", f"    # {member}=", f"required keyword-only argument: '{member}'")
            for member in ("marker", "help", "number")
        ),
    ],
    ids=["labels", "number", "nothing-to-measure", "no-marker", "no-help", "no-number"],
)
def test_what_a_kind_says_wrongly_of_itself_is_told_with_its_line(custom, was, becomes, said):
    changed(custom, was, becomes)
    result = custom()
    assert result.ret != 0
    assert said in flat(result)
    assert "ONE_STEP_ERROR = AtMost(" in flat(result)


def test_it_is_one_of_holms_family(custom):
    custom.pytester.makepyfile(
        test_gap=(
            "import pytest\n"
            '@pytest.mark.cpg(task="maze", planner="preset", model="oracle")\n'
            "def test_gap(cpg): pass\n"
        )
    )
    result = custom(
        "--cpg-correction=holm",
        "-o",
        "cpg_family_size=1",
        "test_custom.py",
        more=', max_verdict="bad"',
    )
    result.assert_outcomes(passed=1)
    result = custom("--cpg-correction=holm", "-o", "cpg_family_size=2", "test_custom.py")
    result.stdout.fnmatch_lines(["*one of the 2 gates of the project would still*"])


@pytest.mark.parametrize(
    ("was", "becomes", "said"),
    [
        (
            "missed=missed, **own",
            "missed=missed, share=float('nan'), seed=0",
            "*share is nan, and has to*",
        ),
        ("    share: float\n", "    share: list\n", "*share is a list, and says not*"),
        ("    share: float\n", '    share: "Float"\n', "*outside of `if TYPE_CHECKING:`*"),
        ("Ruling(label=label,", "Ruling(label=label[:-1],", "you mean 'WRONG'?"),
        ("severity=self.labels[label]", "severity=Severity.GOOD", "*and BAD in its labels.*"),
    ],
    ids=["nan", "bare-list", "no-type", "no-label", "contradiction"],
)
def test_a_mistake_in_a_kind_fails_its_test_and_not_the_session(written_out, was, becomes, said):
    assert was in WRITTEN_OUT
    result = written_out("--cpg-json=o.json", kind=WRITTEN_OUT.replace(was, becomes))
    assert result.ret == 1
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])
    assert "INTERNALERROR" not in result.stdout.str()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--cpg-plan"], "says nothing before it is run"),
        (["--cpg-update-baseline"], "has nothing to keep in a baseline"),
        (["--cpg-correction=holm", "-o", "cpg_family_size=1"], "has no p-value"),
        (["--cpg-drift=fail"], "keeps nothing to compare with"),
    ],
)
def test_what_a_kind_leaves_out_is_refused_by_name(written_out, options, why):
    result = written_out(*options, share=0.9)
    assert result.ret not in (0, 5)
    said = flat(result)
    assert f"a gate marked missed_steps {why}" in said
    assert "Traceback" not in said


_WITH_OPTION = f"""{WRITTEN_OUT}

from pytest_cpg.gates.options import Option

MissedSteps.options = (Option("share", between(0, 1), 0.1, "SHARE", "of wrong steps"),)
MissedSteps.arguments = (
    *(one for one in MissedSteps.arguments if one.name != "share"), of_option("share")
)
"""


def test_a_kind_brings_options_of_its_own(written_out, monkeypatch):
    def run(*options):
        return written_out(*options, kind=_WITH_OPTION)

    run("--help").stdout.fnmatch_lines(["*--cpg-share=SHARE*", "*cpg_share (float):*"])
    run().assert_outcomes(failed=1)
    run("--cpg-share=0.9").assert_outcomes(passed=1)
    run("--cpg-share=0.9", "-n1").assert_outcomes(passed=1)
    run("--cpg-share=6").stderr.fnmatch_lines(
        ["*between 0 and 1 (both excluded), got '6'. Write 0.06"]
    )
    monkeypatch.setenv("PYTEST_CPG_SHARE", "0.9")
    run().assert_outcomes(passed=1)


OTHER_OPTION = _WITH_OPTION.replace(
    'Option("share"', 'Option("seed", between(0, 9), 1.0, "N", ""), Option("share"'
)
HALF = "ERROR: the kind of gate 'missed_steps' "


@pytest.mark.parametrize(
    ("conftest", "said"),
    [
        ("def pytest_cpg_gates(): return {'a': object()}", "lacks marker, fixture, help, argument"),
        (
            "class Mine: ...\ndef pytest_cpg_gates(): return {'mine': Mine}",
            "is the class Mine. Contribute an object of it: Mine().",
        ),
        (OTHER_OPTION, "has the option --cpg-seed, and there is one of that name."),
        (
            f"{WRITTEN_OUT}\n\nMissedSteps.entry = print\n",
            f"{HALF}has entry and lacks compare. Give it all of these, or leave entry out",
        ),
        (f"{WRITTEN_OUT}\n\nMissedSteps.replay = print\n", "has replay and lacks lost, read_lost."),
        (f"{WRITTEN_OUT}\n\nMissedSteps.cost = print\n", "cost and lacks for"),
    ],
    ids=["none", "class", "option", "entry", "replay", "cost"],
)
def test_a_kind_that_is_none_or_half_of_one_is_refused_before_anything_is_run(
    repository, conftest, said
):
    repository.makeconftest(conftest)
    result = repository.runpytest()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in flat(result)


def test_a_kind_that_comes_too_late_for_its_options_is_told_where_to_stand(repository):
    below = repository.mkdir("below")
    (below / "conftest.py").write_text(_WITH_OPTION)
    (below / "test_below.py").write_text("def test_below(): pass")
    result = repository.runpytest()
    assert result.ret != 0
    assert "was contributed when the command line had been read" in flat(result)


def test_a_kind_may_have_no_hash(written_out):
    kind = WRITTEN_OUT.replace(
        "class MissedSteps:", "@dataclass\nclass MissedSteps:\n    own: dict = None"
    )
    result = written_out(kind=kind, share=0.9)
    result.assert_outcomes(passed=1)
    assert result.ret == 0


def test_an_option_that_means_nothing_to_its_kind_is_named(custom):
    result = custom("--cpg-episodes=30", "--cpg-seed=1", "--cpg-timeout=90", limit=0.2)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["*--cpg-episodes was given, and no gate marked one_step_error has such an option*"]
    )
    assert "--cpg-seed was" not in result.stdout.str()
    assert "--cpg-timeout was" not in result.stdout.str()
