"""The volumes of a Pod as directories: Secrets and ConfigMaps as a kubelet shows them, empty ones.

What a kubelet swaps as a whole is swapped as a whole here too (`app.certs.folder`). Other kinds of volumes are empty.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from app.certs.folder import write_files
from app.errors import Transient
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS, SECRETS, Resource
from app.kube.retry import get_or_none
from app.wire import JSON


class Volumes:
    """Those of one Pod, below `directory`."""

    def __init__(self, client: KubeClient, pod: JSON, directory: Path) -> None:
        self._client = client
        self._namespace = pod["metadata"]["namespace"]
        self._volumes: dict[str, JSON] = {one["name"]: one for one in pod["spec"].get("volumes") or []}
        self._directory = directory
        self._shown: dict[str, Mapping[str, bytes]] = {}

    async def refresh(self) -> None:
        """Make every directory hold what it should. Raises Transient where an object is still to come."""
        for name, volume in self._volumes.items():
            self.path(name).mkdir(parents=True, exist_ok=True)
            files = await self._content(volume)
            if files is not None and files != self._shown.get(name):
                write_files(self.path(name), files)
                self._shown[name] = files

    def path(self, name: str) -> Path:
        return self._directory / name

    def places(self, container: JSON) -> dict[str, Path]:
        """Where this machine has what the container sees, by mount path; the longest path first."""
        mounts = sorted(container.get("volumeMounts") or [], key=lambda one: len(one["mountPath"]), reverse=True)
        return {one["mountPath"]: self.path(one["name"]) / one.get("subPath", "") for one in mounts}

    async def _content(self, volume: JSON) -> dict[str, bytes] | None:
        if source := volume.get("secret"):
            found = await self._read(SECRETS, source.get("secretName", ""), optional=bool(source.get("optional")))
            content = {name: base64.b64decode(value) for name, value in (found.get("data") or {}).items()}
        elif source := volume.get("configMap"):
            found = await self._read(CONFIG_MAPS, source.get("name", ""), optional=bool(source.get("optional")))
            content = {name: str(value).encode() for name, value in (found.get("data") or {}).items()}
        else:
            return None
        items = source.get("items")
        return {one["path"]: content[one["key"]] for one in items if one["key"] in content} if items else content

    async def _read(self, resource: Resource, name: str, *, optional: bool) -> JSON:
        found = await get_or_none(self._client, resource, name, namespace=self._namespace)
        if found is None and not optional:
            raise Transient(f"{resource.kind} {self._namespace}/{name} is not there yet", delay=0.3)
        return found or {}
