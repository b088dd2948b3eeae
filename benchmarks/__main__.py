"""`make bench`: every speed that the project promises, with both sides of each ratio.

Ratios are measured side by side in one run and in processor time, because wall times on a shared
machine say more about its other users.
"""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import version

from benchmarks import (
    answers,
    arms,
    checkpoints,
    diagnosis,
    latent,
    page,
    plans,
    products,
    queries,
    restoring,
    spread,
    startup,
    tdmpc2_planner,
    wall,
    worlds,
)


def main() -> None:
    """Print the table, row by row as it is measured."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "mujoco", "torch"))
    print(f"python {platform.python_version()}, {packages}, {len(os.sched_getaffinity(0))} cores")
    print(f"load average {os.getloadavg()[0]:.2f} at the start")
    print()
    print(f"{'what':50s} {'ours':>20s} {'compared with':>22s} {'result':>10s}   bar")
    for measure in (
        arms.oracle,
        products.mlp,
        products.latent,
        latent.throughput,
        tdmpc2_planner.alone,
        tdmpc2_planner.together,
        wall.acrobot,
        wall.warm,
        checkpoints.loop,
        wall.overhead,
        wall.overhead_of_a_cheap_planner,
        wall.stopping_early,
        spread.narrow,
        spread.wide,
        diagnosis.cartpole,
        diagnosis.acrobot,
        queries.cartpole,
        answers.published,
        answers.spread,
        plans.learned,
        plans.oracle,
        worlds.blocks,
        worlds.chemistry,
        restoring.copied,
        restoring.physics,
        restoring.by_itself,
        restoring.forked,
        restoring.planned,
        page.large,
        startup.added,
        startup.added_in_ci,
    ):
        row = measure()
        print(f"{row.what:50s} {row.ours:>20s} {row.other:>22s} {row.result:>10s}   {row.bar}")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
