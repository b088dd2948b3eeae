"""What a session writes: JSON, Markdown, and what GitHub Actions reads."""

import json
import re
import shutil
import subprocess
from copy import deepcopy
from datetime import datetime
from importlib import import_module
from importlib.resources import files

import jsonschema
import pytest
from sessions import flat, untimed
from ways import both_ways, mostly_alone

from pytest_cpg import gates
from pytest_cpg.report.document import document, read

GATES = """
import pytest


@pytest.mark.parametrize("model", ["right", "a|b <i>"])
@pytest.mark.cpg(task="track")
def test_gate(benchmark_runner, model):
    import conftest
    benchmark_runner.compare(learned=conftest.right if model == "right" else conftest.mirrored)


@pytest.mark.cpg(task="track", model="diverging")
def test_broken(cpg): ...


@pytest.mark.cpg(task="track")
def test_rank(benchmark_runner):
    import conftest
    benchmark_runner.rank({"right": conftest.right, "mirrored": conftest.mirrored})


@pytest.mark.cpg(task="track", model="right")
def test_skipped():
    pytest.skip("no GPU")
"""


@pytest.fixture
def project(repository):
    repository.makepyfile(test_gates=GATES)
    return repository


@pytest.fixture(scope="module")
def earlier(recorded):
    """What the report of an earlier session of the project says."""
    session = recorded({"test_gates.py": GATES}, "--cpg-json=old.json", "-k", "right")
    return json.loads((session.folder / "old.json").read_text(encoding="utf-8"))


GREEN = """
import pytest

@pytest.mark.cpg(task="track", model="right")
def test_good(cpg): ...
"""


def validated(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads(
        files("pytest_cpg.report").joinpath("report.schema.json").read_text("utf-8")
    )
    jsonschema.Draft202012Validator(schema).validate(found)
    assert document(read(path, gates.GATES)) == found
    return found


@mostly_alone
def test_the_report_says_what_became_of_every_gate(project, workers):
    result = project.runpytest("--cpg-json=out/report.json", "-k", "not rank", *workers)
    result.stdout.fnmatch_lines([" written: out/report.json"])
    found = validated(project.path / "out" / "report.json")
    outcomes = {gate["id"].partition("::")[2]: gate["outcome"] for gate in found["gates"]}
    assert outcomes == {
        "test_gate[right]": "passed",
        "test_gate[a|b <i>]": "failed",
        "test_broken": "error",
        "test_skipped": "skipped",
    }
    assert found["deselected"] == ["test_gates.py::test_rank"]
    (comparison,) = found["gates"][0]["comparisons"]
    assert comparison["result"]["oracle"]["successes"] == [1] * 20


WAYS = [
    ("-p", "no:xdist"),
    ("-n", "2", "--dist", "loadscope"),
    ("-n", "2", "--dist", "worksteal"),
]


@pytest.mark.usefixtures("own_hashes")
def test_reports_differ_in_times_alone_however_many_processes_made_them(project):
    found, summaries = [], []
    for number, workers in enumerate([("-n", "0"), *WAYS]):
        result = project.runpytest(f"--cpg-json={number}.json", *workers)
        found.append(untimed(validated(project.path / f"{number}.json")))
        text = result.stdout.str().replace(f"{number}.json", "out.json")
        # From the table of gates to pytest's own summary.
        summary = re.search(r"^-+ cpg: .*?(?=^=)", text, re.DOTALL | re.MULTILINE)[0]
        # Each session is one more in the history.
        summaries.append(re.sub(r" +([▁-▇]+|trend)(?= |$)", "", summary, flags=re.MULTILINE))
    assert found[1:] == [found[0]] * len(WAYS)
    assert summaries[1:] == [summaries[0]] * len(WAYS)
    assert " . test_gate[right]" in summaries[0]


def test_an_interrupted_session_leaves_its_report(project):
    project.makepyfile(test_gates=GATES.replace('pytest.skip("no GPU")', "raise KeyboardInterrupt"))
    result = project.runpytest_inprocess("--cpg-json=report.json", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    found = validated(project.path / "report.json")
    assert [gate["outcome"] for gate in found["gates"]][-1] == "missing"
    assert len(found["gates"]) == 5


def counts_of(folder):
    """Return what the comment counts, below its heading."""
    return (folder / "comment.md").read_text(encoding="utf-8").splitlines()[3]


def heading_of(folder):
    return (folder / "comment.md").read_text(encoding="utf-8").splitlines()[1]


@mostly_alone
def test_a_session_whose_other_tests_fail_did_not_pass(repository, workers):
    repository.makepyfile(test_good=GREEN, test_unit="def test_unit(): assert False")
    result = repository.runpytest("--cpg-md=comment.md", "--cpg-json=report.json", *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert heading_of(repository.path) == "### ❌ pytest-cpg failed"
    assert counts_of(repository.path) == (
        "pytest-cpg: failed (1 gate, 1 passed, 1 other test failed, exit code 1)"
    )
    found = validated(repository.path / "report.json")
    assert 0 <= found["gates"][0]["seconds"] <= found["session"].pop("seconds")
    assert found["session"] == {
        "outcome": "failed",
        "exit_code": 1,
        "failed_tests": 1,
        "uncollected": {},
    }


@both_ways
def test_a_file_that_cannot_be_imported_is_named_and_no_session_with_one_passed(
    repository, workers
):
    pytest.importorskip("jinja2")
    repository.makepyfile(test_good=GREEN, test_broken="import nothing_here")
    options = ["--cpg-md=comment.md", "--cpg-json=report.json", "--cpg-html=page.html"]
    result = repository.runpytest("--continue-on-collection-errors", *options, *workers)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert counts_of(repository.path) == (
        "pytest-cpg: failed (1 gate, 1 passed, 1 not collected, exit code 1)"
    )
    assert validated(repository.path / "report.json")["session"]["uncollected"] == {
        "test_broken.py": "ModuleNotFoundError: No module named 'nothing_here'"
    }
    page = repository.text("page.html")
    assert "<title>Session failed (1 passes)</title>" in page


@both_ways
def test_a_refusal_while_collecting_is_whole_in_the_comment_and_a_line_in_the_summary(
    repository, monkeypatch, workers
):
    monkeypatch.setenv("CI", "true")
    repository.makepyfile(test_bad=GREEN.replace("model=", "modle="))
    result = repository.runpytest("--cpg-md=comment.md", "--cpg-json=report.json", *workers)
    report = validated(repository.path / "report.json")
    (said,) = report["session"]["uncollected"].values()
    # Workers that cannot collect are no interruption.
    ended = ("failed", 1) if workers else ("interrupted", 2)
    counts = f"pytest-cpg: {ended[0]} (0 gates, 1 not collected, exit code {ended[1]})"
    assert counts_of(repository.path) == counts
    assert said.endswith("the marker has no argument 'modle'. Did you mean 'model'?")
    summary = result.stdout.str().partition("= short test summary")[2].splitlines()
    assert f"ERROR test_bad.py - {said}" in summary
    assert "'model'?" not in summary


def test_an_internal_error_is_no_pass(repository):
    repository.makepyfile(test_good=GREEN)
    repository.makeconftest(
        repository.text("conftest.py")
        + "\ndef pytest_runtest_logfinish(): raise RuntimeError('not ours')\n"
    )
    result = repository.runpytest("--cpg-md=comment.md")
    assert result.ret == pytest.ExitCode.INTERNAL_ERROR
    expected = "pytest-cpg: internal error (1 gate, 1 passed, exit code 3)"
    assert counts_of(repository.path) == expected


@mostly_alone
def test_a_comment_for_a_pull_request_keeps_names_as_text(project, workers):
    project.runpytest("--cpg-md=comment.md", *workers)
    text = project.text("comment.md")
    assert text.startswith("<!-- pytest-cpg report -->\n### ❌ 2 of 5 gates fail: ")
    # As code in the table, and in HTML with entities.
    assert "`test_gate[a\\|b <i>]`" in text
    assert "a|b &lt;i&gt;" in text
    prose = re.sub("```sh.*?```", "", text, flags=re.DOTALL)
    assert "<i>" not in re.sub("`[^`\n]*`", "", prose)


def test_paths_of_the_ini_file_are_from_its_folder_and_typed_ones_from_where_one_is(
    project, monkeypatch
):
    project.add("tox.ini", "cpg_json = ini.json")
    (project.path / "below").mkdir()
    monkeypatch.chdir(project.path / "below")
    project.runpytest("--rootdir=..", "-c", "../tox.ini", "..", "--cpg-md=typed.md")
    assert (project.path / "ini.json").exists()
    assert (project.path / "below" / "typed.md").exists()


def histories_in(page):
    """Return the tables of earlier sessions in a page."""
    return re.findall("sessions in numbers.*?</table>", page, re.DOTALL)


@mostly_alone
def test_a_page_shows_every_gate_and_their_history(project, workers):
    pytest.importorskip("jinja2")
    project.runpytest("--cpg-json=old.json", "--cpg-seed=1")
    first = project.runpytest("--cpg-html=page.html", "--cpg-history=old.json", *workers)
    first.stdout.fnmatch_lines([" written: page.html"])
    text = project.text("page.html")
    assert "<i>" not in text
    assert "a|b &lt;i&gt;" in text
    from_report = histories_in(text)
    # The line that the first session has written holds what its report holds.
    project.write(".cpg/history", f"{project.text('.cpg/history').splitlines()[0]}\n")
    project.runpytest("--cpg-html=page.html", *workers)
    text = project.text("page.html")
    assert histories_in(text) == from_report
    assert len(from_report) == 2
    lines = project.text(".cpg/history").splitlines()
    assert [sorted(json.loads(line)["comparisons"]) for line in lines] == 2 * [
        ["test_gates.py::test_broken"]
        + [f"test_gates.py::test_gate[{model}]" for model in ("a|b <i>", "right")]
    ]


def test_a_session_that_judges_nothing_adds_nothing_to_the_history(project):
    for option in ("--cpg-quick", "--cpg-plan", "--collect-only", "--cpg-model=oracle"):
        project.runpytest(option, "-k", "right")
        assert not (project.path / ".cpg/history").exists(), option
    project.runpytest("--cpg-history=", "-k", "right")
    assert not (project.path / ".cpg/history").exists(), "it is turned off"


def test_a_history_is_kept_out_of_git(project):
    git = shutil.which("git")
    if git is None:
        pytest.skip("needs git")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-qm", "first"],
    ):
        subprocess.run([git, *command], cwd=project.path, check=True)
    project.runpytest("-k", "right", "-p", "no:cacheprovider")
    project.runpytest("-k", "right", "-p", "no:cacheprovider", "--cpg-update-baseline")
    status = [git, "status", "--porcelain", "--untracked-files=all"]
    left = subprocess.run(status, cwd=project.path, check=True, capture_output=True, text=True)
    untracked = [line for line in left.stdout.splitlines() if "__pycache__" not in line]
    assert untracked == ["?? .cpg/baseline.json"]
    head = [git, "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(head, cwd=project.path, check=True, capture_output=True, text=True)
    lines = project.text(".cpg/history").splitlines()
    said = [json.loads(line) for line in lines]
    assert [one["commit"] for one in said] == [commit.stdout.strip()] * 2
    assert all(datetime.fromisoformat(one["date"]).tzinfo for one in said)


def test_a_page_is_refused_without_its_extra(project, monkeypatch):
    monkeypatch.setattr("pytest_cpg.render.formats.find_spec", lambda name: None)
    missing = project.runpytest_inprocess("--cpg-html=page.html")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines(['*pip install "pytest-cpg[[]html[]]"'])


def test_a_history_damaged_in_a_result_is_named_and_costs_no_verdict(project, earlier):
    pytest.importorskip("jinja2")
    earlier = deepcopy(earlier)
    earlier["gates"][0]["comparisons"][0]["result"]["learned"]["level"] = 7
    project.write("old.json", json.dumps(earlier))
    result = project.runpytest("--cpg-html=p.html", "--cpg-history=old.json", "-k", "right")
    assert result.ret == pytest.ExitCode.OK
    said = flat(result)
    assert "cannot use a session of the history" in said
    assert "line 1: gates[0].comparisons[0].result" in said
    assert "written: p.html" in said


def test_a_history_of_immense_returns_can_be_drawn(project, earlier):
    pytest.importorskip("jinja2")
    report = deepcopy(earlier)
    report["gates"][0]["comparisons"][0]["result"]["interval"].update(low=-1e308, high=1e308)
    (project.path / "old.json").write_text(json.dumps(report), encoding="utf-8")
    result = project.runpytest("--cpg-html=p.html", "--cpg-history=old.json", "-k", "right")
    assert result.ret == pytest.ExitCode.OK
    drawn = re.findall(r' d="([^"]*)"', project.text("p.html"))
    assert drawn
    assert not re.search("nan|inf", " ".join(drawn))


def test_a_page_that_cannot_be_drawn_costs_no_other_file(project, monkeypatch):
    pytest.importorskip("jinja2")

    def fails(session, **more):
        raise RuntimeError("our own bug")

    # By its name in sys.modules, which runs in this process may have forgotten.
    monkeypatch.setattr(import_module("pytest_cpg.render.html_page"), "report", fails)
    result = project.runpytest_inprocess("--cpg-html=p.html", "--cpg-json=n.json", "-k", "right")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    said = flat(result)
    assert "p.html: RuntimeError: our own bug written: n.json" in said
    validated(project.path / "n.json")


def test_a_history_may_have_brackets_in_its_path(project, earlier):
    pytest.importorskip("jinja2")
    (project.path / "old [1].json").write_text(json.dumps(earlier), encoding="utf-8")
    result = project.runpytest("--cpg-html=p.html", "--cpg-history=old [1].json", "-k", "right")
    result.stdout.no_fnmatch_line("*nothing matches*")
    assert len(histories_in(project.text("p.html"))) == 1


def test_a_history_that_matches_nothing_is_said(project):
    result = project.runpytest("--cpg-history=typo/*.json", "-k", "right")
    result.stdout.fnmatch_lines([" nothing matches --cpg-history=typo/[*].json"])
    assert result.ret == pytest.ExitCode.OK, "the first session of a project has no history"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--cpg-json=out", "--cpg-md=./out"],
            "*--cpg-md and --cpg-json name the same file, *out. Give the report one of its own: "
            "--cpg-md=cpg.md",
        ),
        (
            ["--cpg-json=.cpg/baseline.json"],
            "*--cpg-json and --cpg-baseline name the same file, *own: --cpg-json=cpg.json",
        ),
        (
            ["--cpg-md", "test_gates.py"],
            "*--cpg-md=test_gates.py would put a report in the place of a Python file. Its path "
            "goes first: --cpg-md=cpg.md test_gates.py",
        ),
        (
            ["--cpg-html=tox.ini"],
            "*--cpg-html=tox.ini would put a report in the place of *tox.ini, which is no such "
            "report. Give the report a path of its own: --cpg-html=cpg.html",
        ),
    ],
)
def test_a_path_that_is_somebody_else_s_is_refused_before_anything_runs(project, options, said):
    before = project.text("test_gates.py"), project.text("tox.ini")
    result = project.runpytest(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([said])
    assert not list(project.path.glob("out"))
    assert (project.text("test_gates.py"), project.text("tox.ini")) == before


def test_a_report_takes_the_place_of_an_earlier_one_of_its_form(project):
    options = [f"--cpg-{form}=r.{form}" for form in ("json", "md", "html")]
    for _ in range(2):
        assert project.runpytest(*options, "-k", "right").ret == pytest.ExitCode.OK
    result = project.runpytest("--cpg-md=r.json", "-k", "right")
    result.stderr.fnmatch_lines(["*--cpg-md=r.json would put a report in the place of *"])


@pytest.mark.usefixtures("torch")
def test_the_report_says_where_the_weights_and_on_what_it_ran(repository):
    repository.makepyfile(
        """
        import pytest
        import torch

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = torch.nn.Parameter(torch.ones(1))

            def forward(self, observations, actions):
                return observations + self.scale * actions

        @pytest.fixture
        def learned_dynamics():
            return Model()

        @pytest.mark.cpg(task="track")
        def test_network(cpg): ...

        @pytest.mark.cpg(task="track")
        def test_no_network(benchmark_runner):
            import conftest
            benchmark_runner.compare(learned=conftest.right)
        """
    )
    repository.runpytest("--cpg-json=report.json")
    found = validated(repository.path / "report.json")
    devices = [gate["comparisons"][0]["result"]["device"] for gate in found["gates"]]
    assert devices == ["cpu", ""]
    assert found["provenance"]["processor"]


def test_a_report_that_cannot_be_written_fails_the_session(project):
    project.makepyfile(
        test_taking="""
        from pathlib import Path

        def test_it_is_right():
            Path("taken").mkdir(exist_ok=True)
        """
    )
    result = project.runpytest("--cpg-json=taken", "-k", "right")
    assert result.ret == 1
    result.assert_outcomes(passed=2)
    assert "taken: it is a folder. Move it away, or name a file" in flat(result)
    again = project.runpytest("--cpg-json=taken", "-k", "right")
    assert again.ret == pytest.ExitCode.USAGE_ERROR
    again.stderr.fnmatch_lines(["*in the place of *taken, which is a folder. Give the *"])


def test_what_stands_where_our_files_belong_is_named(project):
    def said():
        return project.runpytest("-k", "test_gate").stdout.str().replace("\n", "").replace(" ", "")

    own = project.path / ".cpg"
    own.write_text("", encoding="utf-8")
    told = said()
    blocked = f"{own}isnofolder.Moveitaway"
    assert f"cannotusethebaseline{own}/baseline.json:{blocked}" in told
    assert f"cannotwritethehistory{own}/history:{blocked}" in told
    assert f"episodeswerenotkept:.cpg/lost:{blocked}" in told
    own.unlink()
    (own / "baseline.json").mkdir(parents=True)
    told = said()
    assert f"{own}/baseline.json:itisafolder.Moveitaway,ornameafile" in told
    assert "checkout" not in told


def test_a_smoke_test_is_called_one_and_no_pass(repository):
    pytest.importorskip("jinja2")
    repository.makepyfile(test_good=GREEN)
    repository.runpytest("--cpg-quick", "--cpg-md=comment.md", "--cpg-html=page.html")
    assert heading_of(repository.path) == "### ✅ 1 gate ran: smoke test, no verdicts"
    page = repository.text("page.html")
    assert "<title>Smoke test passed: no verdicts</title>" in page
    assert page.index('<span class="word">Smoke</span>') < page.index("</h1>")
    repository.runpytest("--cpg-md=comment.md", "--cpg-html=page.html")
    assert heading_of(repository.path) == "### ✅ 1 of 1 gate passed"
    page = repository.text("page.html")
    assert "<title>1 gate passes</title>" in page


@mostly_alone
def test_a_cache_that_cannot_be_written_costs_no_report(project, workers):
    (project.path / ".pytest_cache" / "v").mkdir(parents=True)
    (project.path / ".pytest_cache" / "v" / "cpg").write_text("", encoding="utf-8")
    result = project.runpytest(
        "-W", "error", "--cpg-json=out.json", "--cpg-md=out.md", "-k", "right", *workers
    )
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*PytestCacheWarning*")
    assert validated(project.path / "out.json")["session"]["outcome"] == "passed"
    assert (project.path / "out.md").exists()


def test_a_session_without_gates_writes_the_report_it_was_asked_for(repository):
    repository.makepyfile("def test_unit(): ...")
    assert repository.runpytest("--cpg-json=report.json").ret == 0
    assert validated(repository.path / "report.json")["gates"] == []
    repository.runpytest("--co", "--cpg-json=collected.json")
    assert not (repository.path / "collected.json").exists()


@mostly_alone
def test_github_reads_annotations_and_a_summary(project, monkeypatch, workers):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    for name, value in (
        ("SERVER_URL", "https://g.example"),
        ("REPOSITORY", "o/r"),
        ("RUN_ID", "7"),
    ):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    (project.path / "summary.md").write_text("Before.\n", encoding="utf-8")
    result = project.runpytest(*workers)
    result.stdout.fnmatch_lines_random(
        [
            "::error file=test_gates.py,line=4,title=MODEL BOTTLENECK%3A test_gate*::The model *",
            "::error file=test_gates.py,line=*,title=ERROR%3A test_broken::Error in setup: *",
        ]
    )
    text = project.text("summary.md")
    assert text.startswith("Before.\n\n### ❌ 2 of 5 gates fail: ")
    assert "[Page and report](https://g.example/o/r/actions/runs/7#artifacts)" in text
    monkeypatch.setenv("GITHUB_ACTIONS", "false")
    off = project.runpytest(*workers)
    off.stdout.no_fnmatch_line("::error*")
    assert project.text("summary.md") == text


@pytest.mark.parametrize("is_below", [True, False], ids=["from below", "from the top"])
def test_an_annotation_names_its_file_from_the_top_of_the_repository(
    repository, monkeypatch, is_below
):
    below = repository.mkdir("sub")
    for name in ("conftest.py", "tox.ini"):
        (repository.path / name).rename(below / name)
    (below / "test_bad.py").write_text(GREEN.replace("right", "mirrored"), encoding="utf-8")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository.path))
    if is_below:
        monkeypatch.chdir(below)
    result = repository.runpytest(*([] if is_below else ["sub"]))
    result.stdout.fnmatch_lines(["::error file=sub/test_bad.py,line=4,*"])
    monkeypatch.setenv("GITHUB_WORKSPACE", str(repository.path / "elsewhere"))
    result = repository.runpytest(*([] if is_below else ["sub"]))
    result.stdout.fnmatch_lines(["::error file=test_bad.py,line=4,*"])


def test_nothing_is_annotated_twice(project, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (project.path / "pytest_github_actions_annotate_failures.py").write_text("", encoding="utf-8")
    project.syspathinsert()
    result = project.runpytest("-p", "pytest_github_actions_annotate_failures")
    result.stdout.no_fnmatch_line("::error*")
    assert result.ret == 1
