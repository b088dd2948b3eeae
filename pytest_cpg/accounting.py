"""Accounting: whether as many gates were judged as have to be."""

from __future__ import annotations

from pytest_cpg.ledger import Finding, Ledger, named


def required_findings(ledger: Ledger, *, required: str) -> list[Finding]:
    """Return why a session fails that judged too few gates.

    Accepted gates that are gone are found beside the baseline.

    Parameters
    ----------
    required : str
        ``"all"`` for every gate that was collected, or their number.
    """
    if required == "all":
        left_out = [gate for gate in ledger.deselected if gate not in ledger.planned]
        if not left_out:
            return []
        return [
            Finding(
                f"{len(left_out)} of {len(left_out) + len(ledger.planned)} gates were not "
                f"selected, and all are required: {named(left_out)}. For a run of some of them use "
                f"--cpg-require={len(ledger.planned)}",
                fails=True,
            )
        ]
    judged = sum(bool(entry.judgements or entry.rankings) for entry in ledger.entries.values())
    if judged >= int(required):
        return []
    return [
        Finding(
            f"{judged} gate{'s'[: judged != 1]} judged, and {required} required (--cpg-require)",
            fails=True,
        )
    ]
