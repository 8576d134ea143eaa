"""The faults of the daemon, and those that a test gives to it. Data only.

`Faults` switches off what the real daemon does wrong; all are on by default. `Trouble` is what a client has to live
with on any network.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Faults:
    """Each field is one fault of the real daemon. False: the stand-in does what would be right."""

    core_change_refused: bool = True
    """A PATCH that changes core or task ids alone fails. Off: the workload is enforced on the new ones."""
    foreign_origin_succeeds: bool = True
    """A PATCH or DELETE of a workload that is not of REST changes nothing and answers 200. Off: 403."""
    restart_forgets: bool = True
    """A restart empties the database and the classes of service. Off: both are kept."""
    one_mba_value: bool = True
    """All requests share one MBA value: that of the last request is enforced. Off: each workload has its own."""
    failed_patch_keeps_class: bool = True
    """After a PATCH that fails, the record names a class it has no more. Off: it says Failed, and names none."""
    mbps_alone_refused: bool = True
    """A workload that asks for mbps alone is refused on a machine without cache allocation. Off: it is accepted."""
    unlocked_validation: bool = True
    """Validation and enforcement are not one step: parallel POSTs of the same cores pass. Off: one lock is held."""
    collection_leaks_class: bool = True
    """The collection of workloads whose tasks are gone leaves their classes taken. Off: they are released."""
    last_class_lost: bool = True
    """The enforcement that takes the last class fails and loses it. Off: the last class can be used."""
    every_failure_is_internal: bool = True
    """What fails after validation is answered with 500. Off: with the code that the daemon means."""


class Kind(StrEnum):
    """What goes wrong between client and daemon."""

    HANG = "hang"
    """No answer and no effect, until the client gives up."""
    HANG_AFTER = "hang-after"
    """No answer until the client gives up; the request has had its effect."""
    SLOW = "slow"
    """The answer comes `seconds` later than the effect."""
    NOT_JSON = "not-json"
    """200 and the type application/json, with a body that is not JSON."""
    WRONG_TYPE = "wrong-type"
    """200 and an HTML page. The request has no effect."""
    ENDLESS = "endless"
    """200 and a JSON array that never ends."""
    TRUNCATED = "truncated"
    """The connection is closed in the middle of the answer; the request has had its effect."""
    REFUSED = "refused"
    """The connection is closed without an answer and without effect."""
    LOST_ANSWER = "lost-answer"
    """The connection is closed without an answer; the request has had its effect."""
    ERROR = "error"
    """500 with `text`, without effect."""
    ENDED = "ended"
    """The daemon ends without an answer. After `seconds` it runs again, as after a restart."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What goes wrong with the requests of a method and a path; "" is any. `path` is the begin of the path.

    `body` is a part of the body. `times` is how many requests are hit; None: all.
    """

    kind: Kind
    method: str = ""
    path: str = ""
    times: int | None = None
    seconds: float = 0.0
    text: str = "Internal error"
    body: bytes = b""

    def hits(self, method: str, path: str, body: bytes) -> bool:
        return self.method in ("", method) and path.startswith(self.path) and self.body in body and self.times != 0
