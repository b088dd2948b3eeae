"""Models of three blocks, of which one knows the rules and four do not."""

import numpy as np

from pytest_cpg.tasks.causal.blocks import move


def physics(weigh):
    """Return blocks whose weights are others: `weigh` maps weights and the moved block to them."""

    def model(observations, actions):
        places = np.rint(observations[:, :6]).astype(int).reshape(-1, 3, 2)
        block, way = actions.T.astype(int)
        weights = weigh(np.tile([3.0, 2.0, 1.0], (len(places), 1)), block)
        cells = move(places @ [5, 1], weights, block, way).cells
        after = np.stack(np.divmod(cells, 5), axis=-1).reshape(len(cells), -1)
        return np.concatenate([after, observations[:, 6:]], axis=1)

    return model


def copied(observations, actions):
    """Predict that nothing changes: what knows nothing of actions."""
    return observations.copy()


def ghost(observations, actions):
    """Move through whatever stands there."""
    after = observations.copy()
    rows, block = np.arange(len(after)), actions[:, 0].astype(int)
    ways = np.array([(0, 0), (-1, 0), (0, 1), (1, 0), (0, -1)])[actions[:, 1].astype(int)]
    for part in range(2):
        moved = after[rows, 2 * block + part] + ways[:, part]
        after[rows, 2 * block + part] = np.clip(moved, 0, 4)
    return after


TRUE = physics(lambda weights, _: weights)
WRONG = {
    "no push": physics(lambda weights, _: 0 * weights),
    "reversed": physics(lambda weights, _: -weights),
    "always push": physics(
        lambda weights, block: (np.arange(weights.shape[1]) == block[:, None]).astype(float)
    ),
    "ghost": ghost,
}
