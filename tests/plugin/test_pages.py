"""Every snippet of the documentation does what its page says, and every output is what is printed.

Blocks of docs/models.md are of files of examples/bring_your_model, whose tests run them; that of
docs/kinds-of-gate.md is run by test_kinds_page.
"""

import importlib.util
import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from worlds import published_queries

from pytest_cpg.gates import GATES as GATES_OF_MARKERS
from pytest_cpg.gates.presets import ENVIRONMENTS, preset_planner
from pytest_cpg.tasks import TASKS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.docs
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")}
# Pages whose blocks are run by tests of their own.
ELSEWHERE = {"models", "kinds-of-gate", "causal-worlds", "field", "pictures"}
TRANSCRIPTS = importlib.util.spec_from_file_location("transcripts", ROOT / "docs/transcripts.py")
transcripts = importlib.util.module_from_spec(TRANSCRIPTS)
TRANSCRIPTS.loader.exec_module(transcripts)
# What a page leaves to its reader: a model, which is as good as the truth here.
MODEL = """
import pytest

@pytest.fixture
def learned_dynamics(oracle_dynamics):
    task = oracle_dynamics.task

    def right(observations, actions):
        return task.observe(task.rollout(observations, actions[:, None])[:, 0])

    return right

my_model = learned_dynamics
"""
CONTROL = pytest.mark.skipif(not find_spec("dm_control"), reason="needs dm-control")
# How the gates of a page are run: as they are, or where a task takes long, by two episodes.
GATES = {
    "perturbations": "",
    "diagnosis": "",
    "gates": "",
    "predictions": "",
    "marker": "--cpg-quick --cpg-model=oracle",
    "tasks-and-planners": "--cpg-quick --cpg-model=oracle",
    "plan-quality": "--cpg-quick --cpg-model=oracle",
}
NEED_CONTROL = {"marker", "tasks-and-planners", "plan-quality"}
# Blocks that are no gates, by a word of theirs.
CODE = (
    "score(", "generate_queries(", "PolicyQueries.load(", "evaluate(",
    # Run in tests/gates/test_logged_queries.py.
    "# test_logs.py",
)  # fmt: skip


def blocks(page, language="python"):
    return [text for kind, text in transcripts.BLOCK.findall(PAGES[page]) if kind == language]


QUERIES_OF_A_ROOM = """
from recorded_room import HELD_OUT, TRAIN, LinearEnsemble
from pytest_cpg.gates.policy_comparison.logs import queries_from_episodes

queries_from_episodes(HELD_OUT, seed=0, horizons=(10, 20, 30)).save("queries.npz")


def load_my_ensemble():
    return LinearEnsemble(TRAIN.transitions)


"""


@pytest.fixture
def folder(pytester, monkeypatch):
    """The folder of a user, who has set nothing."""
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT", "CI"):
        monkeypatch.delenv(name, raising=False)
    return pytester


@pytest.mark.parametrize("page", transcripts.PAGES)
def test_outputs_are_what_the_commands_print(page):
    now = transcripts.written_anew(PAGES[page])
    assert transcripts.comparable(now) == transcripts.comparable(PAGES[page]), (
        "write the outputs anew: python docs/transcripts.py"
    )


@pytest.mark.parametrize(
    "page", [pytest.param(name, marks=[CONTROL] * (name in NEED_CONTROL)) for name in GATES]
)
def test_the_gates_of_a_page_run(page, folder):
    folder.makeconftest(MODEL)
    gates = [text for text in blocks(page) if "pytest." in text]
    assert gates
    data = folder.path / "data"
    data.mkdir()
    np.save(data / "observations.npy", np.zeros((50, 2)))
    # A page with a fixture alone leaves the gate to its reader.
    own = (
        '@pytest.mark.cpg(task="maze", planner="preset")\ndef test_gate(cpg, training_data): ...\n'
    )
    text = "\n\n".join(["import pytest", *gates])
    folder.makepyfile(text if "def test_" in text else f"{text}\n\n{own}")
    result = folder.runpytest_subprocess("-p", "no:hypothesispytest", *GATES[page].split())
    outcomes = result.parseoutcomes()
    measured = outcomes.get("measured", 0)
    count = len(re.findall(r"(?m)^def test_", text)) or 1
    result.assert_outcomes(passed=count - measured)


def test_a_model_without_weights_passes_the_published_starts_alone(folder):
    (gates,) = (text for text in blocks("causal-worlds") if "def test_" in text)
    folder.makepyfile(gates)
    result = folder.runpytest_subprocess("-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*MODEL BOTTLENECK: the model solves 0 of 50 starts*"])


def test_a_jitted_batch_of_states_is_a_task(folder):
    pytest.importorskip("mujoco.mjx")
    for text in blocks("field"):
        name, _, code = text.partition("\n")
        (folder.path / name.removeprefix("# ")).write_text(code, encoding="utf-8")
    result = folder.runpytest_subprocess("-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)


def test_the_gallery_has_every_verdict():
    printed = "\n".join(blocks("gallery", "text"))
    labels = [(marker, label) for marker, kind in GATES_OF_MARKERS.items() for label in kind.labels]
    # As what was found, and not as the worst that is accepted.
    found = r'(?<!Accepted here: )(?<!max_verdict="){}\b'
    lacking = [one for one in labels if not re.search(found.format(one[1]), printed)]
    assert not lacking, "write a gate that prints each of these into docs/gallery.md"


def test_policies_are_compared_as_the_page_says(folder, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    conftest, test, *_ = blocks("policy-comparison")
    folder.copy_example("policy_comparison")
    (folder.path / "test_comparisons.py").unlink()
    folder.makeconftest(QUERIES_OF_A_ROOM + conftest)
    folder.makepyfile(test)
    result = folder.runpytest_subprocess("-p", "no:hypothesispytest")
    result.assert_outcomes(passed=1)


class Shop:
    """An environment of plans: a book is bought by three steps in their order."""

    def __init__(self, done=()):
        self.done = [*done]

    def clone(self):
        return Shop(self.done)

    def reset(self, *, seed):
        self.done = []

    def step(self, action):
        self.done.append(action)
        return None, float(self.done == ["search", "open", "book"]), False, False, {}


def test_plans_of_agents_are_scored_as_the_page_says():
    (snippet,) = (text for text in blocks("plan-quality") if "score(" in text)
    names = {"environment": Shop(), "ACTIONS": ["search", "open", "book", "wait", "leave"]}
    exec(snippet, names)  # noqa: S102  # what a reader types
    assert names["found"].score >= 1


@CONTROL
def test_queries_are_made_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded, _, made, gate = blocks("policy-queries")
    published_queries("maze-umaze").save("queries.npz")
    exec(loaded, {})  # noqa: S102
    # Fewer, as they take half a minute.
    names = {"pytest": pytest}
    exec(made.replace("seed=0)\nqueries", "seed=0, candidates=100)\nqueries"), names)  # noqa: S102
    exec(gate, names)  # noqa: S102
    assert names["test_comparisons"].pytestmark[0].name == "cpg_opcc"
    assert (tmp_path / "short.npz").exists()


class Tracker:
    """What a tracker is told, in the place of W&B, MLflow and TensorBoard."""

    def __init__(self):
        self.told = {}

    def log(self, metrics, *, step):
        assert step == 4
        assert all(type(number) is float for number in metrics.values())
        self.told |= metrics

    log_metrics = log

    def add_scalar(self, name, number, step):
        self.log({name: number}, step=step)


def test_a_model_is_evaluated_as_the_page_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    maze = TASKS["maze"]()

    def right(observations, actions):
        return maze.observe(maze.rollout(observations, actions[:, None])[:, 0])

    def train(step):
        return right if step == 4 else lambda observations, actions: observations + actions

    trackers = {name: Tracker() for name in ("wandb", "mlflow", "writer")}
    names = {"train": train, **trackers}
    for snippet in blocks("evaluate"):
        exec(snippet, names)  # noqa: S102  # what a reader types
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("MODEL BOTTLENECK: ") for line in lines) == 4
    assert "4 MODEL AS GOOD AS ORACLE gap +0.00" in lines
    assert names["best"] == 4, "the one that is right"
    at = lines.index("checkpoint 4: maze, planning gap")
    assert lines[at + 1].startswith("MODEL AS GOOD AS ORACLE: ")
    assert names["report"].result.seed == 1
    said = trackers["wandb"].told
    assert said == trackers["mlflow"].told == trackers["writer"].told
    page = PAGES["evaluate"].partition("Names begin")[2].partition("## ")[0]
    assert set(re.findall("`(cpg/[a-z_]+)`", page)) <= said.keys()


def test_the_best_of_many_is_as_lucky_as_the_page_says():
    cited = r"Take (\d+) .* solve (\d+) % .* On (\d+) starts\s+each, .* solves (\d+) % on average"
    many, rate, starts, best = map(int, re.search(cited, PAGES["evaluate"], re.DOTALL).groups())
    below = binom.cdf(np.arange(starts), starts, rate / 100) ** many
    assert round(100 * (1 - below).sum() / starts) == best


def test_no_snippet_is_left_out():
    for page in PAGES.keys() - {*ELSEWHERE, *transcripts.PAGES}:
        for text in blocks(page):
            assert page in (*GATES, "policy-comparison") or any(word in text for word in CODE), text


def test_every_configuration_can_be_parsed():
    yaml = pytest.importorskip("yaml")
    for page in PAGES:
        assert all(isinstance(yaml.safe_load(text), dict) for text in blocks(page, "yaml"))
        for text in blocks(page, "toml"):
            tomllib.loads(text)


def test_links_lead_somewhere():
    for page, text in PAGES.items():
        for link, anchor in re.findall(r"\]\(([^)#\s:]*)#?([^)\s:]*)\)", prose(text)):
            target = (ROOT / "docs" / link).resolve() if link else ROOT / "docs" / f"{page}.md"
            assert target.exists(), (page, link)
            if anchor and target.suffix == ".md":
                assert anchor in headings(target), (page, link, anchor)


def prose(text):
    return transcripts.BLOCK.sub("", text)


def headings(path):
    """Return the anchors of a page, as hosts make them of its headings."""
    found = re.findall(r"(?m)^#+ (.*)$", path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_the_marker_page_has_every_argument_with_its_default():
    from pytest_cpg.gates.arguments import COMMON
    from pytest_cpg.gates.planning_gap.kind import PlanningGap

    named = {
        name
        for names in re.findall(r"(?m)^\| ((?:`\w+`(?:, )?)+) \|", PAGES["marker"])
        for name in re.findall(r"`(\w+)`", names)
    }
    assert named == {argument.name for argument in (*PlanningGap.arguments, *COMMON)}


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_page_of_an_environment_shows_its_preset(name):
    file = ROOT / "docs/environments" / f"{name.rpartition(':')[2].replace('/', '-')}.txt"
    preset, text = ENVIRONMENTS[name], " ".join(file.read_text(encoding="utf-8").split())
    assert text.startswith(f"gym:{name} observation")
    assert repr(preset_planner(f"gym:{name}")) in text
    assert f"solves {preset.solved} of {preset.starts} starts" in text
