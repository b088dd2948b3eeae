"""The page docs/statistics.md: a summary in plain words, and one section per measured table."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "statistics.md"
SUMMARY = """\
# Statistics

**What to do.**

- Run 50 starts. To find smaller drops, run as many as `pytest --cpg-plan` prints.
- For a proof write `margin=`; with `metric="return"` in units of return, of which 20 starts prove a
  fifth of what random actions lose at worst, and 100 a twentieth.
- To save episodes use `--cpg-stop=sequential`; never add starts to a gate until it is sure.
- With many gates use `--cpg-correction=holm`, and more starts per gate.
- Choose a checkpoint on one `--cpg-seed`, gate it on another, and accept the model that you ship.

The rest says what that is worth, in plain words; every figure is from a table under
[Evidence](#evidence), at the defaults (level 0.95, nominal 2.5 %).

**What a gate promises.** Each figure of this paragraph is the worst over all numbers of episodes
from 10 to 200 and all success rates, enumerated. A model as good as the oracle reads MODEL
BOTTLENECK in at most 3.26 % of runs (3.52 % of gates of 3 to 9 episodes), where the arms are
independent, and in fewer where they win and lose the same starts. With `margin=`, a model that
loses the margin passes in at most 2.50 % of runs. A model that did not change reads REGRESSED in at
most 2.49 % of runs, and an oracle that just reaches `min_oracle` fails in at most 2.50 %.
`stop="sequential"` keeps 2.50 % over all looks together, at every limit from 10 to 150 episodes.

**Why not Wald.** Wald's interval takes its width from the rates as counted, so that arms which
solve all or nothing have none: 0 of 10 beside 0 of 10 would prove that nothing is lost. Of 10
episodes with rates near 0 and 1 it covers the true gap in 5 % of runs where it says 95 %, and it
raises twice the false alarms. Agresti and Caffo's, which counts one more success and one more
failure in each arm, covers it in 90.6 % at worst ([table](#why-not-wald)); away from rates
of 0 and 1 the two come together as episodes grow. Its ends are cut at -1
and 1, where those of Agresti and Caffo (2000) go on: 9 of 10 beside 0 of 10 ends at 1.013 there.

What a green gate does not say stands in [words](statistics-in-words.md), and what holds of
[comparisons of policies](policy-comparison.md#what-the-numbers-are-worth) and of
[gates on plans](plan-quality.md#measured) on their pages.

**Where the promise does not hold.**

- *Luck that was chosen.* Beside the best of 10 equal checkpoints as baseline, a model just as good
  reads REGRESSED in up to 11.5 % of runs (50 or 150 episodes, rates from 0.5 to 0.95). A checkpoint
  that was chosen on the gate's own starts fails too seldom: choose with another `--cpg-seed`.
- *A lucky oracle arm that is stored* fails up to 24.2 % of merges while it is kept (150 episodes or
  more, rates from 0.3 to 0.95, independent arms).
- *Unequal arms.* `oracle_episodes=1500` beside 10 to 150 learned episodes: up to 4.73 % false
  alarms; beside 3 to 9 learned ones 7.42 %.
- *Rare disasters.* With `metric="return"`, an oracle that is 1 ahead on most starts and 19 behind
  on 1 in 20: 59.9 % of gates of 10 starts are sure of the wrong sign, of 50 starts 7.7 %. With a
  margin, starts that lose twice what random actions lose at worst: up to 18.56 % of gates prove it.
- *Plans exploited in few starts.* A limit that is the model's own mean is met by up to 5.3 % of
  gates of 10 episodes, 14.3 % where a few starts are exploited far more than the others (a rover
  4 % too weak; 8.6 % of 20, 3.5 % of 50), and 10.6 % where 1 start of 5 is by 0.6 and the others
  are not (0.9 % of 20); with fewer than 10 episodes none does. Where 9 starts of 10 change by 0.1
  and one by -0.9, so that nothing changed in the mean, 34.8 % of gates of 10 episodes read
  REGRESSED, and 13.0 % of 20.
- *Recipes that work or fail.* Five checkpoints of 50 episodes, of a recipe of which 10 % work:
  37.5 % false alarms (simulated, +- 0.5 %), the worst of the recipes below.
- *Arms that disagree on every start*, which no planner makes: up to 11.89 % false alarms.
- *Suites of a few episodes.* The mean gap of two tasks is missed on one side in up to 4.7 % of runs
  with 10 episodes each, and in up to 5.8 % where one has 10 and the other 40 (exactly, where one
  task is all gap or nearly so); of suites of 2 to 30 tasks that were simulated in up to 3.7 % from
  10 episodes a task on, and in 5.2 % of two tasks with 2 episodes each.
- *Many gates.* Ten of them: an alarm in up to 28.23 % of sessions, in up to 2.39 % with Holm's
  correction, whose interval is Tango's. But each gate then has to tell random actions from the
  oracle more surely: where these solve 0.3 and 0.9 of 20 starts, 15.0 % of gates are blind in a
  family of ten, and 1.0 % alone.

`make calibrate` measures this page again: tables are by exact enumeration where nothing else is
said, and the tests assert the bounds that matter.
"""
# Sections in the order of the page, by what a reader looks for. Others come last.
GROUPS = {
    "What one gate gets wrong": (
        "False alarms at every number of episodes",
        "False alarms of the intervals",
        "Why not Wald",
        "False alarms with more oracle episodes",
        "Checkpoints chosen on the starts of their gate",
        "False alarms while a stored oracle arm is lucky",
        "Simulated gates without a gap",
        "AS GOOD by raw rates",
        "Oracles that min_oracle fails",
        "Blind gates whose oracle is strong",
    ),
    "What it finds": (
        "Power of gates of fixed size",
        "Gaps found with a chance of 80 %",
        "Power that pairing may cost",
        "Power that is reached and lost again",
    ),
    "Margins": (
        "Proving a margin at a fixed size",
        "Chance to prove a margin with a model that is as good as the oracle",
        "Proving a margin early",
    ),
    "Stopping early": (
        "Stopping early, at most 150 episodes per arm",
        "Sequential boundaries without a margin",
        "Sequential boundaries with a margin of 0.05",
        "Sequential boundaries with a margin of 0.1",
        "Sequential boundaries with a margin of 0.2",
        "Looking early with a plain interval",
    ),
    "Baselines": (
        "McNemar's exact test against a baseline",
        "False REGRESSED against a baseline that was chosen",
    ),
    "Many gates": (
        "Ten gates at every number of episodes",
        "Families of ten gates",
        "Far tails",
    ),
    "Suites": ("Suites of several tasks", "Suites of two tasks, exactly"),
    "Recipes": (
        "Recipes that work or fail",
        "Recipes of several checkpoints, own starts",
        "Recipes of several checkpoints, same starts",
        "Recipes of several checkpoints, power",
    ),
    "Returns": (
        "Margins on returns where few starts lose much",
        "Skewed returns without a gap",
        "Mean returns, paired",
        "Normalised returns",
    ),
    "Rankings": (
        "Rank intervals of several models on the same starts",
        "Rank correlation of a metric with planning success: exact success rates",
        "Rank correlation of a metric with planning success: success in 10 episodes",
    ),
    "Policy comparisons": (
        "Rulings of policy comparisons",
        "Policy comparisons exactly at a limit",
        "AUROC at its limit where few answers are wrong",
        "Metrics of answers with confidences",
        "Intervals of the metrics of answers",
        "Changes of the metrics of answers",
    ),
    "Plans": (
        "Scores of plans at every number of episodes",
        "Criteria of plans exactly at their limits",
        "The word of a gate on plans, exactly at its limit",
        "Models of a rover that has to drive around a wall",
        "Gates on plans of models that lose nothing",
        "Methods for means of skewed scores",
    ),
    "Presets": (
        "Presets: cartpole-swingup with twice the samples",
        "Presets: acrobot-swingup with twice the samples",
    ),
    "Diagnosis": (
        "Diagnosis: causes named for constructed faults",
        "Diagnosis: causes named where a harmless fault stands beside a real one",
        "Diagnosis: first advice to networks whose cure was tried",
        "Diagnosis: causes named of two real faults at once",
        "Diagnosis: conventions told of models that are misread",
        "Diagnosis: conventions told of models that have none",
    ),
}


class Page:
    """Sections by title: a run replaces the sections that it measured and keeps the others."""

    def __init__(self):
        self.sections = {}

    def table(self, title, columns, rows, *, note):
        """Set a section: a note that says what was measured and how, and a table.

        ``rows`` are sequences of text or numbers; give numbers as text to choose their digits.
        """
        lines = [columns, ["---"] * len(columns), *rows]
        body = "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)
        self.sections[title] = f"\n{note}\n\n{body}\n"
        print(f"\n{title}\n{note}\n{body}")

    def merged_into(self, text):
        """Return the page with these sections in place of the old ones of their titles."""
        sections = {**sections_of(text), **self.sections}
        known = {title for titles in GROUPS.values() for title in titles}
        groups = {**GROUPS, "More": [title for title in sections if title not in known]}
        parts = [SUMMARY, "## Evidence"]
        for group, titles in groups.items():
            measured = [title for title in titles if title in sections]
            parts += [f"### {group}"] * bool(measured)
            parts += [f"#### {title}\n{sections[title]}" for title in measured]
        return "\n".join(part.strip("\n") + "\n" for part in parts)


def sections_of(text):
    """Return the tables of a page by title, without the headings above them."""
    _, *parts = re.split(r"^##+ ", text, flags=re.MULTILINE)
    found = {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}
    return {title: body for title, body in found.items() if body.strip()}
