"""Methods: the intervals on the gap by the names that they have in markers and options."""

from pytest_cpg.stats.bonett_price import BONETT_PRICE
from pytest_cpg.stats.paired import PairedMethod
from pytest_cpg.stats.tango import TANGO

PAIRED_METHODS = {"bonett-price": BONETT_PRICE, "tango": TANGO}
METHODS = ("agresti-caffo", *PAIRED_METHODS)


def paired_method(name: str) -> PairedMethod:
    """Return the paired method of this name."""
    if name not in PAIRED_METHODS:
        raise ValueError(f"need a method among {', '.join(METHODS)}, got {name!r}")
    return PAIRED_METHODS[name]
