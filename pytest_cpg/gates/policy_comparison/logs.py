"""Logs: queries about stretches of recorded episodes, whose rewards are the true answer.

No simulator and no policy is needed: a side is a place where an episode was, and what was done from
there. Which of two stretches earned more is known.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pytest_cpg.contracts import BoolArray, ComponentError, FloatArray, IntArray
from pytest_cpg.contracts.streams import Stream
from pytest_cpg.gates.policy_comparison.generate import Drawn
from pytest_cpg.gates.policy_comparison.queries import PolicyQueries
from pytest_cpg.stats.intervals import check_count
from pytest_cpg.world_models.ensembles.rollout import Terminated
from pytest_cpg.world_models.transitions import Transitions

# Of so many stretches side b is the one that begins nearest to side a: else the start decides, and
# no model has to know what the actions do.
_NEAR = 64
# Of the spread of all returns over a horizon: smaller differences are left out as ambiguous.
_USUAL_GAP = 0.1
_NEEDED = ("observations", "actions", "rewards", "terminals")
_OPTIONAL = ("timeouts", "next_observations")

# A path of D4RL's HDF5 layout, its arrays by name, or episodes such as a Minari dataset has.
Source: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Iterable[Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Episode:
    """What was recorded from one reset to the next: ``T`` actions [T, A] and rewards [T].

    The last of ``T + 1`` observations is what the last step led to; of ``T`` nobody wrote that
    down. ``terminated`` says whether the last step ended the episode before its time.
    """

    observations: FloatArray
    actions: FloatArray
    rewards: FloatArray
    terminated: bool

    def __post_init__(self) -> None:
        steps = len(self.actions)
        if not steps or len(self.rewards) != steps or len(self.observations) - steps not in (0, 1):
            raise ValueError(
                f"an episode has {len(self.observations)} observations, {steps} actions and "
                f"{len(self.rewards)} rewards: give T actions and rewards, and T + 1 observations"
            )

    @property
    def ends(self) -> BoolArray:
        """Whether each step ended the episode, [T]."""
        return np.asarray(self.terminated & (np.arange(len(self.actions)) == len(self.actions) - 1))


@dataclass(frozen=True, slots=True)
class Episodes:
    """Recorded episodes: what to train on, and what to ask about; reports call them by ``name``."""

    episodes: tuple[Episode, ...]
    name: str = "logs"

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def transitions(self) -> Transitions:
        """All steps of which is known where they led to, with rewards and terminations."""
        rows = []
        for episode in self.episodes:
            # A step without a next observation has none: not its own, nor the next episode's.
            steps = min(len(episode.actions), len(episode.observations) - 1)
            seen = episode.observations[: steps + 1]
            taken = (part[:steps] for part in (episode.actions, episode.rewards, episode.ends))
            rows.append((seen[:-1], seen[1:], *taken))
        before, after, actions, rewards, ends = map(np.concatenate, zip(*rows, strict=True))
        return Transitions(
            observations=before,
            actions=actions,
            next_observations=after,
            rewards=rewards,
            terminations=ends,
        )

    def split(self, every: int = 5) -> tuple[Episodes, Episodes]:
        """Return what to train on, and every fifth episode, to ask about what nobody trained on."""
        check_count("every", every, least=2)
        held = self.episodes[every - 1 :: every]
        trained = tuple(
            episode for n, episode in enumerate(self.episodes) if n % every != every - 1
        )
        if not held:
            raise ValueError(
                f"{len(self)} episodes leave none to ask about where every {every}th is held out: "
                f"record more, or write split(every={max(2, len(self))})"
            )
        return Episodes(trained, self.name), Episodes(held, self.name)


def read_episodes(source: Source, *, name: str = "") -> Episodes:
    """Return recorded episodes, which reports call by ``name``, or by the file's.

    The source is a file in D4RL's HDF5 layout; its arrays by name, as ``env.get_dataset()`` gives
    them; or episodes with observations [T + 1, O], actions, rewards and terminations, such as a
    Minari dataset, or a list of your own. Raises ComponentError where h5py is not installed,
    ValueError for what has another layout.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return Episodes(tuple(_cut(_hdf5(path))), name or path.stem)
    if isinstance(source, Mapping):
        return Episodes(tuple(_cut(source)), name or "logs")
    if not isinstance(source, Iterable):
        raise ValueError(f"need a path, arrays by name or episodes, got {source!r:.60}")
    return Episodes(tuple(map(_episode, source)), name or "logs")


def queries_from_episodes(
    episodes: Episodes | Source,
    *,
    seed: int,
    horizons: Sequence[int] = (10, 20, 30, 40, 50),
    candidates: int = 200,
    gap: float | None = None,
    discount: float = 1.0,
    terminated: Terminated | None = None,
) -> PolicyQueries:
    """Return queries about two recorded stretches from starts that are near: which earned more.

    docs/policy-queries.md has a table of the arguments; ``episodes`` may be what `read_episodes`
    takes. A stretch is as many steps as the horizon has, or fewer where its episode ended; horizons
    that no episode is long enough for are left out. Queries whose side a is of one episode are no
    independent evidence, and are drawn together.
    """
    logs = episodes if isinstance(episodes, Episodes) else read_episodes(episodes)
    check_count("candidates", candidates, least=1)
    parts = [
        _asked(logs.episodes, horizon, seed, candidates, gap, discount)
        for horizon in horizons
        if check_count("horizons", horizon, least=1)
    ]
    answerable = [part for part in parts if part is not None and len(part["horizons"])]
    if not answerable:
        raise ValueError(
            f"no two stretches of {len(logs)} episodes differ by more than the gap within "
            f"{tuple(horizons)} steps: ask about shorter horizons, or lower the gap"
        )
    most = max(part["actions_a"].shape[1] for part in answerable)
    for part in answerable:
        for side in "ab":
            room = ((0, 0), (0, most - part[f"actions_{side}"].shape[1]), (0, 0))
            part[f"actions_{side}"] = np.pad(part[f"actions_{side}"], room, mode="edge")
    arrays: Any = {key: np.concatenate([part[key] for part in answerable]) for key in answerable[0]}
    return PolicyQueries(
        environment=logs.name, policies=(), discount=discount, terminated=terminated, **arrays
    )


def _asked(
    episodes: Sequence[Episode],
    horizon: int,
    seed: int,
    candidates: int,
    gap: float | None,
    discount: float,
) -> dict[str, Any] | None:
    """Return the arrays of all queries of one horizon; None where no episode is long enough."""
    lengths = np.array([len(episode.actions) for episode in episodes])
    shorter = np.array([0 if episode.terminated else horizon - 1 for episode in episodes])
    counts = np.maximum(lengths - shorter, 0)
    if counts.sum() < 2:
        return None
    of_episode = np.repeat(np.arange(len(episodes)), counts)
    begins = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts)
    seen = np.concatenate([episode.observations[: len(episode.actions)] for episode in episodes])
    starts = seen[(lengths.cumsum() - lengths)[of_episode] + begins]
    spread = np.where(seen.std(axis=0) > 0, seen.std(axis=0), 1.0)
    rng = Stream.QUERIES.of(seed, Drawn.STRETCHES, horizon)
    first = rng.integers(len(starts), size=candidates)
    others = rng.integers(len(starts), size=(candidates, _NEAR))
    apart = (((starts[others] - starts[first, None]) / spread) ** 2).sum(axis=2)
    # The same stretch again is no question.
    apart[others == first[:, None]] = np.inf
    second = others[np.arange(candidates), apart.argmin(axis=1)]
    places = np.stack([of_episode, begins], axis=1)
    returns, actions = _stretches(episodes, places[np.r_[first, second]], horizon, discount)
    earned = returns.reshape(2, -1)
    least = _USUAL_GAP * returns.std() if gap is None else gap
    rows_apart = np.flatnonzero(np.abs(earned[0] - earned[1]) > least)
    arrays: dict[str, Any] = {
        "horizons": np.full(len(rows_apart), horizon),
        "episodes": places[first[rows_apart], 0],
    }
    for number, (side, rows) in enumerate(zip("ab", (first, second), strict=True)):
        arrays |= {
            f"observations_{side}": starts[rows[rows_apart]],
            f"policy_{side}": np.zeros(len(rows_apart), dtype=np.int64),
            f"actions_{side}": actions.reshape(2, candidates, horizon, -1)[number, rows_apart],
            f"returns_{side}": earned[number, rows_apart],
        }
    return arrays


def _stretches(
    episodes: Sequence[Episode], places: IntArray, horizon: int, discount: float
) -> tuple[FloatArray, FloatArray]:
    """Return what stretches earned [B], and what was done [B, H, A], the last action repeated."""
    returns, actions = [], []
    for number, start in places:
        episode, stretch = episodes[number], slice(start, start + horizon)
        rewards, done = episode.rewards[stretch], episode.actions[stretch]
        returns.append(rewards @ discount ** np.arange(len(rewards)))
        actions.append(np.pad(done, ((0, horizon - len(done)), (0, 0)), mode="edge"))
    return np.array(returns), np.stack(actions)


def _episode(given: Any) -> Episode:
    """Return an episode of Minari's shape: attributes, or entries, of arrays."""
    names = ("observations", "actions", "rewards", "terminations")
    is_mapping = isinstance(given, Mapping)
    arrays = {n: given.get(n) if is_mapping else getattr(given, n, None) for n in names}
    for name, values in arrays.items():
        if values is None or isinstance(values, Mapping | tuple):
            raise ValueError(
                f"an episode has {name} of {type(values).__name__}: give arrays, observations "
                f"[T + 1, O], actions [T, A], rewards [T] and terminations [T]; flatten others"
            )
    ends = np.asarray(arrays["terminations"], dtype=bool)
    return _made(arrays["observations"], arrays["actions"], arrays["rewards"], bool(ends.any()))


def _made(observations: Any, actions: Any, rewards: Any, terminated: bool) -> Episode:
    seen, done = (np.asarray(values, dtype=np.float64) for values in (observations, actions))
    return Episode(
        observations=seen.reshape(len(seen), -1),
        actions=done.reshape(len(done), -1),
        rewards=np.asarray(rewards, dtype=np.float64).reshape(-1),
        terminated=terminated,
    )


def _cut(given: Mapping[str, Any]) -> Iterator[Episode]:
    """Yield the episodes of D4RL's arrays, which hold one after the other."""
    missing = [name for name in _NEEDED if name not in given]
    if missing:
        raise ValueError(
            f"there is no {missing[0]!r} among {', '.join(sorted(given)) or 'no arrays'}: D4RL's "
            f"layout has observations, actions, rewards, terminals and timeouts"
        )
    arrays = {name: np.asarray(given[name]) for name in _NEEDED}
    count = len(arrays["actions"])
    after = np.asarray(given["next_observations"]) if "next_observations" in given else None
    terminals = arrays["terminals"].reshape(-1).astype(bool)
    if "timeouts" in given:
        is_last = terminals | np.asarray(given["timeouts"]).reshape(-1).astype(bool)
    elif after is not None:
        follows = (after[:-1] == arrays["observations"][1:]).reshape(count - 1, -1).all(axis=1)
        is_last = terminals | np.r_[~follows, True]
    else:
        raise ValueError(
            "the logs have neither timeouts nor next_observations, so nobody can tell where an "
            "episode was cut: give timeouts, true at the last step of each"
        )
    begins = np.flatnonzero(np.r_[True, is_last[:-1]])
    for first, end in zip(begins, [*begins[1:], count], strict=True):
        rows = slice(first, end)
        seen = arrays["observations"][rows]
        if after is not None:
            seen = np.concatenate([seen, after[end - 1 : end]])
        yield _made(seen, arrays["actions"][rows], arrays["rewards"][rows], terminals[end - 1])


def _hdf5(path: Path) -> dict[str, Any]:
    """Return those arrays of an HDF5 file that are read, by name."""
    try:
        import h5py
    except ModuleNotFoundError:
        raise ComponentError(
            f'{path} is read by h5py, which is not installed. Type: pip install "pytest-cpg[hdf5]"'
        ) from None
    try:
        with h5py.File(path, "r") as file:
            return {name: file[name][()] for name in {*_NEEDED, *_OPTIONAL} & {*file}}
    except OSError as error:
        raise ValueError(f"cannot read {path} as HDF5: {error}") from None
