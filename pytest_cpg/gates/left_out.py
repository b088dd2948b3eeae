"""Left out: names that earlier versions took, and what to write in their place."""

from __future__ import annotations

from typing import Final

ARGUMENTS: Final[dict[str, str]] = {
    "threshold": "Write goal=0.6, the reward of a step that succeeds.",
    "least_return": 'Write goal="return>=50", with the return of an episode that succeeds.',
    "action_repeat": 'Give the task itself: task=TASKS["reacher-easy"](action_repeat=2), from '
    'pytest_cpg.tasks; or of an environment gym_task("Hopper-v5", action_repeat=2), from '
    "pytest_cpg.tasks.gymnasium.",
    "k": "Leave it out: each plan has 24 neighbours. Raise episodes for a narrower interval.",
    "neighbours": "Leave it out: they are drawn at random. score(search=...) has an adversary.",
    "min_score": "Write into the test: assert cpg_plan_quality.score.low >= 0.5",
    "min_coverage": "Write into the test: assert cpg_opcc.coverage_at_risk.estimate >= 0.5",
    "confidence_method": "Leave it out: answers are as sure as the members' paired interval says.",
    "level": "Write confidence=0.95, as in every gate.",
    "oracle_episodes": "Leave it out, and raise episodes: both arms begin at the same starts.",
    "min_queries": "Ask at least 200 queries, as fewer tell too little.",
    "resamples": "Leave it out: 1000 resamples are drawn, and more where many gates need them.",
}
"""By the name of the marker's argument, whichever kind had it."""

OPTIONS: Final[dict[str, str]] = {
    "only": 'Type -m "cpg or cpg_opcc or cpg_plan_quality", or the markers that you use.',
    "skip": 'Type -m "not cpg and not cpg_opcc and not cpg_plan_quality" --cpg-require=0.',
    "last": "Type --lf for what failed; the summary has the command that settles what is open.",
    "prune_baseline": "--cpg-update-baseline drops what is gone.",
    "force": "Type --cpg-json=report.json, and then: pytest-cpg accept report.json --force",
    "budget": "Limit each gate: --cpg-timeout, or timeout= in the marker.",
    "cluster": "Return distributed.Client(ADDRESS).get_executor() from a fixture cpg_executor.",
    "family_size": "Set cpg_family_size in the ini file, as a family belongs to the project.",
    "interval": "Write interval= in the marker.",
    "tolerance": "Write tolerance= in the marker.",
    "oracle_episodes": "Type --cpg-episodes=N with as many: both arms begin at the same starts.",
    "github": "GitHub Actions are detected. GITHUB_ACTIONS=false turns annotations off.",
}
"""By the name after --cpg-, with underscores."""
