"""What a session writes: JSON, Markdown, and what GitHub Actions reads."""

import json
from importlib.resources import files

import pytest

from pytest_cpg.report import read

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


both_ways = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])


def validated(path):
    jsonschema = pytest.importorskip("jsonschema")
    found = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads(files("pytest_cpg").joinpath("report.schema.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(found)
    assert read(path) == found
    return found


def without_times(value):
    if isinstance(value, dict):
        times = ("seconds", "latency_ms", "cpu_ms")
        return {name: without_times(one) for name, one in value.items() if name not in times}
    return [without_times(one) for one in value] if isinstance(value, list) else value


@both_ways
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


def test_reports_differ_in_times_alone_however_many_processes_made_them(project):
    found = []
    for number, workers in enumerate([(), ("-p", "no:xdist"), ("-n", "1"), ("-n", "4")]):
        project.runpytest(f"--cpg-json={number}.json", *workers)
        found.append(without_times(validated(project.path / f"{number}.json")))
    assert found[1:] == [
        {**one, "findings": other["findings"]}
        for one, other in zip([found[0]] * 3, found[1:], strict=True)
    ]
    texts = [[one["text"] for one in report["findings"]] for report in found]
    assert texts[1:] == [texts[0]] * 3


def test_an_interrupted_session_leaves_its_report(project):
    project.makepyfile(test_gates=GATES.replace('pytest.skip("no GPU")', "raise KeyboardInterrupt"))
    result = project.runpytest_subprocess("--cpg-json=report.json")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    found = validated(project.path / "report.json")
    assert [gate["outcome"] for gate in found["gates"]][-1] == "missing"
    assert len(found["gates"]) == 5


@both_ways
def test_a_comment_for_a_pull_request_keeps_names_as_text(project, workers):
    project.runpytest("--cpg-md=comment.md", *workers)
    text = (project.path / "comment.md").read_text(encoding="utf-8")
    assert text.startswith("<!-- pytest-cpg report -->\n### pytest-cpg: failed (5 gates, ")
    assert "a|b" not in text
    assert "<i>" not in text


def test_paths_of_the_ini_file_are_from_its_folder_and_typed_ones_from_where_one_is(
    project, monkeypatch
):
    ini = (project.path / "tox.ini").read_text(encoding="utf-8")
    (project.path / "tox.ini").write_text(f"{ini}\ncpg_json = ini.json\n", encoding="utf-8")
    (project.path / "below").mkdir()
    monkeypatch.chdir(project.path / "below")
    project.runpytest("--rootdir=..", "-c", "../tox.ini", "..", "--cpg-md=typed.md")
    assert (project.path / "ini.json").exists()
    assert (project.path / "below" / "typed.md").exists()


@both_ways
def test_a_page_shows_every_gate_and_their_history(project, workers):
    pytest.importorskip("jinja2")
    for seed in (1, 2):
        project.runpytest(f"--cpg-json=old/{seed}.json", f"--cpg-seed={seed}")
    result = project.runpytest("--cpg-html=page.html", "--cpg-history=old/*.json", *workers)
    result.stdout.fnmatch_lines([" written: page.html"])
    text = (project.path / "page.html").read_text(encoding="utf-8")
    assert "<i>" not in text
    assert "a|b &lt;i&gt;" in text
    assert "History" in text
    without = project.runpytest("--cpg-html=page.html", "--cpg-json=old/3.json", *workers)
    without.stdout.fnmatch_lines([" written: page.html", " written: old/3.json"])
    assert "History" not in (project.path / "page.html").read_text(encoding="utf-8")


def test_a_page_is_refused_without_its_extra_and_a_history_without_a_page(project, monkeypatch):
    typed = project.runpytest("--cpg-history=*.json")
    assert typed.ret == pytest.ExitCode.USAGE_ERROR
    typed.stderr.fnmatch_lines(["*add --cpg-html=PATH"])
    monkeypatch.setattr("pytest_cpg.session_outputs.find_spec", lambda name: None)
    missing = project.runpytest_inprocess("--cpg-html=page.html")
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    missing.stderr.fnmatch_lines(['*pip install "pytest-cpg[[]html[]]"'])


def test_a_damaged_history_is_named(project):
    pytest.importorskip("jinja2")
    (project.path / "old.json").write_text("{", encoding="utf-8")
    result = project.runpytest("--cpg-html=page.html", "--cpg-history=old.json", "-k", "right")
    assert result.ret == 1
    assert "cannot use the report" in result.stdout.str()


def test_a_report_that_cannot_be_written_fails_the_session(project):
    (project.path / "taken").mkdir()
    result = project.runpytest("--cpg-json=taken", "-k", "right")
    assert result.ret == 1
    result.assert_outcomes(passed=1)
    assert "taken: Is a directory" in " ".join(result.stdout.str().split())


def test_a_session_without_gates_writes_the_report_it_was_asked_for(repository):
    repository.makepyfile("def test_unit(): ...")
    assert repository.runpytest("--cpg-json=report.json").ret == 0
    assert validated(repository.path / "report.json")["gates"] == []
    repository.runpytest("--co", "--cpg-json=collected.json")
    assert not (repository.path / "collected.json").exists()


@both_ways
def test_github_reads_annotations_and_a_summary(project, monkeypatch, workers):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path / "summary.md"))
    (project.path / "summary.md").write_text("Before.\n", encoding="utf-8")
    result = project.runpytest(*workers)
    result.stdout.fnmatch_lines_random(
        [
            "::error file=test_gates.py,line=4,title=cpg%3A test_gates.py%3A%3Atest_gate*::MODEL *",
            "::error file=test_gates.py,line=*,title=cpg%3A *test_broken::error in setup: *",
        ]
    )
    text = (project.path / "summary.md").read_text(encoding="utf-8")
    assert text.startswith("Before.\n\n### pytest-cpg: failed")
    off = project.runpytest("--cpg-github=off", *workers)
    off.stdout.no_fnmatch_line("::error*")
    assert (project.path / "summary.md").read_text(encoding="utf-8") == text


def test_nothing_is_annotated_twice(project, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    (project.path / "pytest_github_actions_annotate_failures.py").write_text("", encoding="utf-8")
    project.syspathinsert()
    result = project.runpytest("-p", "pytest_github_actions_annotate_failures")
    result.stdout.no_fnmatch_line("::error*")
    assert result.ret == 1
