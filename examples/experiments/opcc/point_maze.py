"""Point maze: a ball pushed through corridors, in plain numpy.

The worlds of D4RL's maze2d (Fu et al. 2020), by its published constants; what MuJoCo does softly
where the ball meets a wall is a hard wall here. A state is position and velocity along rows and
columns, and all of it is observed.
"""

from math import pi

import numpy as np

# Of the joints, in newtons per unit of action and newton seconds per metre.
GEAR, DAMPING = 100.0, 1.0
RADIUS = 0.1
# A ball of density 1000 kg / m^3, in kg.
MASS = 1000 * 4 / 3 * pi * RADIUS**3
# Seconds of a step, and the speed in m/s that each axis is limited to before one.
PERIOD, FASTEST = 0.01, 5.0
# Where the joints' origin is, in cells; cell (i, j) has its centre at (i + 1, j + 1).
ORIGIN = 1.2
# Of a wall's box, in metres, and how near the goal must be.
HALF_WIDTH, NEAR = 0.5, 0.5
# More walls than one are met in corners.
MOST_WALLS = 2

# The first coordinate is the row. G is the goal.
LAYOUTS = {
    "open": "####### #OOOOO# #OOGOO# #OOOOO# #######",
    "umaze": "##### #GOO# ###O# #OOO# #####",
    "medium": "######## #OO##OO# #OO#OOO# ##OOO### #OO#OOO# #O#OO#O# #OOO#OG# ########",
    "large": (
        "############ #OOOO#OOOOO# #O##O#O#O#O# #OOOOOO#OOO# #O####O###O# #OO#O#OOOOO# "
        "##O#O#O#O### #OO#OOO#OGO# ############"
    ),
}


class PointMaze:
    """One of `LAYOUTS`, by its name."""

    def __init__(self, name):
        self.cells = np.array([list(row) for row in LAYOUTS[name].split()])
        self.walls = np.argwhere(self.cells == "#") + 1.0
        self.goal = np.argwhere(self.cells == "G")[0]

    def begin(self, states):
        return np.array(states)

    def step(self, states, actions):
        """Map states [B, 4] and actions [B, 2] to next states [B, 4]."""
        pushed = GEAR * np.clip(np.asarray(actions, dtype=np.float64), -1, 1)
        before = np.clip(states[:, 2:], -FASTEST, FASTEST)
        # Damping at the velocity that is reached, as MuJoCo's Euler has it.
        velocities = before + PERIOD * (pushed - DAMPING * before) / (MASS + PERIOD * DAMPING)
        places = states[:, :2] + ORIGIN + PERIOD * velocities
        for _ in range(MOST_WALLS):
            places, velocities = self.held(places, velocities)
        return np.concatenate([places - ORIGIN, velocities], axis=1)

    def observe(self, states):
        return np.array(states)

    def reward(self, states, actions=None):
        distances = np.linalg.norm(states[..., :2] - self.goal, axis=-1)
        return np.where(distances <= NEAR, 1.0, 0.0)

    def held(self, places, velocities):
        """Return places and velocities [B, 2] outside of the wall that is nearest to each."""
        apart = places[:, None] - self.walls
        apart -= np.clip(apart, -HALF_WIDTH, HALF_WIDTH)
        squares = (apart**2).sum(axis=-1)
        rows, wall = np.arange(len(places)), squares.argmin(axis=1)
        apart, distance = apart[rows, wall], np.sqrt(squares[rows, wall])
        is_met = (distance < RADIUS) & (distance > 0)
        away = np.where(is_met, 1 / np.where(is_met, distance, 1), 0)[:, None] * apart
        depth = np.where(is_met, RADIUS - distance, 0)[:, None]
        towards = np.minimum((velocities * away).sum(axis=1), 0)[:, None]
        return places + depth * away, velocities - towards * away
