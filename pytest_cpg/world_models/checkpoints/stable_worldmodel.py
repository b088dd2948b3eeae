"""stable-worldmodel: models that rate whole plans, made into ones that imagine them step by step.

Such a model has ``get_cost(info, candidates [B, K, H, A]) -> [B, K]``, or ``rollout(info,
candidates)`` that adds what it predicts [B, K, T, D] to ``info``. The library is not imported.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from pytest_cpg.contracts import FloatArray, WorldModelError
from pytest_cpg.contracts.arrays import is_picture
from pytest_cpg.world_models.binding.tensors import Tensor, torch

# Maps observations [B, O] to what the model reads of them, [B, ...] each.
Info: TypeAlias = Callable[[Tensor], Mapping[str, Tensor]]
Given: TypeAlias = dict[str, Tensor]
Pictures: TypeAlias = npt.NDArray[Any]
Ask: TypeAlias = Callable[[Given, Tensor], Tensor]


@dataclass(slots=True, kw_only=True)
class Reading:
    """What a model is given for some observations and a shape of plans, and what it left there.

    As in its own library it is also given an ``id`` and a ``step_idx`` [N, K], by which some models
    know what they have encoded; the number is no other's.
    """

    given: Given
    named: Given
    left: Given = field(default_factory=dict)


Kept: TypeAlias = OrderedDict[tuple[bytes, tuple[int, ...]], Reading]

# Bytes of pictures that are kept.
_ROOM = 1 << 27
# Plans in a call that rates steps, and starts whose encodings are kept from call to call.
_AT_ONCE, _MOST_KEPT = 64, 64
# One for each start in the process: a model may be asked through several of ours.
_NUMBERS = count()


class StableWorldModel:
    """A model that gives the cost of a plan, or predicts where the plan leads.

    With ``objective="terminal"`` and ``execute=1`` its cost is asked once a plan, for all
    candidates of an episode at once; any other objective asks for the cost up to each step. A
    prediction is decoded, and the task rates it. Neither is of a state that no plan led to, so
    there is no third arm, which rates true ones. A latent [Z] is the observation [O] that a plan
    began with, how many actions were taken, and room for ``longest`` of them [A]. Pictures stay
    outside of latents, which know them by a number, as long as few others were seen since; at
    least all that were seen before plans were last asked about.

    Parameters
    ----------
    model : object with ``get_cost``, or with ``rollout``
    action_size : int
        Numbers in one action, ``A``.
    info : callable or str
        Maps observations [B, O], or pictures [B, F, H, W, C] of 8 bits, to what the model reads
        [B, ...], goals included; or the key it reads the observation itself under. A model that
        wants the last ``action`` and is given none gets one of zeros.
    longest : int
        The longest plan, in actions.
    predicted : str, optional
        Rate plans by what `rollout` writes here [B, K, T, D], its last one, and not by their cost.
        Of observations that are numbers alone.
    decode : callable, optional
        Maps predictions [B, D] to observations [B, O]; without it, they are observations.
    columns : sequence of int, optional
        The columns of an observation that predictions are decoded to. All others stay as they were
        where the plan began: a goal, for one.
    """

    rates_states = False
    # Of pictures; where they are numbers, nobody asks.
    has_opaque_latents = True

    def __init__(
        self,
        model: Any,
        *,
        action_size: int,
        info: Info | str = "state",
        longest: int = 32,
        predicted: str | None = None,
        decode: Callable[[Tensor], Tensor] | None = None,
        columns: Sequence[int] | None = None,
    ) -> None:
        needed = "get_cost" if predicted is None else "rollout"
        if not callable(getattr(model, needed, None)):
            cure = " Name what its rollout predicts: predicted=." if predicted is None else ""
            raise WorldModelError(
                f"{type(model).__name__!r} has no {needed}(info, candidates).{cure}"
            )
        self._model, self._action_size, self._longest = model, action_size, longest
        self._info, self._predicted, self._decoder = info, predicted, decode
        self._columns = None if columns is None else list(columns)
        self._begin()

    def _begin(self) -> None:
        self._kept: Kept = OrderedDict()
        self._pictures: OrderedDict[float, Pictures] = OrderedDict()
        # Numbers of those that plans are yet to be asked about, or were last.
        self._latest: set[float] = set()
        self._is_asked = False
        self._takes_leavings = True
        if self._predicted is None:
            self.score, self.episode_costs = self._cost, self._episode_costs
        else:
            self.decode = self._decoded

    def __getstate__(self) -> dict[str, Any]:
        """Return what it was made of: what it keeps only saves time."""
        made = {"_kept", "_pictures", "_latest", "_is_asked", "_takes_leavings"}
        made |= {"score", "episode_costs", "decode"}
        return {name: value for name, value in vars(self).items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Begin anew from what it was made of."""
        vars(self).update(state)
        self._begin()

    def encode(self, observations: FloatArray) -> FloatArray:
        """Map observations [B, O], or pictures [B, F, H, W, C], to latents [B, Z]."""
        if observations.ndim > 2:
            if self._predicted is not None:
                raise WorldModelError(
                    f"predicted={self._predicted!r} is for observations of numbers, and these are "
                    f"pictures {list(observations.shape[1:])}. Leave it out, and give a model with "
                    f"a get_cost."
                )
            if self._is_asked:
                self._latest, self._is_asked = set(), False
            begun = np.array([[self._number_of(picture)] for picture in np.asarray(observations)])
        else:
            begun = np.asarray(observations, dtype=np.float64)
        room = 1 + self._longest * self._action_size
        return np.concatenate([begun, np.zeros((len(begun), room))], axis=1)

    def embed(self, pictures: Pictures) -> FloatArray:
        """Map pictures [B, F, H, W, C] to the ``emb`` [B, D] of the model's ``encode(info)``."""

        def ask(info: Given, plans: Tensor) -> Tensor:
            del plans
            given = {name: value[:, 0] for name, value in info.items()}
            embedded: Tensor = self._model.encode(given)["emb"]
            return embedded.flatten(1)

        if not callable(getattr(self._model, "encode", None)):
            raise WorldModelError(f"{type(self._model).__name__!r} has no encode(info)")
        still, parts = np.zeros((_AT_ONCE, 1, 1, self._action_size)), []
        for first in range(0, len(pictures), _AT_ONCE):
            some = pictures[first : first + _AT_ONCE]
            # Always as many, as of plans.
            numbers = self.encode(some[np.arange(_AT_ONCE) % len(some)])[:, :1]
            parts.append(self._answers(numbers, still, ask, OrderedDict())[: len(some)])
        return np.concatenate(parts)

    def _number_of(self, picture: Pictures) -> float:
        """Return a number of a picture [F, H, W, C] that is kept, and of no other."""
        digest = hashlib.blake2b(np.ascontiguousarray(picture).tobytes(), digest_size=6).digest()
        number = float(int.from_bytes(digest))
        self._pictures[number] = np.array(picture)
        self._pictures.move_to_end(number)
        self._latest.add(number)
        while len(self._pictures) > max(256, _ROOM // picture.nbytes, len(self._latest)):
            self._pictures.popitem(last=False)
        return number

    def _begun(self, observations: FloatArray) -> Pictures:
        """Return what plans began with: observations [N, O], or the pictures of their numbers."""
        if not self._pictures:
            return observations
        self._is_asked = True
        try:
            return np.stack([self._pictures[number] for number in observations[:, 0].tolist()])
        except KeyError:
            raise WorldModelError(
                "a plan is asked about that began with a picture which was seen too long ago"
            ) from None

    def rollout(self, latents: FloatArray, actions: FloatArray) -> FloatArray:
        """Map latents [B, Z] and actions [B, H, A] to the latents after each action [B, H, Z]."""
        current, imagined = np.array(latents, dtype=np.float64), []
        first = current.shape[1] - self._longest * self._action_size
        rows = np.arange(len(current))[:, None]
        for action in np.moveaxis(np.asarray(actions, dtype=np.float64), 1, 0):
            taken = current[:, first - 1].astype(int)
            if (taken >= self._longest).any():
                raise WorldModelError(
                    f"a plan has more than {self._longest} actions. Give longest= as much as the "
                    f"horizon of the planner."
                )
            columns = first + taken[:, None] * self._action_size + np.arange(self._action_size)
            current[rows, columns] = action
            current[:, first - 1] += 1
            imagined.append(current.copy())
        return np.stack(imagined, axis=1)

    def _cost(self, latents: FloatArray) -> FloatArray:
        """Rate latents [..., Z] by the cost of the plans that led there [...]."""
        return self._asked(latents, self._model.get_cost)[..., 0]

    def _decoded(self, latents: FloatArray) -> FloatArray:
        """Map latents [..., Z] to the observations [..., O] that plans are predicted to lead to."""
        read = self._asked(latents, self._last)
        size = latents.shape[-1] - self._longest * self._action_size - 1
        columns = list(range(size)) if self._columns is None else self._columns
        if read.shape[-1] != len(columns) or not set(columns) <= set(range(size)):
            named = "" if self._columns is None else f", of which columns= names {columns}"
            raise WorldModelError(
                f"predictions are read as {read.shape[-1]} numbers, and observations have "
                f"{size}{named}. Give decode= what maps predictions to observations, or to some "
                f"columns of one and say which: columns=(0, 1). All others stay as they were where "
                f"a plan began."
            )
        observations = np.array(latents[..., :size], dtype=np.float64)
        observations[..., columns] = read
        return observations

    def _last(self, info: dict[str, Tensor], plans: Tensor) -> Tensor:
        """Return the observations [B * K, O] that plans are predicted to end in."""
        written = self._model.rollout(info, plans)
        if self._predicted not in written:
            raise WorldModelError(
                f"rollout gave {', '.join(written)} and no {self._predicted!r}. Name what it "
                f"predicts: predicted=."
            )
        ends = written[self._predicted][:, :, -1]
        rows: Tensor = ends.reshape(-1, ends.shape[-1])
        return self._decoder(rows) if self._decoder else rows

    def _episode_costs(self, latents: FloatArray, plans: FloatArray) -> FloatArray:
        """Map latents [N, Z] and plans [N, K, H, A] from there to costs [N, K]."""
        first = latents.shape[1] - self._longest * self._action_size - 1
        observations, taken = latents[:, :first], latents[:, first].astype(int)
        if taken.any():
            begun = self.rollout(
                np.repeat(latents, plans.shape[1], axis=0), plans.reshape(-1, *plans.shape[2:])
            )
            return self._cost(begun[:, -1]).reshape(plans.shape[:2])
        return self._answers(observations, plans, self._model.get_cost, self._kept)

    def _asked(self, latents: FloatArray, ask: Ask) -> FloatArray:
        """Ask the model about the plan behind each latent [..., Z]; its answers [..., D]."""
        rows = np.asarray(latents, dtype=np.float64).reshape(-1, latents.shape[-1])
        first = rows.shape[1] - self._longest * self._action_size - 1
        taken = rows[:, first].astype(int)
        if not taken.all():
            raise WorldModelError("a plan without actions cannot be rated by this model")
        plans = rows[:, first + 1 :].reshape(len(rows), self._longest, self._action_size)
        begun, of = np.unique(rows[:, :first], axis=0, return_inverse=True)
        answers: FloatArray = np.empty(0)
        for length in np.unique(taken):
            for number in range(len(begun)):
                own = np.flatnonzero((taken == length) & (of.reshape(-1) == number))
                for some in np.array_split(own, range(_AT_ONCE, len(own), _AT_ONCE)):
                    if not some.size:
                        continue
                    # Always as many, so that none depends on how many others there are.
                    filled = plans[np.resize(some, _AT_ONCE), :length]
                    part = self._answers(begun[number][None], filled[None], ask, OrderedDict())
                    part = part.reshape(_AT_ONCE, -1)[: len(some)]
                    if not answers.size:
                        answers = np.empty((len(rows), part.shape[1]))
                    answers[some] = part
        return answers.reshape(*latents.shape[:-1], -1)

    def _answers(
        self, observations: FloatArray, plans: FloatArray, ask: Ask, kept: Kept
    ) -> FloatArray:
        """Ask about plans [N, K, H, A] from observations [N, O]; answers [N, K, ...]."""
        weight = next(iter(getattr(self._model, "parameters", list)()), torch.zeros(0))
        begun = self._begun(observations)
        there = [
            torch.tensor(v, dtype=None if is_picture(v) else weight.dtype, device=weight.device)
            for v in (begun, plans)
        ]
        key = (observations.tobytes(), plans.shape)
        reading = kept.pop(key, None)
        if reading is None:
            read = self._info(there[0]) if callable(self._info) else {self._info: there[0]}
            many = plans.shape[1]
            given = {k: v[:, None].expand(len(v), many, *v.shape[1:]) for k, v in read.items()}
            number = torch.full(plans.shape[:2], next(_NUMBERS), device=weight.device)
            named = {"id": number, "step_idx": torch.zeros_like(number)}
            reading = Reading(given=given, named=named)
        with torch.inference_mode():
            answers = self._answer(ask, reading, there[1])
        kept[key] = reading
        while len(kept) > _MOST_KEPT:
            kept.popitem(last=False)
        return np.asarray(answers.double().cpu().numpy())

    def _answer(self, ask: Ask, reading: Reading, plans: Tensor) -> Tensor:
        """Ask about plans [N, K, H, A], and add what the model misses and nobody need give."""
        while True:
            # As its own solver does: what a model makes of start and goal, and leaves in what it is
            # given, it finds there in the next iteration.
            left = reading.left if self._takes_leavings else {}
            info = {**reading.named, **reading.given, **left}
            try:
                answers = ask(info, plans)
            except (KeyError, AssertionError) as error:
                if isinstance(error, AssertionError) and left:
                    # It keeps what it made by itself, and refuses to make it again there.
                    self._takes_leavings = False
                else:
                    _check_misses_action(error, reading.given)
                    reading.given["action"] = torch.zeros_like(plans[:, :, :1])
            else:
                reading.left = info
                return answers


def _check_misses_action(error: KeyError | AssertionError, given: Given) -> None:
    """Raise what tells the user, unless a model misses the last action, which nobody need give."""
    if isinstance(error, AssertionError):
        # LeWM's own: "goal not in info_dict".
        if " not in " in str(error) and "action" not in str(error):
            raise WorldModelError(
                f"the model asserts {str(error)!r}, and info= gives {', '.join(given)}. Return "
                f"what it asks for from info=, a row for each observation."
            ) from error
        if "action" in given or "action" not in str(error):
            raise error
        return
    name = error.args[0] if error.args else ""
    if name in given or not isinstance(name, str):
        raise error
    if name != "action":
        raise WorldModelError(
            f"the model reads {name!r}, and info= gives {', '.join(given)}. Return it from info=, "
            f"a row for each observation."
        ) from error
