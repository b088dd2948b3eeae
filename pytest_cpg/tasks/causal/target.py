"""Target: what worlds share whose goal is where some random actions led."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np


class TowardsTarget:
    """A world whose target is `k` random actions from the start."""

    k: int

    @property
    def budget(self) -> int:
        """As many steps as led to the target."""
        return self.k

    @property
    def control_period(self) -> float:
        """One second per step."""
        return 1.0

    @property
    def versions(self) -> Mapping[str, str]:
        """The version of numpy, which draws the starts."""
        return MappingProxyType({"numpy": np.__version__})
