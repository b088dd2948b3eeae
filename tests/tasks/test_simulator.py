"""The simulator: exact, independent rows, divergence, clock, stripping."""

import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

mujoco = pytest.importorskip("mujoco")
simulator = pytest.importorskip("pytest_cpg.tasks.control.simulator")


PENDULUM = """
<mujoco>
  <option timestep="0.01" integrator="{integrator}"><flag contact="{contact}"/></option>
  <include file="colours.xml"/>
  <worldbody>
    <light pos="0 0 3"/>
    <camera pos="0 -3 1"/>
    <geom type="plane" size="3 3 1" pos="0 0 -3"/>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0" damping="0.1"/>
      <geom type="capsule" fromto="0 0 0 0 0 1" size="0.05" mass="1" material="blue"/>
      <body name="lower" pos="0 0 1">
        <joint name="elbow" axis="0 1 0" limited="true" range="-90 90"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size="0.05" mass="1"/>
        <site name="tip" pos="0 0 1"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <general joint="elbow" gear="2" ctrllimited="true" ctrlrange="-1 1" dyntype="filter"
             dynprm="0.1"/>
  </actuator>
</mujoco>
"""
COLOURS = b"""
<mujoco><asset><material name="blue" rgba="0 0 1 1"/></asset></mujoco>
"""
SLIDER = """
<mujoco>
  <option timestep="0.01" gravity="0 0 0"/>
  <worldbody>
    <body><joint name="x" type="slide" axis="1 0 0"/><geom size="0.1" mass="1"/></body>
  </worldbody>
  <actuator><motor joint="x" gear="9e9"/></actuator>
</mujoco>
"""
INCLUDES = {"colours.xml": COLOURS}
# time, two angles, two velocities, one activation; then the warm start.
PHYSICS, OWN = 6, 8


def compiled(xml, **options):
    spec = mujoco.MjSpec.from_string(xml.format(**options), include=INCLUDES)
    return spec.compile()


@pytest.fixture(params=["Euler", "RK4"])
def pendulum(request):
    return compiled(PENDULUM, integrator=request.param, contact="disable")


@pytest.fixture
def slider():
    return simulator.Simulator(compiled(SLIDER), threads=1)


def random_batch(rows, horizon, *, context=0):
    rng = np.random.default_rng(rows)
    states = rng.normal(size=(rows, OWN + context)) * 2
    states[:, 0] = rng.random(rows)
    return states, rng.uniform(-1.5, 1.5, (rows, horizon, 1))


def plain_loop(model, state, controls):
    """What MuJoCo's own documentation does, one simulation from its start."""
    data = mujoco.MjData(model)
    data.time, data.qpos, data.qvel = state[0], state[1:3], state[3:5]
    data.act, data.qacc_warmstart = state[5:6], state[6:8]
    rows = []
    for control in controls:
        data.ctrl = control
        mujoco.mj_step(model, data)
        numbers = (data.qpos, data.qvel, data.act, data.qacc_warmstart)
        rows.append(np.concatenate([[data.time], *numbers]))
    return np.array(rows)


def clock_ticks():
    model = compiled(SLIDER)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data)
    return data.timer[mujoco.mjtTimer.mjTIMER_STEP].duration > 0


def test_steps_and_rollouts_are_a_plain_loop_to_the_last_bit(pendulum):
    sim = simulator.Simulator(pendulum, threads=2)
    states, controls = random_batch(5, 60)
    expected = np.array([plain_loop(pendulum, *row) for row in zip(states, controls, strict=True)])
    ahead = sim.rollout(states, controls)
    np.testing.assert_array_equal(ahead[..., :PHYSICS], expected[..., :PHYSICS])
    assert np.isnan(ahead[..., PHYSICS:]).all()
    for t in range(60):
        states = sim.step(states, controls[:, t])
        np.testing.assert_array_equal(states, expected[:, t])


def test_context_is_carried_along(pendulum):
    sim = simulator.Simulator(pendulum, threads=1)
    states, controls = random_batch(4, 3, context=2)
    np.testing.assert_array_equal(sim.step(states, controls[:, 0])[:, OWN:], states[:, OWN:])
    ahead = sim.rollout(states, controls)
    for t in range(3):
        np.testing.assert_array_equal(ahead[:, t, OWN:], states[:, OWN:])


def test_bits_depend_on_neither_batch_nor_order_nor_threads(pendulum):
    states, controls = random_batch(101, 10)
    one, two = (simulator.Simulator(pendulum, threads=n) for n in (1, 2))
    expected = one.rollout(states, controls)
    order = np.random.default_rng(0).permutation(101)
    np.testing.assert_array_equal(two.rollout(states, controls), expected)
    np.testing.assert_array_equal(two.rollout(states[order], controls[order]), expected[order])
    for rows in (slice(0, 1), slice(3, 10), slice(100, 101)):
        np.testing.assert_array_equal(two.rollout(states[rows], controls[rows]), expected[rows])
        np.testing.assert_array_equal(
            one.step(states[rows], controls[rows, 0])[:, :PHYSICS], expected[rows, 0, :PHYSICS]
        )


@pytest.mark.parametrize("damage", [np.nan, np.inf, -1e200, 1e11])
def test_a_diverged_row_is_lost_and_its_neighbours_are_not(pendulum, damage):
    sim = simulator.Simulator(pendulum, threads=2)
    states, controls = random_batch(6, 5)
    states[:, 0] = 0  # where a simulation that was reset starts, too
    expected, ahead = sim.step(states, controls[:, 0]), sim.rollout(states, controls)
    states[2, 3] = damage
    others = [0, 1, 3, 4, 5]
    after, damaged = sim.step(states, controls[:, 0]), sim.rollout(states, controls)
    assert np.isnan(after[2]).all()
    assert np.isnan(damaged[2]).all()
    np.testing.assert_array_equal(after[others], expected[others])
    np.testing.assert_array_equal(damaged[others], ahead[others])
    states[2, 3] = 0
    np.testing.assert_array_equal(sim.step(states, controls[:, 0])[others], expected[others])


def test_a_first_step_that_diverges_from_a_harmless_state_is_noticed(pendulum):
    sim = simulator.Simulator(pendulum, threads=1)
    states = np.zeros((1, OWN))
    states[0, 1:5] = 1, 1, 9e9, 9e9
    assert np.isnan(sim.step(states, np.zeros((1, 1)))).all()
    assert np.isnan(sim.rollout(states, np.zeros((1, 4, 1)))).all()


def test_a_rollout_is_lost_from_the_step_that_diverged(slider):
    states = np.zeros((2, 4))
    controls = np.zeros((2, 6, 1))
    controls[1, 3] = 10  # 9e10 m/s2: more than MuJoCo accepts
    ahead = slider.rollout(states, controls)
    assert np.isfinite(ahead[0, :, :3]).all()
    assert np.isfinite(ahead[1, :3, :3]).all()
    assert np.isnan(ahead[1, 3:]).all()


def test_a_divergence_in_the_very_last_step_is_noticed(slider):
    states = np.zeros((1, 4))
    states[0, 2] = 1e10 - 1e8
    controls = np.ones((1, 2, 1))  # 9e7 m/s faster each step
    ahead = slider.rollout(states, controls)
    assert np.isfinite(ahead[0, 0, :3]).all()
    assert np.isnan(ahead[0, 1]).all()


@pytest.mark.parametrize(
    ("states", "controls", "message"),
    [
        ((3, OWN - 1), (3, 2, 1), "or more"),
        ((OWN,), (3, 2, 1), "or more"),
        ((3, OWN), (2, 2, 1), "1 controls for each of 3 states"),
        ((3, OWN), (3, 2, 2), "1 controls for each of 3 states"),
        ((3, OWN), (3, 1), "1 controls for each of 3 states"),
    ],
)
def test_wrong_shapes_are_refused(pendulum, states, controls, message):
    sim = simulator.Simulator(pendulum, threads=1)
    with pytest.raises(ValueError, match=message):
        sim.rollout(np.zeros(states), np.zeros(controls))


def test_controls_that_are_nan_are_refused(slider):
    with pytest.raises(ValueError, match="must not be NaN"):
        slider.step(np.zeros((1, 4)), np.full((1, 1), np.nan))


def test_at_least_one_thread_is_needed(pendulum):
    with pytest.raises(ValueError, match="at least 1 thread, got 0"):
        simulator.Simulator(pendulum, threads=0)


def test_a_simulator_is_not_pickled(pendulum):
    with pytest.raises(TypeError, match="send the task's name"):
        pickle.dumps(simulator.Simulator(pendulum, threads=1))


@pytest.mark.skipif(not hasattr(sys.modules["os"], "fork"), reason="needs fork")
def test_a_forked_process_gets_threads_of_its_own(tmp_path):
    # In a process of its own: newer Pythons warn when a process with threads forks.
    script = """
        import os, sys
        import mujoco, numpy as np
        from pytest_cpg.tasks.control.simulator import Simulator

        sim = Simulator(mujoco.MjModel.from_xml_string(sys.argv[1]), threads=2)
        states, controls = np.zeros((40, 4)), np.full((40, 5, 1), 1e-9)
        expected = sim.rollout(states, controls)
        child = os.fork()
        same = np.array_equal(sim.rollout(states, controls), expected, equal_nan=True)
        if child:
            same &= os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        sys.exit(0 if same else 1)
    """
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script), SLIDER]
    assert subprocess.run(command, timeout=60, cwd=tmp_path, check=False).returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the clock may stay on")
def test_the_clock_is_off_in_the_context_and_back_after_it():
    assert clock_ticks()
    with simulator.CLOCK.stopped():
        assert not clock_ticks()
        with simulator.CLOCK.stopped():
            assert not clock_ticks()
        assert not clock_ticks()
    assert clock_ticks()


def test_the_clock_is_back_after_an_error_and_after_every_call(pendulum):
    before = clock_ticks()

    def fail():
        with simulator.CLOCK.stopped(), simulator.CLOCK.stopped():
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert clock_ticks() == before
    sim = simulator.Simulator(pendulum, threads=2)
    states, controls = random_batch(4, 2)
    sim.rollout(states, controls)
    sim.step(states, controls[:, 0])
    assert clock_ticks() == before


def test_a_clock_that_cannot_be_found_stays_on(monkeypatch):
    def not_there(*_):
        raise OSError("no such library")

    monkeypatch.setattr(simulator.ctypes, "CDLL", not_there)
    lost = simulator.Clock()
    before = clock_ticks()
    with lost.stopped():
        assert clock_ticks() == before


@pytest.mark.parametrize("integrator", ["Euler", "RK4", "implicitfast"])
def test_a_stripped_model_moves_like_the_stock_one(integrator):
    xml = PENDULUM.format(integrator=integrator, contact="disable")
    stock = compiled(xml)
    lean = simulator.strip_visuals(stock, xml, INCLUDES)
    assert (lean.ngeom, lean.nsite, lean.nlight, lean.ncam) == (0, 0, 0, 0)
    states, controls = random_batch(10, 100)
    expected, ahead = (
        simulator.Simulator(model, threads=1).rollout(states, controls) for model in (stock, lean)
    )
    np.testing.assert_array_equal(ahead, expected)


def test_a_model_with_contacts_is_left_alone():
    xml = PENDULUM.format(integrator="Euler", contact="enable")
    stock = compiled(xml)
    assert simulator.strip_visuals(stock, xml, INCLUDES) is stock


@pytest.mark.parametrize(
    ("was", "became"),
    [
        ('damping="0.1"', 'damping="0.1000000000000001"'),
        ('name="upper"', 'name="renamed"'),
        ("</mujoco>", '<sensor><accelerometer site="tip"/></sensor></mujoco>'),
        ("<worldbody>", "<worldbody><nonsense/>"),
    ],
    ids=["other motion", "other bodies", "a sensor on what would go", "no model at all"],
)
def test_whatever_does_not_strip_cleanly_stays_stock(was, became):
    xml = PENDULUM.format(integrator="Euler", contact="disable")
    stock = compiled(xml)
    assert simulator.strip_visuals(stock, xml.replace(was, became), INCLUDES) is stock
