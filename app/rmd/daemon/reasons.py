"""Why a daemon refuses: its texts, sorted into a few reasons. Pure.

RMD v0.3 answers with text alone; its status codes do not tell these apart.
"""

from __future__ import annotations

from typing import Final

CLASSES_USED_UP: Final = "ClassesUsedUp"
CORES_TAKEN: Final = "CoresTaken"
OTHER: Final = "Other"
NO_ANSWER: Final = "no answer to this request"
"""How a text of ours begins where a daemon said nothing."""
_TEXTS: Final = (
    (NO_ANSWER, "NoAnswer"),
    ("not enough CLOS", CLASSES_USED_UP),
    ("No free CLOS", CLASSES_USED_UP),
    ("has been assigned", CORES_TAKEN),
    ("Not enough cache left", "CacheUsedUp"),
    ("doesn't support pool", "NoPool"),
    ("Could not find the Policy", "UnknownPolicy"),
    ("module that is not loaded", "NoPlugin"),
    ("Please provide MBA", "BandwidthUnit"),
    ("This machine supports only", "NotOnThisMachine"),
    ("is not authorized", "Unauthorized"),
    ("already exists in workload", "Duplicate"),
)
REASONS: Final = tuple(dict.fromkeys((*(reason for _, reason in _TEXTS), OTHER)))


def reason_of(text: str) -> str:
    """One of REASONS."""
    return next((reason for part, reason in _TEXTS if part in text), OTHER)
