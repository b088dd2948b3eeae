"""Diagnosis: why a gap is there, from decisions taken again with both worlds at hand."""

from __future__ import annotations

from pytest_cpg.gates.diagnosis.result import Cause, Diagnosis, Measure, Misreading, Profile

__all__ = ["Cause", "Diagnosis", "Measure", "Misreading", "Profile"]
