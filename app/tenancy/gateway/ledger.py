"""Holds the newest known state of each Workload: the cache's, or our own write that the cache has not shown yet.

A comparison with the cache alone would treat an outdated state as the current one. No I/O.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.kube.store import Store
from app.tenancy.gateway.streamids import stream_of
from app.tenancy.messages import canonical
from app.wire import JSON
from app.workloads.model import ObjectKey

LAG = 60.0
"""Seconds after which a cache without our write counts as current: another client has removed what we wrote."""


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

    def before(self, other: Known) -> bool:
        """Whether this is an earlier state than `other`."""
        return _older(self.version, other.version)


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


class Ledger:
    """Follows a store of `Known`."""

    def __init__(self, store: Store[Known], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._written: dict[ObjectKey, tuple[float, Known | None, str]] = {}
        store.subscribe(lambda _type, key, old, new: self._shown(key, old, new))
        # The API server that took our writes may have been replaced.
        store.on_renewed(self._written.clear)

    def get(self, key: ObjectKey) -> Known | None:
        written = self._written.get(key)
        if written is None:
            return self._store.get(*key)
        at, known, _ = written
        if self._clock() - at > LAG:
            del self._written[key]
            return self._store.get(*key)
        return known

    def wrote(self, obj: JSON) -> None:
        """The API server has answered a write with this object."""
        known = project_known(obj)
        shown = self._store.get(*known.key)
        if shown is None or _older(shown.version, known.version):
            self._written[known.key] = (self._clock(), known, known.uid)
        else:
            self._written.pop(known.key, None)

    def deleted(self, key: ObjectKey, uid: str) -> None:
        """The API server has taken a deletion of the object of this uid."""
        shown, written = self._store.get(*key), self._written.get(key)
        if (shown is not None and shown.uid == uid) or (written is not None and written[1] is not None):
            self._written[key] = (self._clock(), None, uid)
        else:
            self._written.pop(key, None)

    def forget(self, key: ObjectKey) -> None:
        """What was thought of this key has proved wrong."""
        self._written.pop(key, None)

    def _shown(self, key: ObjectKey, old: Known | None, new: Known | None) -> None:
        written = self._written.get(key)
        if written is None:
            return
        _, known, uid = written
        if known is None:
            caught_up = new is None or new.uid != uid
        elif new is None:
            # Gone: ours, unless it is an earlier object of the same name.
            caught_up = old is not None and old.uid == uid
        else:
            caught_up = not _older(new.version, known.version)
        if caught_up:
            del self._written[key]


def _older(version: str, other: str) -> bool:
    if version.isdecimal() and other.isdecimal():
        return int(version) < int(other)
    return version != other
