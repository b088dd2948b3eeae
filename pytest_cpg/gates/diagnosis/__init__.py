"""Diagnosis: why a gap is there, from decisions taken again with both worlds at hand."""

from pytest_cpg.gates.diagnosis.advice import advice_on_score
from pytest_cpg.gates.diagnosis.coverage import (
    Coverage,
    TrainingStates,
    coverage_of,
    read_training_data,
)
from pytest_cpg.gates.diagnosis.evidence import Evidence, Headroom
from pytest_cpg.gates.diagnosis.measures import Measures, measures_of
from pytest_cpg.gates.diagnosis.result import Cause, Diagnosis, Measure, Misreading, Profile
from pytest_cpg.gates.diagnosis.wording import diagnosis_of

__all__ = [
    "Cause",
    "Coverage",
    "Diagnosis",
    "Evidence",
    "Headroom",
    "Measure",
    "Measures",
    "Misreading",
    "Profile",
    "TrainingStates",
    "advice_on_score",
    "coverage_of",
    "diagnosis_of",
    "measures_of",
    "read_training_data",
]
