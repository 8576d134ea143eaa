"""`python -m bench.page`: what the page of `berth ui` costs in a large cluster, in seconds of CPU.

10,000 Pods, 1,000 DPUs, 1,000 AppWrappers, 10,000 Workloads. The API server answers out of memory: its part is not in
it, the decoding of what it sends is. `--profile` says where the time of one row goes.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import pstats
import resource
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace
from typing import Any, cast

from app import logs
from app.appwrappers.model import APP_WRAPPERS
from app.errors import ApiError
from app.kube.client import KubeClient, Request
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, NODES, PODS, Resource
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.ui.catalog import VIEWS
from app.ui.frames import Frame, Frames
from app.ui.rights import Own
from app.ui.serving import Named, sources_of, spare_garbage
from app.ui.view import Asked, Source
from app.wire import JSON, encode_json
from app.workloads.model import COMPANION, TENANT_RULES, TENANTS, WORKLOADS

PODS_MANY, DPUS, WRAPPERS, WORKLOADS_MANY, RULES, NETWORKS, TENANTS_MANY = 10_000, 1_000, 1_000, 10_000, 200, 100, 50
BROWSERS = 100
Made = tuple[Resource, list[JSON]]


def _body(kind: Resource, name: str, namespace: str = "", *, labels: JSON | None = None, **more: Any) -> JSON:
    metadata: JSON = {"name": name, "uid": f"uid-{kind.plural}-{namespace}-{name}", "resourceVersion": "1"}
    metadata["creationTimestamp"] = "2026-11-29T10:00:00Z"
    metadata |= {"namespace": namespace} if namespace else {}
    metadata |= {"labels": labels} if labels else {}
    metadata |= more.pop("metadata", {})
    return kind.body(metadata, **more)


def pod(number: int) -> JSON:
    """Of a team, on a network; each fifth is a companion on a DPU."""
    companion = number % 5 == 0
    tenant = number % TENANTS_MANY
    annotations = {"k8s.v1.cni.cncf.io/networks": f"net-{number % (NETWORKS - 1)}"}
    amounts = {"nvidia.com/bf3": "1", "cpu": "1", "memory": "1Gi"}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": amounts, "limits": amounts}}
    ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]
    return _body(
        PODS,
        f"pod-{number:05}",
        f"tenant-t{tenant}" if companion else "networks",
        labels={COMPANION: "tenant", "app": f"app-{number % 500}"} if companion else {"app": f"app-{number % 500}"},
        metadata={} if companion else {"annotations": annotations},
        spec={"nodeName": f"dpu-{number % DPUS:04}", "containers": [container]},
        status={
            "phase": "Running",
            "conditions": ready,
            "containerStatuses": [{"name": "c", "ready": True, "state": {"running": {}}}],
        },
    )


def dpu(number: int) -> JSON:
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "250", "nvidia.com/bf3": "64"}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    labels = {HOST_LABEL: f"host-{number:04}", TENANT_LABEL: f"t{number % TENANTS_MANY}"}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": ready}
    return _body(NODES, f"dpu-{number:04}", labels=labels, spec={}, status=status)


def wrapper(number: int) -> JSON:
    template = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
    conditions = [{"type": "QuotaReserved", "status": "True"}, {"type": "ResourcesDeployed", "status": "True"}]
    return _body(
        APP_WRAPPERS,
        f"wrapper-{number:04}",
        f"team-{number % 20}",
        spec={"suspend": False, "components": [{"template": template}]},
        status={"phase": "Running", "conditions": conditions},
    )


def workload(number: int) -> JSON:
    metadata = {"id": f"w{number}", "resourceName": f"web-{number}", "resourceNamespace": "default"}
    extra = {"labels": {"app": f"app-{number % 500}"}, "annotations": {}}
    spec = {"metadata": metadata, "state": {"nodeName": f"host-{number % DPUS:04}", "ready": True, "extra": extra}}
    return _body(WORKLOADS, f"workload-w{number}", f"tenant-t{number % TENANTS_MANY}", spec=spec)


def rule(number: int) -> JSON:
    """Each tenth matches nothing: the page says which workload is near."""
    value = "nowhere" if number % 10 == 0 else f"app-{number}"
    term = {"matchExpressions": [{"key": "state.extra.labels.app", "operator": "In", "values": [value]}]}
    template = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]}}
    matched = 0 if number % 10 == 0 else 20
    status = {"result": "success", "observedGeneration": 1, "matched": matched, "created": matched, "running": matched}
    if not matched:
        said = {"type": "Matched", "status": "False", "reason": "NoWorkload", "message": "no workload matches"}
        status["conditions"] = [said | {"lastTransitionTime": "2026-11-29T10:00:00Z"}]
    spec = {"resourceType": "v1/Pod", "workloadTerms": [term], "template": template}
    metadata = {"generation": 1}
    namespace = f"tenant-t{number % TENANTS_MANY}"
    return _body(TENANT_RULES, f"rule-{number:03}", namespace, metadata=metadata, spec=spec, status=status)


def tenant(number: int) -> JSON:
    hosts = [f"host-{host:04}" for host in range(number, DPUS, TENANTS_MANY)]
    spec = {"identity": {"names": [f"t{number}.tenant.local"]}, "hosts": hosts}
    return _body(TENANTS, f"t{number}", spec=spec, status={"result": "success"})


def network(number: int) -> JSON:
    config = {"config": '{"cniVersion": "1.0.0", "type": "sriov"}'}
    metadata = {"annotations": {"k8s.v1.cni.cncf.io/resourceName": "nvidia.com/bf3"}}
    return _body(NETWORK_ATTACHMENTS, f"net-{number}", "networks", metadata=metadata, spec=config)


def _names() -> list[JSON]:
    names = [f"tenant-t{number}" for number in range(TENANTS_MANY)] + [f"team-{number}" for number in range(20)]
    return [_body(NAMESPACES, name) for name in (*names, "networks", "default", "kube-system", "universe")]


def changed(body: JSON) -> JSON:
    """The object with another label."""
    metadata = body["metadata"]
    labels = {**metadata.get("labels", {}), "changed": str(time.monotonic_ns())}
    return {**body, "metadata": {**metadata, "labels": labels}}


def everything() -> list[Made]:
    return [
        (PODS, [pod(number) for number in range(PODS_MANY)]),
        (NODES, [dpu(number) for number in range(DPUS)]),
        (APP_WRAPPERS, [wrapper(number) for number in range(WRAPPERS)]),
        (WORKLOADS, [workload(number) for number in range(WORKLOADS_MANY)]),
        (TENANT_RULES, [rule(number) for number in range(RULES)]),
        (TENANTS, [tenant(number) for number in range(TENANTS_MANY)]),
        (NETWORK_ATTACHMENTS, [network(number) for number in range(NETWORKS)]),
        (NAMESPACES, _names()),
    ]


class Answers:
    """A session with an API server that holds these objects. `watches` counts those that were begun, by path."""

    source = server = "memory"
    namespace = "default"

    def __init__(self, made: list[Made]) -> None:
        self._pages: dict[str, list[bytes]] = {}
        self._queues: dict[str, asyncio.Queue[bytes]] = defaultdict(asyncio.Queue)
        self.watches = defaultdict[str, int](int)
        self._version = 1
        for kind, bodies in made:
            chunks = [bodies[start : start + 500] for start in range(0, len(bodies), 500)]
            pages = []
            for number, chunk in enumerate(chunks):
                following = str(number + 1) if number + 1 < len(chunks) else ""
                pages.append(encode_json({"metadata": {"resourceVersion": "1", "continue": following}, "items": chunk}))
            self._pages[kind.path()] = pages

    async def json(self, request: Request, *, decode: Callable[[bytes], Any] | None = None, **_more: Any) -> JSON:
        if request.path == "/version":
            return {"major": "1", "minor": "37", "gitVersion": "v1.37.2"}
        pages = self._pages.get(request.path)
        if pages is not None and request.verb == "GET":
            page = pages[int(request.query.get("continue") or 0)]
            return dict(cast("Callable[[bytes], JSON]", decode)(page))
        if request.verb == "GET" and request.path.rpartition("/")[2] in _EMPTY:
            return {"metadata": {"resourceVersion": "1"}, "items": []}
        raise ApiError(f"{request.what}: HTTP 404: not found", status=404, reason="NotFound")

    async def lines(self, request: Request) -> AsyncGenerator[bytes]:
        self.watches[request.path] += 1
        yield b""
        queue = self._queues[request.path]
        while True:
            yield await queue.get()

    def change(self, kind: Resource, body: JSON) -> None:
        """Has the watch tell of a change of the object."""
        self._version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self._version)}
        event = {"type": "MODIFIED", "object": {**body, "metadata": metadata}}
        self._queues[kind.path()].put_nowait(encode_json(event))

    async def open(self, _request: Request) -> Any:
        """What says the time."""
        return nullcontext(SimpleNamespace(headers={"Date": format_datetime(datetime.now(UTC), usegmt=True)}))

    async def close(self) -> None:
        """There is nothing to close."""


_EMPTY = frozenset(
    ("events", "deployments", "daemonsets", "replicasets", "statefulsets", "jobs", "services", "leases", "configmaps")
)


class Visits:
    """The page as browsers ask for it, without the bytes between."""

    def __init__(self, source: Source, answers: Answers) -> None:
        self.source, self.answers = source, answers
        self.frames = Frames({view.name: view for view in VIEWS})

    async def frame(self, view: str, **query: str) -> Frame:
        return await self.frames.of(Asked(self.source, Own(), view, query, (self.source.name,)))

    async def settled(self, view: str, **query: str) -> Frame:
        """The frame after all changes that were told."""
        await asyncio.sleep(0.02)
        return await self.frame(view, **query)


@asynccontextmanager
async def visited(made: list[Made]) -> AsyncIterator[Visits]:
    answers = Answers(made)
    client = KubeClient(cast("Any", answers))
    async with sources_of([Named("bench", client)]) as (source,):
        yield Visits(source, answers)


async def _timed(name: str, work: Callable[[], Awaitable[Any]], *, profile: str) -> None:
    profiler = cProfile.Profile() if profile and profile in name else None
    began = time.process_time()
    if profiler is not None:
        profiler.enable()
    await work()
    if profiler is not None:
        profiler.disable()
    print(f"{name:64}{time.process_time() - began:8.3f} s")
    if profiler is not None:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)


async def _run(profile: str) -> None:
    made = everything()
    objects = dict(made)
    async with visited(made) as visits:
        change = visits.answers.change

        async def doctor() -> None:
            while getattr((frame := await visits.frame("overview")).model, "doctor", None) is None:
                await frame.outdated(1.0)

        async def browsers(view: str) -> None:
            await asyncio.gather(*(visits.settled(view) for _ in range(BROWSERS)))

        rows: list[tuple[str, Callable[[], Awaitable[Any]]]] = [
            ("first view of the overview, with its lists", lambda: visits.frame("overview")),
            ("the doctor", doctor),
        ]
        for view in ("overview", "fabric", "tenants", "networks", "rules", "appwrappers", "objects"):
            rows.append((f"{view}, first", lambda view=view: visits.frame(view)))  # type: ignore[misc]

            def touched(view: str = view) -> Awaitable[Any]:
                change(PODS, changed(objects[PODS][5]))
                return browsers(view)

            rows.append((f"{view}, after a Pod has changed, for {BROWSERS} browsers", touched))

        def workload_touched() -> Awaitable[Any]:
            change(WORKLOADS, changed(objects[WORKLOADS][0]))
            return browsers("rules")

        rows.append((f"rules, after a Workload has changed, for {BROWSERS} browsers", workload_touched))
        for name, work in rows:
            await _timed(name, work, profile=profile)
        print(f"{'watches':64}{sum(visits.answers.watches.values()):8}")
        print(f"{'memory':64}{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:8.0f} MiB")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.page", description=__doc__)
    parser.add_argument("--profile", default="", metavar="TEXT", help="profile the rows whose names have this text")
    logs.configure("error")
    spare_garbage()
    asyncio.run(_run(parser.parse_args().profile))


if __name__ == "__main__":
    main()
