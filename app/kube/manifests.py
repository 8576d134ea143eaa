"""Fills stores from manifest files instead of an API server, and follows the files as they change.

Owns the scan of one directory and what each file last held. It promises what a reflector promises: stores are synced
after the first full load, and a fault makes `healthy` False with a reason while the last good content stays.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from app.kube import metrics, resources
from app.kube.documents import SUFFIXES, DocumentError, read_objects
from app.kube.store import PoisonError, Store
from app.wire import JSON

log = structlog.get_logger(__name__)

Stamp = tuple[int, int, int]
_CLUSTER_SCOPED = frozenset(
    value.kind for value in vars(resources).values() if isinstance(value, resources.Resource) and not value.namespaced
)


@dataclass(slots=True)
class _File:
    stamp: Stamp
    objects: list[JSON]
    fault: str = ""


class ManifestSource:
    """Feeds `stores`, by kind, from every .yaml, .yml and .json file under `directory`; other kinds are left out.

    Files count in the order of their paths: of two objects with one name the later stands. Hidden files and
    directories are skipped, as the twins of a mounted ConfigMap are. Looks for changes every `interval` seconds.
    """

    def __init__(
        self,
        directory: Path,
        stores: Mapping[str, Store[Any]],
        *,
        interval: float = 1.0,
        default_namespace: str = "default",
    ) -> None:
        self._directory = directory
        self._stores = dict(stores)
        self._interval = interval
        self._default_namespace = default_namespace
        self._files: dict[Path, _File] = {}
        self._fault = "not loaded yet"
        self._loaded = False

    @property
    def healthy(self) -> bool:
        return self._loaded and not self.reason

    @property
    def reason(self) -> str:
        """What is wrong, as `file:line: fault` where a file is; "" when nothing is."""
        faults = (self._files[path].fault for path in sorted(self._files))
        return self._fault or next((fault for fault in faults if fault), "")

    async def run(self) -> None:
        """Loads and follows the directory until cancelled."""
        for kind, store in self._stores.items():
            metrics.cache_began(kind, store)
        try:
            while True:
                await self.refresh()
                await asyncio.sleep(self._interval)
        finally:
            for kind, store in self._stores.items():
                metrics.cache_ended(kind, store)

    async def refresh(self) -> bool:
        """One look at the directory; True if something had changed and the stores were filled anew."""
        try:
            stamps = await asyncio.to_thread(_scan, self._directory)
        except OSError as error:
            fault = f"{self._directory}: {error.strerror or type(error).__name__}"
            if fault != self._fault:
                log.warning("manifests unreadable", reason=fault)
            self._fault = fault
            return False
        self._fault = ""
        changed = [path for path, stamp in stamps.items() if self._stamp_of(path) != stamp]
        gone = self._files.keys() - stamps.keys()
        for path in gone:
            del self._files[path]
        for path in changed:
            await self._read(path, stamps[path])
        if changed or gone or not self._loaded:
            self._fill()
        for store in self._stores.values():
            store.touch()
        return bool(changed or gone)

    def _stamp_of(self, path: Path) -> Stamp | None:
        known = self._files.get(path)
        return known.stamp if known else None

    async def _read(self, path: Path, stamp: Stamp) -> None:
        try:
            objects = await asyncio.to_thread(read_objects, path)
            self._files[path] = _File(stamp, objects)
        except DocumentError as error:
            last_good = self._files[path].objects if path in self._files else []
            self._files[path] = _File(stamp, last_good, str(error))
            log.warning("manifest unreadable", reason=str(error))

    def _fill(self) -> None:
        replacements = {kind: store.replacement() for kind, store in self._stores.items()}
        for path in sorted(self._files):
            for obj in self._files[path].objects:
                replacement = replacements.get(obj["kind"])
                if replacement is None:
                    continue
                try:
                    replacement.add(self._placed(obj))
                except PoisonError as error:
                    log.warning("object skipped", kind=obj["kind"], file=str(path), error=str(error))
                    metrics.POISON_OBJECTS.labels(obj["kind"]).inc()
        self._loaded = True
        for kind, store in self._stores.items():
            replacements[kind].commit()
            store.mark_synced()

    def _placed(self, obj: JSON) -> JSON:
        """The object with the namespace that kubectl would give it."""
        metadata = obj.get("metadata")
        if obj["kind"] in _CLUSTER_SCOPED or not isinstance(metadata, dict) or metadata.get("namespace"):
            return obj
        return {**obj, "metadata": {**metadata, "namespace": self._default_namespace}}


def _scan(directory: Path) -> dict[Path, Stamp]:
    """The manifest files under `directory` and what changes when their content does; OSError if it is unreadable."""
    found: dict[Path, Stamp] = {}
    waiting, seen = [directory], set()
    while waiting:
        place = waiting.pop()
        stat = place.stat()
        if (stat.st_dev, stat.st_ino) in seen:  # a link that leads back up
            continue
        seen.add((stat.st_dev, stat.st_ino))
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    waiting.append(Path(entry.path))
                elif entry.name.endswith(SUFFIXES) and entry.is_file():
                    stat = entry.stat()
                    found[Path(entry.path)] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return found
