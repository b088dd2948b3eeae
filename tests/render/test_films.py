"""Films: what is drawn of states, and the files that show two episodes side by side."""

import base64
import io
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("PIL")

from PIL import Image

from pytest_cpg.contracts import ComponentError, CpgError
from pytest_cpg.episodes.replay import ArmTraces, EpisodeTrace
from pytest_cpg.render.films import check_can_render, strip_of, write_film
from pytest_cpg.tasks import TASKS, renderer
from pytest_cpg.tasks.grids import maze
from pytest_cpg.tasks.pictures import FILM, HEIGHT, WIDTH, draw_grid
from pytest_cpg.tasks.renderer import renderer_of

CAPTIONS = ("oracle: solved", "learned: not solved")
# Left top corners of the two episodes in an animation, in pixels.
LEFT, RIGHT, TOP = 8, 16 + WIDTH, 20


def grey(states):
    """A world whose state is a shade of grey."""
    shades = states[:, 0].astype(np.uint8)
    return np.broadcast_to(shades[:, None, None, None], (len(states), 30, 40, 3))


def task(render=grey, control_period=0.02):
    return SimpleNamespace(name="shades", control_period=control_period, render=render)


def shades(length, *, end=200):
    return np.linspace(0, end, length)[:, None]


@pytest.fixture
def film(tmp_path):
    def write(oracle, learned, *, of=None, captions=CAPTIONS, name="film", folder=tmp_path):
        return write_film(of or task(), oracle, learned, folder, name=name, captions=captions)

    return write


def frames_of(path):
    """The frames of an animation [B, H, W, 3], and how long each is shown in milliseconds."""
    frames, durations = [], []
    with Image.open(path) as animation:
        for number in range(animation.n_frames):
            animation.seek(number)
            frames.append(np.asarray(animation.convert("RGB")))
            durations.append(animation.info["duration"])
    return np.stack(frames), durations


def halves(frames):
    """The oracle's and the learned arm's part of an animation's frames."""
    rows = slice(TOP, TOP + HEIGHT)
    return tuple(frames[:, rows, left : left + WIDTH] for left in (LEFT, RIGHT))


def test_episodes_are_side_by_side_and_the_shorter_one_stays_on_its_last_frame(film):
    frames, _ = frames_of(film(shades(6), shades(11)))
    oracle, learned = (half[:, 0, 0, 0].astype(int) for half in halves(frames))
    assert oracle == pytest.approx([0, 40, 80, 120, 160, *[200] * 6], abs=5)
    assert learned == pytest.approx(np.linspace(0, 200, 11), abs=5)


def test_equal_episodes_look_equal(film):
    oracle, learned = halves(frames_of(film(shades(5), shades(5)))[0])
    np.testing.assert_array_equal(oracle, learned)


@pytest.mark.parametrize(
    ("length", "period", "frames", "milliseconds"),
    [
        (501, 0.01, 101, 50),
        (11, 0.02, 11, 20),
        (9, 0.01, 5, 20),
        (11, 0.001, 2, 20),
        (8, 1.0, 8, 200),
        (1, 0.01, 1, None),
        (3, 0.0, 3, 20),
    ],
)
def test_films_run_in_real_time_where_a_gif_can(film, length, period, frames, milliseconds):
    films = film(shades(length), shades(1), of=task(control_period=period))
    shown, durations = frames_of(films)
    assert len(shown) == frames
    if frames > 1:
        assert set(durations[:-1]) == {milliseconds}
        assert durations[-1] == 1500


def test_same_episodes_give_the_same_bytes(film):
    first, second = (film(shades(4), shades(9), name=name) for name in ("one", "two"))
    assert first.read_bytes() == second.read_bytes()


def test_films_replace_older_ones_in_a_folder_that_is_made(film, tmp_path):
    folder = tmp_path / "a" / "b"
    film(shades(4), shades(4), folder=folder)
    films = film(shades(9), shades(4), folder=folder)
    assert sorted(folder.iterdir()) == [films]
    assert len(frames_of(films)[0]) == 9


@pytest.mark.parametrize(
    "caption",
    ["", "long " * 300, "W" * 3000, "日本語 עברית 🤖 é", "\ud800\x00\r\n\t\u202e", "ﷺ" * 200],
)
def test_captions_are_cut_to_fit(film, caption):
    frames, _ = frames_of(film(shades(2), shades(2), captions=(caption, "learned")))
    between = frames[:, :TOP, LEFT + WIDTH + 1 : RIGHT]
    assert (between == between[0, 0, 0]).all()


@pytest.mark.parametrize("size", [(1, 1), (64, 64), (480, 640), (300, 100)])
def test_frames_of_any_size_fit(film, size):
    def white(states):
        return np.full((len(states), *size, 3), 255, dtype=np.uint8)

    frames, _ = frames_of(film(shades(2), shades(2), of=task(white)))
    assert frames.shape == (2, 40 + HEIGHT, 24 + 2 * WIDTH, 3)


def test_task_without_pictures_is_told_what_to_add(film):
    with pytest.raises(ComponentError, match=r"'shades' has no pictures: give it render\(states"):
        film(shades(2), shades(2), of=task(render=None))


@pytest.mark.parametrize(
    ("render", "message"),
    [
        (lambda states: grey(states)[:-1], r"frames \[4, H, W, 3\], got shape \(3, 30, 40, 3\)"),
        (lambda states: grey(states)[..., 0], r"got shape \(4, 30, 40\)"),
        (lambda states: grey(states)[:, :0], r"got shape \(4, 0, 40, 3\)"),
        (lambda states: None, r"got shape \(\)"),
        (lambda states: grey(states) / 255, "must return uint8, 0 to 255, got float64"),
    ],
)
def test_wrong_frames_are_refused(film, render, message):
    with pytest.raises(ComponentError, match=message):
        film(shades(2), shades(2), of=task(render))


@pytest.mark.parametrize("states", [np.zeros((0, 1)), np.zeros(3)])
def test_wrong_states_are_refused(film, states):
    with pytest.raises(ValueError, match=r"need states of shape \[T, S\]"):
        film(shades(2), states)


def test_folder_that_cannot_be_written_is_named(film, tmp_path):
    (tmp_path / "taken").write_text("")
    with pytest.raises(CpgError, match=r"cannot write the film .*taken.film\.gif: "):
        film(shades(2), shades(2), folder=tmp_path / "taken")
    with pytest.raises(CpgError, match="cannot write the film"):
        film(shades(2), shades(2), name="n" * 300)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_missing_pillow_names_the_extra(monkeypatch):
    check_can_render()
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ComponentError, match=r'pip install "pytest-cpg\[render\]"'):
        check_can_render()


def test_films_are_known_without_pillow_or_mujoco():
    script = "import sys, pytest_cpg.render.films; assert not {'PIL', 'mujoco'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_grid_shows_walls_goal_and_agent():
    layout = "####\n#.G#\n####"
    here, there = draw_grid(layout, np.array([[1.0, 1.0], [2.0, 1.0]]))
    assert here.shape == (240, 320, 3)
    # Cells are 80 pixels wide, so their centres are 40 pixels from their edges.
    agent = here[120, 120]
    np.testing.assert_array_equal(there[120, 200], agent)
    assert len({tuple(colour) for colour in (here[0, 0], here[120, 200], there[120, 120])}) == 3
    assert tuple(agent) not in {tuple(colour) for colour in here[:, 160:].reshape(-1, 3)}


def test_large_grid_fits():
    layout = "\n".join(["#" * 700, "#" + "." * 697 + "G#", "#" * 700])
    assert draw_grid(layout, np.ones((1, 2))).shape == (1, 1, 320, 3)


def test_nothing_is_drawn_of_a_state_that_is_not_finite():
    with pytest.raises(ValueError, match="need finite states"):
        draw_grid(maze().layout, np.array([[1.0, np.nan]]))


def test_maze_is_filmed(film):
    walk = np.array([[1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
    frames, durations = frames_of(film(walk, walk[:1], of=maze()))
    oracle, learned = halves(frames)
    assert durations[0] == 200
    assert (learned == learned[0]).all()
    assert all((oracle[step] != oracle[step + 1]).any() for step in range(2))


@pytest.fixture
def opengl():
    """Skip where MuJoCo cannot draw."""
    pytest.importorskip("dm_control")
    try:
        renderer_of(TASKS["cartpole-swingup"]().world.drawn, FILM)
    except ComponentError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", ["acrobot-swingup", "cartpole-swingup", "reacher-easy"])
def test_joints_are_seen_and_velocities_are_not(opengl, name):
    world = TASKS[name]()
    states = world.reset(np.array([0, 1, 0, 0, 0, 0]))
    states[2:5, 1:3] = [(0.3, 1.0), (0.3, 1.2), (0.9, 1.0)]
    # Neither velocities nor the solver's warm start are to be seen.
    states[5, 3:7] = (1.0, -2.0, np.nan, np.nan)
    frames = world.render(states)
    assert frames.shape == (len(states), HEIGHT, WIDTH, 3)
    np.testing.assert_array_equal(frames[0], frames[5])
    for one, other in ((0, 2), (2, 3), (2, 4)):
        changed = np.abs(frames[one].astype(int) - frames[other]).max(axis=-1) > 60
        assert changed.sum() > 100


def test_film_of_the_reacher_shows_the_targets_of_its_episodes(opengl, film):
    world = TASKS["reacher-easy"]()
    targets = [(0.1, 0.15), (-0.15, -0.05)]
    states = world.reset(np.array([0, 0]))
    states[:, -2:] = targets
    halved = halves(frames_of(film(states[:1], states[1:], of=world))[0])
    # Seen from 0.75 m above the ground; the target's centre is 0.01 m above it.
    scale = HEIGHT / 2 / np.tan(np.radians(45 / 2)) / 0.74
    for (frame,), (x, y) in zip(halved, targets, strict=True):
        red = (frame[..., 0] > 150) & (frame[..., 1] < 130) & (frame[..., 2] < 130)
        centre = np.argwhere(red).mean(axis=0)
        assert centre == pytest.approx([HEIGHT / 2 - scale * y, WIDTH / 2 + scale * x], abs=4)


def test_nothing_is_drawn_of_a_simulation_that_diverged():
    pytest.importorskip("dm_control")
    world = TASKS["cartpole-swingup"]()
    with pytest.raises(ValueError, match="need finite states"):
        world.render(np.full_like(world.reset(np.arange(1)), np.nan))


def test_machine_without_opengl_says_what_to_do(monkeypatch):
    pytest.importorskip("dm_control")
    monkeypatch.setenv("MUJOCO_GL", "disable")
    world = TASKS["cartpole-swingup"]()
    with pytest.raises(ComponentError) as caught:
        world.render(world.reset(np.arange(1)))
    assert str(caught.value) == (
        "MUJOCO_GL=disable lets MuJoCo draw nothing: unset it, or set MUJOCO_GL=osmesa with "
        "libosmesa6 installed, or MUJOCO_GL=egl on a machine with a GPU"
    )


@pytest.mark.parametrize(
    ("program", "trouble"),
    [
        ("raise SystemExit(3)", "exit status 3"),
        ("import os; os.abort()", "exit status -6"),
        ("while True: pass", "not done after 0.2 s"),
    ],
)
def test_crash_of_the_drawing_process_is_one_line(monkeypatch, program, trouble):
    pytest.importorskip("mujoco")
    # Only the last of them needs it, and an interpreter may take a while to start.
    monkeypatch.setattr(renderer, "_PATIENCE", 0.2 if "while" in program else 60)
    drawing = object.__new__(renderer.Renderer)
    drawing._lock, drawing._backend = threading.RLock(), "osmesa"
    pipes, raises = (
        dict.fromkeys(("stdin", "stdout"), subprocess.PIPE),
        pytest.raises(ComponentError),
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, **pipes) as drawing._process, raises as caught:
        drawing._ask(None)
    assert str(caught.value) == f"MuJoCo could not draw with MUJOCO_GL=osmesa: {trouble}"


def trace(length, *, success, ends_at):
    """Return an episode of grey states that comes from a score of 10 to another."""
    empty = np.zeros(0)
    return EpisodeTrace(
        success=success,
        steps=length - 1,
        states=shades(length),
        scores=np.linspace(10.0, ends_at, length),
        **dict.fromkeys(
            ("actions", "at", "plans", "lengths", "promised", "predicted", "actual"), empty
        ),
    )


def test_a_strip_shows_the_episode_in_which_the_arms_are_farthest_apart():
    solved = trace(101, success=True, ends_at=0.0)
    traces = {
        3: ArmTraces(solved, trace(501, success=False, ends_at=5.0)),
        5: ArmTraces(solved, trace(501, success=False, ends_at=90.0)),
        # The model solves it by now.
        8: ArmTraces(solved, trace(501, success=True, ends_at=900.0)),
    }
    strip = strip_of(task(), traces, lost=12)
    assert (strip.episode, strip.lost, strip.period) == (5, 12, 0.02)
    oracle, learned = strip.reels
    assert (oracle.arm, oracle.ending) == ("oracle", "solved at step 100")
    assert (learned.arm, learned.ending) == ("learned", "not solved in 500 steps")
    assert [step for step, _ in oracle.frames] == [0, 50, 100]
    assert [step for step, _ in learned.frames] == [0, 71, 143, 214, 286, 357, 429, 500]
    for step, image in learned.frames:
        with Image.open(io.BytesIO(base64.b64decode(image))) as seen:
            assert seen.size == (224, 168)
            assert np.asarray(seen)[80, 110] == pytest.approx([200 * step / 500] * 3, abs=6)


def test_an_oracle_that_is_done_at_once_is_shown_where_it_begins_half_way_and_where_it_ends():
    traces = {
        0: ArmTraces(trace(11, success=True, ends_at=0.0), trace(501, success=False, ends_at=5.0))
    }
    assert [step for step, _ in strip_of(task(), traces, lost=1).reels[0].frames] == [0, 5, 10]


def test_what_is_lost_no_more_is_no_strip():
    solved = trace(101, success=True, ends_at=0.0)
    assert strip_of(task(), {0: ArmTraces(solved, solved)}, lost=1) is None
    assert strip_of(task(), {}, lost=1) is None
