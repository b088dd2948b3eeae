"""Left out: names that earlier versions took, and what to write in their place."""

from __future__ import annotations

from typing import Final

ARGUMENTS: Final[dict[str, str]] = {
    "level": "Write confidence=0.95, as in every gate.",
    "min_queries": "Ask at least 200 queries, as fewer tell too little.",
    "resamples": "Leave it out: 1000 resamples are drawn, and more where many gates need them.",
}
"""By the name of the marker's argument, whichever kind had it."""
