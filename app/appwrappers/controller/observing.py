"""What one pass over an AppWrapper sees, what it decides, and what has become of it. Data alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from app.appwrappers.controller.health import Health
from app.appwrappers.controller.stored import AppWrapper
from app.appwrappers.options import Options
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Creation:
    """The objects that exist, by number of the component, with their names. `problem` is of the first that does not.

    It is `fatal` where no other try can succeed. With `unauthored` none was tried: it is not known as whom.
    """

    created: Mapping[int, str] = field(default_factory=dict)
    failed: int | None = None
    problem: str = ""
    fatal: bool = False
    unauthored: bool = False


@dataclass(frozen=True, slots=True)
class Deletion:
    """The components that are known to be gone, with a remark on those that only finalizers hold; and what is left.

    `problem` is the last fault of a request: no change will ask for the next try.
    """

    gone: Mapping[int, str] = field(default_factory=dict)
    components: int = 0
    pods: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Why Kueue has suspended an AppWrapper."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Seen:
    """`health` and `missing` (what is wrong with the objects, "" where all exist) are of what is deployed.

    `creation` and `deletion` are what this pass has done already, at the request of a former step.
    """

    wrapper: AppWrapper
    options: Options
    now: datetime
    health: Health | None = None
    missing: str = ""
    eviction: Eviction | None = None
    creation: Creation | None = None
    deletion: Deletion | None = None


Action = Literal["", "create", "delete", "force", "finalize", "release", "observe"]


@dataclass(frozen=True, slots=True)
class Step:
    """`status` is the status from here on; `action` is to be done, and then the step is asked for again.

    "finalize" adds the finalizer, "release" removes it after the status is written. "force" is a deletion without
    grace. "observe" asks for `health` and `missing`. `event` is a reason and a message. `after` are the seconds until
    the next look; None where only a change of what is watched asks for one.
    """

    status: JSON
    action: Action = ""
    event: tuple[str, str] | None = None
    after: float | None = None
