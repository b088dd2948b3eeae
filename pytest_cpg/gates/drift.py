"""Drift: how a gate's result stands beside the last accepted one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_cpg.stats import Interval


class Label(StrEnum):
    """What became of a gate since its result was accepted."""

    NEW = "NEW"
    MISSING = "MISSING"
    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    UNCHANGED = "UNCHANGED"
    UNRESOLVED = "UNRESOLVED"
    INCOMPARABLE = "INCOMPARABLE"

    @classmethod
    def of(cls, low: float, high: float, *, is_same: bool) -> Label:
        """Return what the bounds of a loss say, in whatever unit: what is worse is above 0.

        ``is_same`` is for a result that is the accepted one again.
        """
        if is_same:
            return cls.UNCHANGED
        if low > 0:
            return cls.REGRESSED
        return cls.IMPROVED if high < 0 else cls.UNRESOLVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A gate's result beside the last accepted one: what changed, in one line of text.

    "46 -> 36 of 50, lost 10 starts, gained 0 (p = 0.002)". It was accepted at ``commit``, which a
    kind may leave out; ``was`` and ``now`` are what is followed, counts where it is a share
    ("46/50"), and ``cell`` what stood in the summary's column of now then, where that is not
    ``was``; ``then`` is what rows of the card's table came to, by name; ``differs`` what is not as
    it was, and not the model.

    ``worse`` are cells of the card's figure that were as they should be only then, ``better`` those
    that are so only now, and ``lost`` and
    ``gained`` count starts that the learned arm solved only then, or only now: None where they are
    not the same. Their exact p-value is two-sided. The interval is of what got worse, above 0 where
    it did.
    """

    label: Label
    text: str
    commit: str = ""
    was: str = ""
    now: str = ""
    cell: str = ""
    then: Mapping[str, float] = field(default_factory=dict)
    worse: tuple[int, ...] | None = None
    better: tuple[int, ...] | None = None
    lost: int | None = None
    gained: int | None = None
    p_value: float | None = None
    interval: Interval | None = None
    differs: tuple[str, ...] = ()

    @classmethod
    def new(cls, *, now: str = "") -> Drift:
        """Return what is said where there is nothing to compare with."""
        text = "nothing accepted yet (--cpg-update-baseline accepts this)"
        return cls(label=Label.NEW, text=text, now=now)

    @property
    def since(self) -> str:
        """Where the old result was accepted, to stand behind "since"."""
        return revision(self.commit) or "it was accepted"

    @property
    def sentence(self) -> str:
        """What changed, in one line that stands alone; the label is said where it matters."""
        if self.label is Label.NEW:
            return f"{self.label}: {self.text}"
        word = f": {self.label}" * (self.label not in (Label.UNCHANGED, Label.UNRESOLVED))
        return f"Since {self.since}: {self.text}{word}"

    @property
    def fails(self) -> bool:
        """Whether a gate that must not drift fails: it got worse, or nothing can be said."""
        return self.label in (Label.REGRESSED, Label.INCOMPARABLE)

    @property
    def became(self) -> str:
        """The label, where a table has to say what became of the accepted result."""
        return "" if self.label in (Label.UNCHANGED, Label.UNRESOLVED) else self.label.value

    @property
    def is_news(self) -> bool:
        """Whether a reader has to know: an outcome or a condition is not as it was."""
        return self.label is not Label.UNCHANGED or bool(self.differs)


def revision(commit: str) -> str:
    """Return a commit as a table has room for it; empty where it is not known."""
    name, dash, dirty = commit.partition("-")
    return f"{name[:7]}{dash}{dirty}"
