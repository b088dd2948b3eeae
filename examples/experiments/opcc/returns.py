"""Returns of the published policies, played again: python returns.py --data FOLDER

FOLDER holds the published queries, as convert.py writes them. Writes returns.json and returns.md:
20 episodes of each policy, beside what the benchmark's own configuration says of 20.
"""

import argparse
import json

import numpy as np
from paper import PUBLISHED
from point_maze import PointMaze
from tables import HERE, table
from worlds import WORLDS, gym_body, published_queries

EPISODES = 20
# Steps of an episode, as gym and D4RL have registered the worlds; of the bodies 1000.
STEPS = {"maze-open": 150, "maze-umaze": 300, "maze-medium": 600, "maze-large": 800}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", required=True, metavar="FOLDER", help="of the published queries")
    folder = parser.parse_args().data
    found = {}
    for name in WORLDS:
        play = of_maze if name in STEPS else of_body
        policies = published_queries(name, folder).policies
        found[name] = [np.round(play(name, policy), 2).tolist() for policy in policies]
        print(name, [round(float(np.mean(returns)), 1) for returns in found[name]], flush=True)
    (HERE / "returns.json").write_text(json.dumps(found, indent=1) + "\n")
    (HERE / "returns.md").write_text(written(found))


def of_body(name, policy):
    """Return the returns of a policy in gymnasium's version 4 of a body."""
    body, returns = gym_body(name), []
    for episode in range(EPISODES):
        observation, _ = body.reset(seed=episode)
        total = 0.0
        for _ in range(1000):
            action = np.clip(policy.act(observation[None])[0], -1, 1).astype(np.float32)
            observation, reward, is_over, *_ = body.step(action)
            total += float(reward)
            if is_over:
                break
        returns.append(total)
    body.close()
    return returns


def of_maze(name, policy):
    """Return those of a ball in a maze, begun in any free cell, nearly at rest, as D4RL does."""
    maze, rng = PointMaze(name.removeprefix("maze-")), np.random.default_rng(0)
    free = np.argwhere(maze.cells != "#")
    cells = free[rng.integers(len(free), size=EPISODES)]
    states = np.hstack(
        [cells + rng.uniform(-0.1, 0.1, cells.shape), 0.1 * rng.standard_normal(cells.shape)]
    )
    total = np.zeros(EPISODES)
    for _ in range(STEPS[name]):
        states = maze.step(states, np.clip(policy.act(states), -1, 1))
        total += maze.reward(states)
    return total


def written(found):
    rows = []
    for name, policies in found.items():
        for number, returns in enumerate(policies, start=1):
            mean, deviation = PUBLISHED["9"][name][number - 1]
            ours, spread = np.mean(returns), np.std(returns, ddof=1)
            half = 2 * np.sqrt((spread**2 + deviation**2) / EPISODES)
            apart = ", apart" * bool(abs(ours - mean) > half)
            rows.append(
                [
                    name,
                    str(number),
                    f"{ours:.1f} (deviation {spread:.1f})",
                    f"{mean:.1f} (deviation {deviation:.1f})",
                    f"{ours - mean:+.1f} ± {half:.1f}{apart}",
                ]
            )
    head = ["world", "policy", "ours, 20 episodes", "published, 20 episodes", "difference"]
    return (
        "# Returns of the published policies (Table 9)\n\n"
        "Made by `returns.py`. Published are those of the benchmark's configuration. The paper's\n"
        "Table 9 has 1195 for Hopper's first policy, and swaps `maze-umaze` and `maze-medium`.\n"
        "Bodies are Gymnasium's version 4, theirs version 2; mazes are `PointMaze`, "
        "theirs D4RL's.\n\n" + table(head, rows)
    )


if __name__ == "__main__":
    main()
