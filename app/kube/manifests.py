"""Fills stores from manifest files instead of an API server, and follows the files as they change.

As with a reflector, stores are synced after the first full load, and a directory that cannot be read makes `healthy`
False with a reason while the last good content stays. A file or document that cannot be read is logged, and costs the
others nothing; what its file held before stays, where the rest of the file does not say otherwise.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from app.kube import metrics, resources
from app.kube.documents import DocumentError, entries_below, is_manifest_file, read_objects
from app.kube.store import PoisonError, Store
from app.wire import JSON

log = structlog.get_logger(__name__)

Stamp = tuple[int, int, int]
_CLUSTER_SCOPED = frozenset(
    value.kind for value in vars(resources).values() if isinstance(value, resources.Resource) and not value.namespaced
)


@dataclass(slots=True)
class _File:
    stamp: Stamp | None = None
    objects: list[JSON] = field(default_factory=list)


class ManifestSource:
    """Feeds `stores`, pairs of a kind and a store, from every .yaml, .yml and .json file under `directory`.

    Other kinds are left out.
    Files count in the order of their paths: of two objects with one name the later stands. Hidden files and
    directories are skipped, as the twins of a mounted ConfigMap are. Looks for changes every `interval` seconds.
    """

    def __init__(self, directory: Path, stores: Iterable[tuple[str, Store[Any]]], *, interval: float = 1.0) -> None:
        self._directory, self._interval = directory, interval
        self._stores = tuple(stores)
        self._files: dict[Path, _File] = {}
        self._fault = "not loaded yet"

    @property
    def healthy(self) -> bool:
        return not self.reason

    @property
    def reason(self) -> str:
        """Why the directory cannot be read; "" when it can."""
        return self._fault

    async def run(self) -> None:
        with ExitStack() as kept:
            for kind, store in self._stores:
                kept.enter_context(metrics.caches_kept([(kind, store)]))
            while True:
                await self.refresh()
                await asyncio.sleep(self._interval)

    async def refresh(self) -> bool:
        """One look at the directory; True if something had changed and the stores were filled again."""
        try:
            stamps = await asyncio.to_thread(_scan, self._directory)
        except OSError as error:
            fault = f"{self._directory}: {error.strerror or type(error).__name__}"
            if fault != self._fault:
                log.warning("manifests unreadable", reason=fault)
            self._fault = fault
            return False
        known = {path: file for path, file in self._files.items() if path in stamps}
        changed = len(known) != len(self._files)
        self._files = known
        for path, stamp in stamps.items():
            file = known.setdefault(path, _File())
            if file.stamp != stamp:
                changed = True
                file.stamp = stamp
                file.objects = await asyncio.to_thread(_read, path, file.objects)
        if changed or self._fault:
            self._fill()
        self._fault = ""
        for _, store in self._stores:
            store.touch()
        return changed

    def _fill(self) -> None:
        """Several wings may keep the same kind, each what it needs of it."""
        replacements = [(kind, store.replacement()) for kind, store in self._stores]
        for path in sorted(self._files):
            for obj in self._files[path].objects:
                for kind, replacement in replacements:
                    if kind != obj["kind"]:
                        continue
                    try:
                        replacement.add(_placed(obj))
                    except PoisonError as error:
                        log.warning("object skipped", kind=kind, file=str(path), error=str(error))
                        metrics.POISON_OBJECTS.labels(kind).inc()
        for (_, store), (_, replacement) in zip(self._stores, replacements, strict=True):
            replacement.commit()
            store.mark_synced()


def _placed(obj: JSON) -> JSON:
    """The object with the namespace that kubectl would give it."""
    metadata = obj.get("metadata")
    if obj["kind"] in _CLUSTER_SCOPED or not isinstance(metadata, dict) or metadata.get("namespace"):
        return obj
    return {**obj, "metadata": {**metadata, "namespace": "default"}}


def _read(path: Path, before: list[JSON]) -> list[JSON]:
    """The objects of a file; where some of it cannot be read, with those that it held before."""
    faults: list[DocumentError] = []
    try:
        objects = read_objects(path, faults.append)
    except DocumentError as error:
        faults.append(error)
        objects = []
    for fault in faults:
        log.warning("manifest unreadable", reason=str(fault))
    return list({_name(obj): obj for obj in (*before, *objects)}.values()) if faults else objects


def _name(obj: JSON) -> tuple[str, str]:
    metadata = _placed(obj).get("metadata")
    parts = [metadata.get("namespace"), metadata.get("name")] if isinstance(metadata, dict) else []
    return obj["kind"], str(parts)


def _scan(directory: Path) -> dict[Path, Stamp]:
    """The manifest files under `directory` and what changes when their content does; OSError if it is unreadable."""
    found: dict[Path, Stamp] = {}
    for entry in entries_below(directory):
        if is_manifest_file(entry):
            stat = entry.stat()
            found[Path(entry.path)] = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    return found
