"""Cause: what a diagnosis says, as every report shows it."""

from __future__ import annotations

from itertools import chain

from pytest_cpg.gates import card
from pytest_cpg.gates.diagnosis import Cause, Diagnosis, Measure
from pytest_cpg.gates.diagnosis.evidence import WINDOW
from pytest_cpg.gates.planning_gap.figures import profile_figures

_TITLE = "Why the gap is there"
# What every terminal shows; the others stand in the files, and where they are the cause.
_MAIN = ("regret", "ranking", f"{WINDOW} steps", "coverage")
_OF_CAUSE = {
    Cause.ACTION_BLIND: ("response",),
    Cause.NOISE: ("noise",),
    Cause.SCORE_HEAD: ("dynamics",),
    Cause.COVERAGE: ("places",),
    Cause.DYNAMICS_BIAS: ("places",),
    Cause.TOO_LITTLE_DATA: ("one step", "trained"),
    Cause.UNDERFIT: ("one step", "trained"),
    Cause.ONE_STEP_ERROR: ("places",),
    Cause.LOCAL_ERROR: ("places",),
    Cause.EXPLOITATION: ("promises",),
    Cause.COMPOUNDING_ERROR: ("restarts",),
    Cause.PLANNER: ("planner",),
}


def cause_of(diagnosis: Diagnosis) -> card.Cause:
    """Return how the model is misread, or its cause or causes, or that there is none to name.

    The numbers of a model that is misread are not its own, and left to the files.
    """
    named = diagnosis.named or "no cause named"
    causes = (diagnosis.cause, diagnosis.second)
    main = (*_MAIN, *chain.from_iterable(_OF_CAUSE.get(cause, ()) for cause in causes))
    if diagnosis.misreading is not None and diagnosis.is_misread:
        named, main = diagnosis.misreading.name, ()
    text, advice = _sentences(diagnosis)
    return card.Cause(
        title=_TITLE,
        name=named,
        text=text,
        advice=advice,
        source=_source(diagnosis),
        measures=tuple((one.name, _numbers(one), one.text) for one in diagnosis.measures),
        main=main,
        figures=profile_figures(diagnosis.profile, diagnosis.cause),
    )


def _sentences(diagnosis: Diagnosis) -> tuple[str, str]:
    """Return what was found and what to do, of how a model is misread and else of the cause.

    Of both, where it is not shown that the former is what decides.
    """
    said = [] if diagnosis.is_misread else [(diagnosis.summary, diagnosis.recommendation)]
    if diagnosis.misreading is not None:
        said.append((diagnosis.misreading.summary, diagnosis.misreading.recommendation))
    found, advice = ([text for text in texts if text] for texts in zip(*said, strict=True))
    return " ".join(found), " ".join(advice)


def _source(diagnosis: Diagnosis) -> str:
    seconds = f"{diagnosis.seconds:.1f} s"
    if not diagnosis.decisions:
        return seconds
    return f"{diagnosis.decisions} decisions of {len(diagnosis.episodes)} episodes, {seconds}"


def _numbers(measure: Measure) -> str:
    """Return a measure's estimate and interval; empty where it has none."""
    if measure.estimate is None or measure.low is None or measure.high is None:
        return ""
    return f"{measure.estimate:.2f} [{measure.low:.2f}, {measure.high:.2f}]"
