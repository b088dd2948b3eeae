"""Parts: what a kind of gate may have beside `GateKind`, by the names of its members.

docs/kinds-of-gate.md has what each takes and returns. An option that asks for a part which a kind
lacks refuses its gates by name. A part is whole: a kind that has one of its members has them all.
Plain attributes of a kind, by whose absence nothing is refused, are `options` of its own, which are
known before the command line is read; names of more `fixtures` than ``learned_dynamics``, with
their values in ``run.given``; and for messages an `example` of its marker's arguments, and the
`wanted_model` in a few words.
"""

from __future__ import annotations

_ENTRIES = ("compare", "entry")
_EPISODES = ("lost", "read_lost", "replay")
_LAST = ("opened", "completed")
# Members that need others, or one another: the baseline, the forecast, and episodes to run again.
_OF_SEVERAL = (
    (_ENTRIES, _ENTRIES),
    (("read_entry",), _ENTRIES),
    (("unprovable",), _ENTRIES),
    (("cost",), ("forecast",)),
    (_EPISODES, _EPISODES),
    (_LAST, (*_LAST, "judges")),
)


def offers(kind: object, member: str) -> bool:
    """Say whether a kind has a member: a method, or an attribute that is true."""
    value = getattr(kind, member, None)
    return callable(value) or value is True


def is_held(kind: object) -> bool:
    """Say whether a kind judges what other gates found, and so has to wait for them."""
    return offers(kind, "completed")


def half_part(kind: object) -> str:
    """Return what a kind has of a part and what it lacks of that, in words; empty if nothing."""
    members = dir(kind)
    for part, needed in _OF_SEVERAL:
        begun = [name for name in part if name in members]
        lacking = [name for name in needed if name not in members]
        if begun and lacking:
            has, lacks = ", ".join(begun), ", ".join(lacking)
            return f"has {has} and lacks {lacks}. Give it all of these, or leave {has} out"
    return ""
