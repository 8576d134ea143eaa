"""What the gateway keeps of a stored Workload, which stream wrote it, and our writes that the cache does not show yet.

The id of a stream sorts by time. A replica does not notice at once that an agent has gone to another one. Until then
its stream must not take for left over what the agent has sent to its newer stream. No I/O.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from app.kube.own_writes import OwnWrites
from app.kube.store import Store
from app.numbers import whole_or
from app.tenancy.messages import canonical
from app.wire import JSON, pointer
from app.workloads.model import ObjectKey, workload_name

LAG = 60.0
"""Seconds after which a cache without our write counts as current: another client has removed what we wrote."""
STREAM = "berth.dev/stream"
"""Annotation on a Workload, by the gateway: the id of the stream that last wrote it; absent on one made by hand."""

STREAM_PATH = pointer("metadata", "annotations", STREAM)
_DIGITS = 15
_ID = re.compile(rf"0[0-9]{{{_DIGITS - 1}}}-[0-9a-f]{{8}}")


@dataclass(frozen=True, slots=True)
class Known:
    """A stored Workload: its uid, digest and bytes of its spec, and which stream wrote it ("" where none says so)."""

    name: str
    namespace: str
    uid: str
    version: str
    digest: bytes
    stream: str = ""
    size: int = 0

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    @property
    def workload_id(self) -> str:
        """The id that its name has, "" for a name that no stream gives."""
        found = self.name.removeprefix(workload_name(""))
        return found if workload_name(found) == self.name else ""

    def before(self, other: Known) -> bool:
        """Whether this is an earlier state than `other`."""
        ours, theirs = whole_or(self.version, -1), whole_or(other.version, -1)
        return ours < theirs if ours >= 0 and theirs >= 0 else self.version != other.version


@dataclass(frozen=True, slots=True)
class State:
    """What a workload is to be: its spec, or None for gone. `size` is the spec's in bytes."""

    spec: JSON | None
    digest: bytes = b""
    size: int = 0


GONE = State(None)


def project_known(obj: JSON) -> Known:
    """Projection for a Store; raises where an object cannot be read."""
    metadata, spec = obj["metadata"], canonical(obj["spec"])
    return Known(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        digest=digest_of(spec),
        stream=stream_of(obj),
        size=len(spec),
    )


def digest_of(spec: bytes) -> bytes:
    """Of a spec in its canonical form."""
    return hashlib.sha256(spec).digest()


def ledger_of(store: Store[Known], *, clock: Callable[[], float] = time.monotonic) -> OwnWrites[Known]:
    """The newest known state of each Workload: a comparison with the cache alone would take an outdated one for it."""
    ledger = OwnWrites(
        lambda key: store.get(*key),
        lifetime=LAG,
        reached=lambda shown, written: not shown.before(written),
        uid=lambda known: known.uid,
        clock=clock,
    )
    ledger.follow(store)
    return ledger


class StreamIds:
    """Gives out ids `<milliseconds since the epoch>-<random>`, as text of one length: each later than those before.

    An id is also later than every id that its replica knows of, because the clocks of replicas may differ.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = 0

    def next(self, known: Iterable[str]) -> str:
        """An id later than all that are `known` ("" is none)."""
        latest = max(known, default="")
        seen = int(latest.partition("-")[0]) if latest else 0
        self._last = max(int(self._clock() * 1000), self._last + 1, seen + 1)
        return f"{self._last:0{_DIGITS}d}-{secrets.token_hex(4)}"


def stream_of(obj: JSON) -> str:
    """The id on a stored Workload; "", which is earlier than every id, where there is none that can be read."""
    found = (obj["metadata"].get("annotations") or {}).get(STREAM)
    # With a leading zero: one more than the last of these still has as many digits, and sorts after it.
    return found if isinstance(found, str) and _ID.fullmatch(found) else ""
