"""Gates on stable-worldmodel's two rooms in pictures: a LeWM by its own cost, with its own solver.

Goals are where 15 random actions lead, and a model sees nothing of them but a frame. Both arms plan
with stable-worldmodel's CEM; the true dynamics are rated by the distance to the goal's place.

Needs ``pip install stable-worldmodel`` beside ``pytest-cpg[gymnasium,torch]``. Run ``pytest -v``.
"""

import pytest

pytest.importorskip("stable_worldmodel")
pytest.importorskip("torch")

from lewm import Pictures, made, of_pictures
from stable_solver import StableCEM
from test_two_room import rooms
from train_pictures import MODELS, PIXELS, load

GATE = {
    "task": rooms(15),
    "observe": PIXELS,
    "goals": {"offset": 15, "within": 12, "columns": (0, 1)},
    "planner": StableCEM(),
    "episodes": 20,
}


@pytest.mark.cpg(**GATE)
def test_a_lewm_of_frames(benchmark_runner):
    benchmark_runner.compare(learned=of_pictures(load(MODELS / "lewm.pt")))


@pytest.mark.xfail(strict=True, reason="a LeWM with random weights")
@pytest.mark.cpg(**GATE)
def test_an_untrained_lewm_is_caught(benchmark_runner):
    benchmark_runner.compare(learned=of_pictures(made(Pictures).eval()))
