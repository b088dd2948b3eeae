"""Confidences: how sure an ensemble is of an answer, in the three ways of the paper."""

import numpy as np
from scipy.special import stdtr

from pytest_cpg.gates.policy_comparison.answers import Compared
from pytest_cpg.gates.policy_comparison.answers import compared as by_paired_interval

CONFIDENCES = ("ev", "pci", "u-pci")
"""Ensemble voting; paired and unpaired confidence intervals of the members' mean return."""


def compared(values_a, values_b, method):
    """Return answers and confidences, as the gate does.

    - ``"ev"``: the share of members that vote for the answer, less the share that vote against it.
      A member to which both sides are equal votes for neither.
    - ``"pci"``: the gate's own.
    - ``"u-pci"``: the largest level at which the intervals of the two means do not overlap.
    """
    if method not in CONFIDENCES:
        raise ValueError(f"no confidence named {method!r}. Known: {', '.join(CONFIDENCES)}.")
    paired = by_paired_interval(values_a, values_b)
    if method == "pci":
        return paired
    a, b = np.asarray(values_a, dtype=float), np.asarray(values_b, dtype=float)
    if method == "ev":
        # Votes are whole: a sum of shares would tear equal confidences apart.
        lead = (a < b).sum(axis=0) - (a > b).sum(axis=0)
        return Compared(lead > 0, np.abs(lead) / len(a))
    _, exponent = np.frexp(np.maximum(np.abs(a).max(axis=0), np.abs(b).max(axis=0)))
    a, b = np.ldexp(a, -exponent), np.ldexp(b, -exponent)
    lead, spread = _mean(b - a), _deviation(a) + _deviation(b)
    certain = np.where(lead == 0, 0.0, np.inf)
    ratio = np.divide(np.abs(lead), spread / np.sqrt(len(a)), out=certain, where=spread > 0)
    return Compared(lead > 0, 1 - 2 * stdtr(len(a) - 1, -ratio))


def _mean(values):
    # That of equal numbers may differ from them in its last bit.
    return values[0] + (values - values[0]).mean(axis=0)


def _deviation(values):
    return (values - values[0]).std(axis=0, ddof=1)
