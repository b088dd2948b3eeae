"""Parcels: what is sent to a worker, and how it arrives."""

from __future__ import annotations

import hashlib
import importlib
import io
import pickle
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pytest_cpg.contracts import ComponentError


class Parcel(NamedTuple):
    """What a worker is to have.

    Attributes
    ----------
    paths : tuple of str
        Where the sender finds modules.
    key : str
        Tells contents apart, with those of the parcels that they refer to.
    """

    paths: tuple[str, ...]
    content: bytes
    key: str


def dump(value: object, what: str, known: Sequence[tuple[object, Parcel]] = ()) -> Parcel:
    """Pickle what a worker is to have.

    Functions that no module knows are sent as they are where cloudpickle is installed. Raises
    ComponentError, saying what cannot be sent, and what to do.

    Parameters
    ----------
    known : sequence of (object, Parcel)
        What is sent by itself, and referred to where it is met.
    """
    buffer = io.BytesIO()
    pickler: Any = pickle.Pickler
    with suppress(ImportError):
        pickler = importlib.import_module("cloudpickle").Pickler
    met: dict[int, str] = {}

    def refer(_: Any, one: object) -> int | None:
        for place, (other, parcel) in enumerate(known):
            if one is other:
                met[place] = parcel.key
                return place
        return None

    referring = type("Referring", (pickler,), {"persistent_id": refer})
    try:
        referring(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    # Pickling runs the code of whatever it meets.
    except Exception as error:
        install = ", or install cloudpickle" if pickler is pickle.Pickler else ""
        raise ComponentError(
            f"{what} cannot be sent to another process ({type(error).__name__}: {error}). Define "
            f"its classes and functions in a module{install}; or run it in this process, without "
            f"--cpg-workers and --cpg-cluster."
        ) from error
    content = buffer.getvalue()
    digest = hashlib.sha256(content + repr(sorted(met.items())).encode()).hexdigest()
    return Parcel(tuple(sys.path), content, digest)


def load(parcel: Parcel, known: Sequence[object] = ()) -> Any:
    """Return the value that `dump` was given; modules are looked for where it did, too.

    ``known`` are what was sent by itself, in the same order. Raises ComponentError when a module
    that it needs is not found here, or is another one.
    """
    sys.path.extend(path for path in parcel.paths if path not in sys.path)
    try:
        # Written by `dump` in the session that sends it; no file is ever read.
        return _Unpickler(parcel.content, known).load()
    except (ImportError, AttributeError) as error:
        raise ComponentError(
            f"a worker cannot load what it was sent ({error}). Keep task, planner and model in "
            f"modules that can be imported by their names from pytest's sys.path, as they can be "
            f"without --import-mode=importlib; or run them without --cpg-workers and --cpg-cluster."
        ) from None


class _Unpickler(pickle.Unpickler):  # of `load`
    def __init__(self, content: bytes, known: Sequence[object]) -> None:
        super().__init__(io.BytesIO(content))
        self._known = known

    def persistent_load(self, place: int) -> object:
        """Return what `dump` has referred to."""
        return self._known[place]
