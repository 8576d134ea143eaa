"""What kubelet has given to the containers of its node, asked over its socket.

Source: KEP-606, and https://kubernetes.io/docs/concepts/extend-kubernetes/compute-storage-net/device-plugins/
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import grpc
import grpc.aio

from app.errors import Transient
from app.kube.store import Key
from app.rmd.agent import metrics
from app.rmd.cores import MOST_CORES
from app.rmd.proto import resources_grpc, resources_pb
from app.text import one_line

SOCKET = Path("pod-resources", "kubelet.sock")
_MOST_BYTES = 16 * 2**20
"""Of an answer: a node has some hundred Pods, of some hundred bytes each."""
_SHOWN = 200
SOCKET_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
"""A connection of its own: one that is shared remembers that the kubelet before did not answer."""

Cores = Mapping[Key, Mapping[str, frozenset[int] | None]]
"""The exclusive cores by Pod (namespace and name) and container; those of containers without any are empty.

None where kubelet lists cores that no machine has: what it says of other containers holds.
"""


class NoAnswer(Transient):
    """kubelet does not answer, or says what cannot be; the text says why."""

    expected = True


class PodResources:
    """`problem` is why the last list failed, "" where it did not. All that wait at a time share one list."""

    def __init__(self, folder: Path, *, timeout: float = 10.0) -> None:
        self._path, self._timeout = folder / SOCKET, timeout
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Cores] | None = None
        self.problem = ""

    async def cores(self) -> Cores:
        """What kubelet says after this call. Raises NoAnswer."""
        if self._next is None:
            self._next = asyncio.create_task(self._listed())
        return await asyncio.shield(self._next)

    async def _listed(self) -> Cores:
        async with self._turn:
            # Who asks from now on may know of a Pod that this list does not have.
            self._next = None
            try:
                found = read_cores(await self._list())
            except NoAnswer as error:
                self.problem = str(error)
                metrics.LISTS.labels("failed").inc()
                raise
            self.problem = ""
            metrics.LISTS.labels("answered").inc()
            return found

    async def _list(self) -> resources_pb.ListPodResourcesResponse:
        """On a connection of its own: the socket is another one after a restart of kubelet."""
        options = (("grpc.max_receive_message_length", _MOST_BYTES), *SOCKET_OPTIONS)
        try:
            async with grpc.aio.insecure_channel(f"unix:{self._path}", options=options) as channel:
                stub = resources_grpc.PodResourcesListerStub(channel)
                answer: resources_pb.ListPodResourcesResponse | None = await stub.List(
                    resources_pb.ListPodResourcesRequest(), timeout=self._timeout
                )
        except grpc.aio.AioRpcError as error:
            said = one_line(error.details() or error.code().name, _SHOWN)
            raise NoAnswer(f"kubelet at {self._path}: {error.code().name}: {said}") from error
        if answer is None:
            # grpc.aio says so of bytes that are no message.
            raise NoAnswer(f"kubelet at {self._path}: the answer is no list of Pods")
        return answer


def read_cores(answer: resources_pb.ListPodResourcesResponse) -> Cores:
    """Pods that are listed twice are left out: one of them has ended, and it is not said which."""
    times = Counter((pod.namespace, pod.name) for pod in answer.pod_resources)
    return {
        (pod.namespace, pod.name): {container.name: _checked(container) for container in pod.containers}
        for pod in answer.pod_resources
        if times[pod.namespace, pod.name] == 1
    }


def _checked(container: resources_pb.ContainerResources) -> frozenset[int] | None:
    cores = frozenset(container.cpu_ids)
    return cores if all(0 <= core < MOST_CORES for core in cores) else None
