"""Ways in which a test's session is run: alone, and by an xdist worker."""

import pytest

_ALONE, _WORKER, _NAMES = (), ("-n", "1"), ["alone", "xdist"]

both_ways = pytest.mark.parametrize("workers", [_ALONE, _WORKER], ids=_NAMES)
# Results come from workers in one way, which `both_ways` shows; `make calibrate` runs these, too.
mostly_alone = pytest.mark.parametrize(
    "workers", [_ALONE, pytest.param(_WORKER, marks=pytest.mark.slow)], ids=_NAMES
)
