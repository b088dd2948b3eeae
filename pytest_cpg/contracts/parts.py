"""Parts: what a component may have beside its protocol, one small protocol each.

They stand beside the protocol of their component: `contracts.task`, `contracts.world_model` and
`contracts.planner`.
"""

from __future__ import annotations

from typing import Protocol, TypeGuard, TypeVar

P = TypeVar("P")


class CacheKey(Protocol):
    """A component that says what it computes, so that its arms are kept from run to run."""

    cache_key: str
    """A text that is another one whenever what it computes is."""


def has(component: object, part: type[P]) -> TypeGuard[P]:
    """Say whether a component has a part: methods that can be called, attributes other than None.

    `isinstance` would not see what a wrapper passes on, or a network keeps as a layer.

    >>> from types import SimpleNamespace
    >>> [has(SimpleNamespace(cache_key=key), CacheKey) for key in ("v1", None)]
    [True, False]
    """
    for name in members(part):
        member = getattr(component, name, None)
        is_method = callable(getattr(part, name, None))
        if not callable(member) if is_method else member is None:
            return False
    return True


def members(protocol: type) -> tuple[str, ...]:
    """Return the names of a protocol's methods and attributes."""
    names = {*dir(protocol), *protocol.__annotations__}
    return tuple(sorted(name for name in names if not name.startswith("_")))
