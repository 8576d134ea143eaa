"""A Pod of Berth's image on this machine: its address, identity and volumes around one process."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from app.devtools.clusters.kubeconfigs import acting_as, write_private
from app.devtools.clusters.node.addresses import claim, shown
from app.devtools.clusters.node.status import Seen, report
from app.devtools.clusters.node.volumes import Volumes
from app.devtools.sandbox.processes import PodLog
from app.kube.client import KubeClient
from app.kube.names import service_account_user
from app.wire import JSON


def is_berth(pod: JSON) -> bool:
    """Whether this Pod runs Berth's image as it is: the repository ends in `berth`, and no command replaces its own."""
    containers = pod["spec"].get("containers") or []
    if len(containers) != 1 or containers[0].get("command"):
        return False
    image = str(containers[0].get("image") or "").partition("@")[0].rpartition("/")[2]
    return image.partition(":")[0] == "berth"


class Runs(Protocol):
    """What runs the one container of a Pod: a process, or a role within this one."""

    @property
    def exit_code(self) -> int | None: ...

    async def start(self) -> None: ...

    async def ready(self) -> bool: ...

    async def stop(self, *, grace: float) -> None: ...


class Makes(Protocol):
    """Makes what runs a Pod: on `address`, with this kubeconfig, with `places` for the paths of its volumes."""

    def __call__(
        self, pod: JSON, *, address: str, kubeconfig: Path, places: Mapping[str, Path], log: PodLog
    ) -> Runs: ...


class PodProcess:
    """A Pod that this node has taken on, below `directory`; `kubeconfig` is the administrator's.

    Each process has a loopback address of its own, so that every replica has the ports that its Pod names. What it
    speaks to the API server is what its ServiceAccount may: the node's own identity does not lend it any right.
    """

    def __init__(self, client: KubeClient, pod: JSON, *, make: Makes, kubeconfig: Path, directory: Path) -> None:
        metadata, spec = pod["metadata"], pod["spec"]
        self.uid: str = metadata["uid"]
        self.started = False
        self.restarts = 0
        self._client = client
        self._folder = directory / "pods" / self.uid
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._volumes = Volumes(client, pod, self._folder / "volumes")
        self._claim = claim()
        name = f"{metadata['namespace']}_{metadata['name']}.log"
        self.log = PodLog(self.address, directory / "logs" / name)
        own = self._folder / "kubeconfig"
        user = service_account_user(metadata["namespace"], spec.get("serviceAccountName") or "default")
        write_private(own, acting_as(kubeconfig, user))
        self._container = make(
            pod,
            address=self.address,
            kubeconfig=own,
            places=self._volumes.places(spec["containers"][0]),
            log=self.log,
        )

    @property
    def address(self) -> str:
        return self._claim.address

    @property
    def exit_code(self) -> int | None:
        """None while it runs, and before it does."""
        return self._container.exit_code

    async def refresh(self) -> None:
        """Make the volumes hold what they should. Raises Transient where one is still to come."""
        await self._volumes.refresh()

    async def start(self) -> None:
        """Start the process, or start it again after its end."""
        await self._container.start()
        self.started = True

    async def ready(self) -> bool:
        return await self._container.ready()

    async def report(self, pod: JSON, *, ready: bool, exit_code: int | None = None) -> None:
        """Write the status of the Pod. Raises ApiError where it is gone, or another has its name."""
        await report(self._client, pod, Seen(shown(self.address), ready, self.restarts, exit_code))

    async def stop(self, *, grace: float) -> None:
        """End it within so many seconds; nothing else has its address until `release`."""
        await self._container.stop(grace=grace)

    def release(self) -> None:
        self._claim.release()

    async def clear(self) -> None:
        """Stop it soon, and give back what it had: its address, and its Secrets."""
        await self.stop(grace=1.0)
        self.release()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)
