import hashlib
import json
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fakes import arm as fake_arm
from fakes import stored_of
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from pytest_cpg.contracts.codec import encode
from pytest_cpg.episodes import arm_cache
from pytest_cpg.episodes.arm import Latency
from pytest_cpg.episodes.arm_cache import (
    ArmCache,
)
from pytest_cpg.tasks.grids import maze

KEY, OTHER_KEY = "a" * 64, "b" * 64
MAZE = maze()
PLENTY = 10**7


@pytest.fixture
def cache(tmp_path):
    return ArmCache(tmp_path / "arms", max_bytes=PLENTY)


def the_file(tmp_path):
    (path,) = (tmp_path / "arms").iterdir()
    return path


def same(stored, other):
    return arm_cache._file_of(KEY, stored) == arm_cache._file_of(KEY, other)


finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def stored_arms(draw):
    episodes = draw(st.integers(1, 12))

    def column(values):
        return draw(st.lists(values, min_size=episodes, max_size=episodes))

    return replace(
        fake_arm(draw(st.text()), column(st.booleans()), returns=column(finite)),
        steps=column(st.integers(0, 2**62)),
        confidences=draw(st.none() | st.just(column(finite))),
        seconds=draw(finite),
        latency_ms=Latency(draw(finite), draw(finite)),
        actions=draw(
            st.just(()) | arrays(np.float64, (episodes, 3, 2), elements=finite).map(tuple)
        ),
        plans=column(st.integers(1, 2**62)),
        model_steps=column(st.integers(0, 2**62)),
        starts=column(st.integers(0, 2**56 - 1)),
    )


@settings(max_examples=60)
@given(stored=stored_arms())
def test_what_was_stored_is_loaded_to_the_bit(stored, tmp_path_factory):
    cache = ArmCache(tmp_path_factory.mktemp("arms"), max_bytes=PLENTY)
    assert cache.store(KEY, stored) is None
    found, note = cache.load(KEY)
    assert note is None
    for name in ("successes", "steps", "indices", "returns", "confidences"):
        old, new = getattr(stored, name), getattr(found, name)
        assert (old is None and new is None) or old.tobytes() == new.tobytes()
    assert encode(found) == encode(stored)
    both = zip(found.actions, stored.actions, strict=True)
    assert all(new.tobytes() == old.tobytes() and new.shape == old.shape for new, old in both)
    for name in ("plans", "model_steps", "starts"):
        assert np.array_equal(getattr(stored, name), getattr(found, name))


def test_keys_are_apart(cache):
    cache.store(KEY, stored_of(3))
    cache.store(OTHER_KEY, stored_of(5))
    assert cache.load(KEY)[0].episodes == 3
    assert cache.load(OTHER_KEY)[0].episodes == 5
    cache.discard(KEY)
    assert cache.load(KEY) == (None, None)
    assert cache.load(OTHER_KEY)[0] is not None


def test_there_is_nothing_before_the_first_arm(cache, tmp_path):
    assert cache.load(KEY) == (None, None)
    cache.discard(KEY)
    assert not (tmp_path / "arms").exists()


def test_the_longer_arm_stays_and_of_two_of_one_length_the_first(cache, tmp_path):
    # As texts ten are fewer than nine.
    for episodes, kept in ((5, 5), (3, 5), (9, 9), (1, 9), (10, 10)):
        assert cache.store(KEY, stored_of(episodes, rng=kept)) is None
        assert cache.load(KEY)[0].episodes == kept
        assert the_file(tmp_path).name == f"{KEY}-{kept}.json"
    cache.store(KEY, stored_of(10, rng=2))
    assert same(cache.load(KEY)[0], stored_of(10, rng=10))


def test_of_two_that_were_stored_at_once_the_longer_is_loaded(cache, tmp_path):
    cache.store(KEY, stored_of(5))
    path = the_file(tmp_path)
    short = path.read_bytes()
    cache.store(KEY, stored_of(12))
    path.write_bytes(short)
    assert cache.load(KEY)[0].episodes == 12
    cache.store(KEY, stored_of(11))
    cache.store(KEY, stored_of(13))
    assert the_file(tmp_path).name == f"{KEY}-13.json"


def test_an_arm_that_lost_a_race_leaves(cache, tmp_path, monkeypatch):
    """Another process stores a longer arm just before this one is in place."""
    real = os.replace

    def overtaken(source, target):
        monkeypatch.setattr(os, "replace", real)
        cache.store(KEY, stored_of(9))
        real(source, target)

    monkeypatch.setattr(os, "replace", overtaken)
    assert cache.store(KEY, stored_of(4)) is None
    assert the_file(tmp_path).name == f"{KEY}-9.json"


def test_an_arm_that_is_replaced_while_it_is_read_is_found(cache, monkeypatch):
    cache.store(KEY, stored_of(4))
    real = Path.read_bytes

    def overtaken(path):
        monkeypatch.setattr(Path, "read_bytes", real)
        cache.store(KEY, stored_of(9))
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", overtaken)
    stored, note = cache.load(KEY)
    assert stored.episodes == 9
    assert note is None


def test_only_arms_from_the_first_episode_on_are_kept(cache):
    with pytest.raises(ValueError, match="from episode 0 on"):
        cache.store(KEY, stored_of(3, first=1))


def store_in_turns(folder, lengths, barrier):
    cache = ArmCache(folder, max_bytes=PLENTY)
    barrier.wait()
    for episodes in lengths:
        note = cache.store(KEY, stored_of(episodes))
        assert note is None, note
        stored, note = cache.load(KEY)
        assert note is None, note
        # Three readings in a row might all find their file replaced.
        assert stored is None or stored.episodes >= episodes


def test_processes_that_store_one_key_at_once_keep_the_longest(tmp_path):
    folder = tmp_path / "arms"
    context = multiprocessing.get_context("spawn")
    # A process that never comes must not be waited for without end.
    barrier = context.Barrier(3, timeout=120)
    lengths = (range(1, 160, 2), range(2, 161, 2))
    processes = [
        context.Process(target=store_in_turns, args=(folder, each, barrier), daemon=True)
        for each in lengths
    ]
    for process in processes:
        process.start()
    barrier.wait()
    cache, seen = ArmCache(folder, max_bytes=PLENTY), [0]
    while any(process.is_alive() for process in processes):
        stored, note = cache.load(KEY)
        assert note is None
        seen.append(stored.episodes if stored else seen[-1])
    for process in processes:
        process.join()
        assert process.exitcode == 0
    assert seen == sorted(seen)
    assert the_file(tmp_path).name == f"{KEY}-160.json"
    assert same(cache.load(KEY)[0], stored_of(160))


def test_a_truncated_file_is_no_arm(cache, tmp_path):
    cache.store(KEY, stored_of(20))
    path = the_file(tmp_path)
    data = path.read_bytes()
    assert len(data) > 1000
    for length in [*range(0, len(data), 50), len(data) - 1]:
        path.write_bytes(data[:length])
        stored, note = cache.load(KEY)
        assert stored is None
        assert note == f"{path} is not as it was written; its arm is run again"
        # Told once, and out of the way.
        assert cache.load(KEY) == (None, None)
    path.write_bytes(data)
    assert same(cache.load(KEY)[0], stored_of(20))


def digest(values):
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def set_to(*where, value):
    def change(content):
        inner = content
        for name in where[:-1]:
            inner = inner[name]
        inner[where[-1]] = value

    return change


def dropped(*where):
    def change(content):
        inner = content
        for name in where[:-1]:
            inner = inner[name]
        del inner[where[-1]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_to("schema", value=arm_cache.SCHEMA + 1),
        set_to("schema", value=None),
        set_to("key", value=OTHER_KEY),
        set_to("sha256", value="0" * 64),
        set_to("more", value=1),
        set_to("stored", value=[]),
        set_to("stored", "more", value=1),
        set_to("stored", "plans", value=[1, 1]),
        set_to("stored", "plans", value=[1, 0, 1]),
        set_to("stored", "plans", value=[1.5, 1.5, 1.5]),
        set_to("stored", "model_steps", value=[10**30, 1, 1]),
        set_to("stored", "starts", value=[[1], [2], [3]]),
        set_to("stored", "arm", value="arm"),
        set_to("stored", "arm", "successes", value=[2, 1, 1]),
        set_to("stored", "arm", "successes", value="110"),
        set_to("stored", "arm", "successes", value=[]),
        set_to("stored", "arm", "steps", value=[1.5, 2.0, 2.0]),
        set_to("stored", "arm", "steps", 0, value=None),
        set_to("stored", "arm", "returns", 0, value=None),
        set_to("stored", "arm", "returns", 0, value=1),
        set_to("stored", "arm", "returns", 0, value=float("nan")),
        set_to("stored", "arm", "returns", value={}),
        set_to("stored", "arm", "indices", value=[0, 1, 3]),
        set_to("stored", "arm", "confidences", value=[0.5]),
        set_to("stored", "arm", "latency_ms", value=[1.0]),
        set_to("stored", "arm", "latency_ms", value=3),
        set_to("stored", "arm", "surprise", value=3),
        dropped("key"),
        dropped("stored"),
        dropped("stored", "arm"),
        set_to("stored", "actions", value=[2, ["AAAA"]]),
        dropped("stored", "actions"),
        dropped("stored", "starts"),
        dropped("stored", "arm", "name"),
        dropped("stored", "arm", "returns"),
    ],
)
def test_a_foreign_file_is_no_arm_even_with_its_digest(change, cache, tmp_path):
    cache.store(KEY, stored_of(3))
    path = the_file(tmp_path)
    content = json.loads(path.read_bytes())
    assert content["sha256"] == digest(content["stored"])
    assert (content["schema"], content["key"]) == (arm_cache.SCHEMA, KEY)
    change(content)
    if content.get("sha256") != "0" * 64 and "stored" in content:
        content["sha256"] = digest(content["stored"])
    path.write_text(json.dumps(content, sort_keys=True), encoding="utf-8")
    stored, note = cache.load(KEY)
    assert stored is None
    assert str(path) in note
    assert cache.store(KEY, stored_of(3)) is None
    assert same(cache.load(KEY)[0], stored_of(3))


@pytest.mark.parametrize(
    "data",
    [b"", b"null", b"[]", b"3", b'"stored"', b"\xff\xfe", b"[" * 10**5, b"9" * 5000, b"{}\n{}"],
    ids=lambda data: repr(data[:8]),
)
def test_a_file_that_is_something_else_is_no_arm(data, cache, tmp_path):
    (tmp_path / "arms").mkdir()
    (tmp_path / "arms" / f"{KEY}-7.json").write_bytes(data)
    stored, note = cache.load(KEY)
    assert stored is None
    assert "not as it was written" in note
    assert not list((tmp_path / "arms").iterdir())


def test_a_file_under_another_name_is_no_arm(cache, tmp_path):
    cache.store(KEY, stored_of(3))
    the_file(tmp_path).rename(tmp_path / "arms" / f"{KEY}-8.json")
    stored, note = cache.load(KEY)
    assert stored is None
    assert "not as it was written" in note


def test_a_broken_arm_gives_way_to_a_shorter_one(cache, tmp_path):
    cache.store(KEY, stored_of(3))
    broken = tmp_path / "arms" / f"{KEY}-8.json"
    broken.write_bytes(b"{")
    stored, note = cache.load(KEY)
    assert stored.episodes == 3
    assert "-8.json" in note
    broken.write_bytes(b"{")
    assert cache.store(KEY, stored_of(4)) is None
    assert the_file(tmp_path).name == f"{KEY}-4.json"


def test_a_folder_in_place_of_a_file_and_a_file_in_place_of_the_folder_are_told(cache, tmp_path):
    (tmp_path / "arms" / f"{KEY}-8.json").mkdir(parents=True)
    stored, note = cache.load(KEY)
    assert stored is None
    assert note.startswith("a stored arm cannot be read: ")
    (tmp_path / "arms" / f"{KEY}-8.json").rmdir()
    (tmp_path / "arms").rmdir()
    (tmp_path / "arms").write_text("mine", encoding="utf-8")
    stored, note = cache.load(KEY)
    assert stored is None
    assert note.startswith("a stored arm cannot be read: ")
    assert cache.store(KEY, stored_of(3)).startswith("the oracle arm cannot be kept: ")
    cache.discard(KEY)
    assert (tmp_path / "arms").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("where", "name", "error"),
    [
        (os, "replace", PermissionError(13, "Permission denied")),
        (os, "fsync", OSError(28, "No space left on device")),
        (Path, "mkdir", OSError(30, "Read-only file system")),
    ],
)
def test_what_cannot_be_written_is_told_and_leaves_nothing(
    where, name, error, cache, tmp_path, monkeypatch
):
    cache.store(KEY, stored_of(3))

    def refuse(*args, **kwargs):
        raise error

    monkeypatch.setattr(where, name, refuse)
    assert cache.store(KEY, stored_of(9)) == f"the oracle arm cannot be kept: {error}"
    monkeypatch.undo()
    assert the_file(tmp_path).name == f"{KEY}-3.json"
    assert cache.load(KEY)[0].episodes == 3


def test_a_folder_that_can_only_be_read_is_as_good(cache, monkeypatch):
    cache.store(KEY, stored_of(3))

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    assert cache.load(KEY)[0].episodes == 3
    cache.discard(KEY)
    assert cache.load(KEY)[0].episodes == 3


SIZE = len(arm_cache._file_of(KEY, stored_of(30)))
KEYS = [letter * 64 for letter in "0123456789"]


def age(folder, key, seconds):
    (path,) = folder.glob(f"{key}-*.json")
    os.utime(path, (seconds, seconds))


def names(folder):
    return {path.name for path in folder.iterdir()}


def test_the_least_recently_used_are_dropped_first(tmp_path):
    folder = tmp_path / "arms"
    cache = ArmCache(folder, max_bytes=3 * SIZE + SIZE // 2)
    for number, each in enumerate(KEYS[:3]):
        cache.store(each, stored_of(30))
        age(folder, each, 1000 + number)
    # The oldest was used again, which is what counts.
    cache.load(KEYS[0])
    (folder / "notes.txt").write_text("x" * 10 * SIZE, encoding="utf-8")
    assert cache.store(KEYS[3], stored_of(30)) is None
    kept = {f"{KEYS[number]}-30.json" for number in (0, 2, 3)}
    assert names(folder) == {*kept, "notes.txt"}


def test_a_forgotten_temporary_file_is_dropped_in_its_turn(tmp_path):
    folder = tmp_path / "arms"
    cache = ArmCache(folder, max_bytes=2 * SIZE)
    cache.store(KEYS[0], stored_of(30))
    leftover = folder / ".cpg-0123456789abcdef.tmp"
    leftover.write_bytes(b"x" * SIZE)
    os.utime(leftover, (1000, 1000))
    assert cache.load(KEYS[1]) == (None, None)
    cache.store(KEYS[2], stored_of(30))
    assert names(folder) == {f"{KEYS[0]}-30.json", f"{KEYS[2]}-30.json"}


def test_a_temporary_file_of_another_process_at_work_stays(tmp_path):
    folder = tmp_path / "arms"
    cache = ArmCache(folder, max_bytes=SIZE)
    cache.store(KEYS[0], stored_of(30))
    (folder / ".cpg-0123456789abcdef.tmp").write_bytes(b"x" * SIZE)
    cache.store(KEYS[2], stored_of(30))
    assert names(folder) == {f"{KEYS[2]}-30.json", ".cpg-0123456789abcdef.tmp"}


def test_an_arm_that_is_too_large_costs_no_other_its_place(tmp_path):
    folder = tmp_path / "arms"
    ArmCache(folder, max_bytes=PLENTY).store(KEYS[0], stored_of(30))
    assert ArmCache(tmp_path / "just", max_bytes=SIZE).store(KEYS[1], stored_of(30)) is None
    note = ArmCache(folder, max_bytes=SIZE - 1).store(KEYS[1], stored_of(30))
    assert note == f"the oracle arm takes {SIZE} of {SIZE - 1} bytes"
    assert names(folder) == {f"{KEYS[0]}-30.json"}


def test_a_file_that_another_process_drops_meanwhile_is_no_matter(tmp_path, monkeypatch):
    folder = tmp_path / "arms"
    cache = ArmCache(folder, max_bytes=2 * SIZE)
    for number, each in enumerate(KEYS[:2]):
        cache.store(each, stored_of(30))
        age(folder, each, 1000 + number)
    real = os.stat

    def gone(path, *args, **kwargs):
        if Path(path).name.startswith(KEYS[0]):
            Path(path).unlink()
            monkeypatch.setattr(os, "stat", real)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "stat", gone)
    assert cache.store(KEYS[2], stored_of(30)) is None
    assert names(folder) == {f"{KEYS[1]}-30.json", f"{KEYS[2]}-30.json"}


@settings(max_examples=30)
@given(lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 60)), max_size=25))
def test_the_folder_never_takes_more_than_it_may(lengths, tmp_path_factory):
    folder = tmp_path_factory.mktemp("arms")
    cache = ArmCache(folder, max_bytes=4 * SIZE)
    for number, episodes in lengths:
        assert cache.store(KEYS[number], stored_of(episodes)) is None
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 4 * SIZE
        # What was stored just now was used last.
        assert cache.load(KEYS[number])[0].episodes >= episodes


def flipped(content, *, seed):
    """Return a file's bytes with one or two bits the other way."""
    rng, content = np.random.default_rng(seed), bytearray(content)
    for place in rng.choice(8 * len(content), size=rng.integers(1, 3), replace=False):
        content[place // 8] ^= 1 << place % 8
    return bytes(content)


def test_a_snapshot_with_flipped_bits_is_absent(cache, tmp_path):
    values = {"done": np.array(3), "states": np.arange(12.0).reshape(6, 2), "plans": np.arange(6)}
    cache.store_snapshot(KEY, values)
    path = the_file(tmp_path)
    content = path.read_bytes()
    told = 0
    for seed in range(400):
        path.write_bytes(flipped(content, seed=seed))
        found = cache.load_snapshot(KEY)
        # Not every byte of an archive is read.
        if found is not None:
            assert all(np.array_equal(found[name], values[name]) for name in values)
            continue
        assert not path.exists()
        told += 1
    assert told > 200
    path.unlink(missing_ok=True)
    assert cache.load_snapshot(KEY) is None


def test_an_arm_with_flipped_bits_is_absent(cache, tmp_path):
    cache.store(KEY, stored_of(6))
    path = the_file(tmp_path)
    content = path.read_bytes()
    for seed in range(400):
        path.write_bytes(flipped(content, seed=seed))
        assert cache.load(KEY) == (None, f"{path} is not as it was written; its arm is run again")
