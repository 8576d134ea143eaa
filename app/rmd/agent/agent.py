"""The node agent: Pods of its node become RmdWorkloads, and the daemon's cache ways become devices of kubelet.

A container gets an RmdWorkload for the cores that kubelet gave it. The agent keeps nothing: what was made while it was
down is compared when it starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from app.errors import ApiError, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, Result
from app.kube.events import EventRecorder, EventType, Regarding
from app.kube.kit import Kit
from app.kube.resources import PODS
from app.kube.retry import get_or_none, if_there
from app.kube.secrets import FILES
from app.kube.store import Key
from app.kube.walls import Apart
from app.kube.writing import patch_same
from app.rmd.agent import metrics
from app.rmd.agent.caches import Made, NodeCaches, NodePod, node_labels, stored_made
from app.rmd.agent.kubelet import Announcing, Cores, NoAnswer, PodResources
from app.rmd.cores import MOST_CORES, ranges_of
from app.rmd.daemon.client import Certificates, Daemon, DaemonClient, Unanswered
from app.rmd.model import RMD_WORKLOADS, SERVER_NAME
from app.rmd.pods import ContainerRequest, workload_of
from app.rmd.requests import read_spec
from app.rmd.settings import NodeSettings
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as
from app.wire import JSON

_RESERVATION, _NAME_TAKEN, _REFUSED = "CacheReservation", "NameTaken", "RmdWorkloadRefused"
_NO_RESERVATION, _NO_CORES, _SHARED, _WRONG = "NoCacheReservation", "NoExclusiveCores", "SharedCores", "ImpossibleCores"
PROBLEMS = (_NO_RESERVATION, _NO_CORES, _SHARED, _WRONG, _NAME_TAKEN, _REFUSED)
"""The reasons of Warning Events on Pods."""
_PODS = "rmd-node-pods"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds until a Pod without cores is looked at again."""


@dataclass(frozen=True, slots=True)
class NodeAgentOptions:
    """Times are in seconds.

    `kubelet` has the folders of its sockets, `certificate` the client certificate for a daemon with TLS. Daemons are in
    `namespace`.
    """

    node: str
    kubelet: Path
    namespace: str
    certificate: Path
    announce: bool = True
    interval: float = 15.0
    timeout: float = 10.0


def attend(kit: Kit, *, options: NodeAgentOptions) -> None:
    """Make the agent of this kit."""
    caches = NodeCaches(kit, node=options.node, namespace=options.namespace)
    kubelet = PodResources(options.kubelet, timeout=options.timeout)
    certificates = Certificates(lambda: _files(options.certificate), place=f"folder {options.certificate}")
    daemons = DaemonClient(timeout=options.timeout)

    async def daemon() -> Daemon:
        pod = caches.daemon()
        if pod is None or not pod.url:
            raise Unanswered("no daemon of RMD runs on this node")
        tls = certificates.context() if pod.url.startswith("https://") else None
        return daemons.at(pod.url, tls, server_name=SERVER_NAME if tls else "")

    kit.reconcile(
        _PODS,
        PodSync(kit.client, caches, kubelet, kit.events).reconcile,
        stores=(caches.pods, caches.made),
        keys=caches.keys,
        wakes=caches.wakes(),
        backoff=(_FIRST_PAUSE, _LONGEST_PAUSE),
    )
    kit.within(daemons)
    kit.waits_for(lambda: filter(None, (kubelet.problem,)))
    if options.announce:
        announcing = Announcing(options.kubelet, daemon, interval=options.interval)
        kit.waits_for(lambda: filter(None, (announcing.problem,)))
        kit.beside("announcing", announcing.run)


def _files(folder: Path) -> dict[str, bytes] | None:
    """The files of the folder, None where there are none."""
    return {name: (folder / name).read_bytes() for name in FILES if (folder / name).is_file()} or None


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, NodeSettings)
    metrics.create_series(PROBLEMS)
    options = NodeAgentOptions(
        node=settings.node_name,
        kubelet=Path(settings.kubelet_folder),
        namespace=settings.rmd_namespace,
        certificate=Path(settings.daemon_certificate),
        announce=settings.announce_cache_ways,
    )

    def agent(client: KubeClient, events: EventRecorder) -> Kit:
        kit = Kit(client, events=events, resync=settings.resync_seconds)
        attend(kit, options=options)
        return kit

    return context.elected(agent)


class NotYet(Transient):
    """The Pod has to be looked at again; a status or an Event says why."""

    expected = True


class PodSync:
    def __init__(
        self, client: KubeClient, caches: NodeCaches, kubelet: PodResources, events: EventRecorder | None
    ) -> None:
        self._client, self._caches, self._kubelet, self._events = client, caches, kubelet, events
        self._said: dict[Key, tuple[str, frozenset[_Note]]] = {}
        """What was said of a Pod, by its UID: once is enough."""

    async def reconcile(self, key: Key) -> Result:
        """Raises Transient where the Pod has to be looked at again."""
        pod, silent = self._caches.pods.get(*key), ""
        cores: Cores | None = None
        if pod is not None and pod.acknowledged and not pod.ended and any(ask.qualifies for ask in pod.asks.containers):
            try:
                cores = await self._kubelet.cores()
            except NoAnswer as error:
                silent = str(error)
        shared = _shared_cores(cores, self._caches.pods.values()) if cores else frozenset[int]()
        plan, apart = _plan_pod(pod, self._caches.made_of(key), cores, shared), Apart()
        await self._write(pod, plan, apart)
        self._say(key, pod, plan.notes)
        with apart.step():
            if silent or plan.wait:
                raise NotYet(silent or plan.wait)
        apart.end()
        return Done()

    async def _write(self, pod: NodePod | None, plan: _PodPlan, apart: Apart) -> None:
        for made in plan.delete:
            namespace, name = made.key
            with _of_one(name, plan, apart):
                await if_there(self._client.delete(RMD_WORKLOADS, name, namespace=namespace, uid=made.uid))
        for made, workload in plan.update:
            with _of_one(made.key[1], plan, apart):
                await self._change(made, workload)
        if pod is not None:
            for workload in plan.create:
                with _of_one(workload["metadata"]["name"], plan, apart):
                    await self._create(pod, workload, plan)

    async def _create(self, pod: NodePod, body: JSON, plan: _PodPlan) -> None:
        try:
            await self._client.create(RMD_WORKLOADS, body, namespace=body["metadata"]["namespace"])
        except ApiError as error:
            if not error.conflict:
                raise
            await self._adopt(pod, body, plan)
        else:
            self._record(pod, "Normal", _Note(_RESERVATION, _asks(body)))

    async def _change(self, workload: Made, body: JSON) -> None:
        labels = {**workload.labels, **body["metadata"]["labels"]}
        changes = [
            {"op": "add", "path": "/metadata/labels", "value": labels},
            {"op": "replace", "path": "/spec", "value": body["spec"]},
        ]
        await patch_same(self._client, RMD_WORKLOADS, workload.key, workload.uid, *changes)

    async def _adopt(self, pod: NodePod, body: JSON, plan: _PodPlan) -> None:
        """An RmdWorkload of this name is there: of this Pod, by the operator's agent, or of others."""
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        obj = await get_or_none(self._client, RMD_WORKLOADS, name, namespace=namespace)
        if obj is None:
            plan.wait = f"RmdWorkload {name} has just gone"
            return
        workload = stored_made(obj)
        if workload is not None and workload.pod[1] == pod.uid:
            await self._change(workload, body)
            return
        plan.notes.append(_Note(_NAME_TAKEN, f"RmdWorkload {name} is there and belongs to no container of this Pod"))
        plan.wait = f"RmdWorkload {name} belongs to another"

    def _say(self, key: Key, pod: NodePod | None, notes: list[_Note]) -> None:
        if pod is None:
            self._said.pop(key, None)
            return
        uid, before = self._said.get(key, ("", frozenset()))
        for note in notes:
            if uid != pod.uid or note not in before:
                self._record(pod, "Warning", note)
                metrics.PROBLEMS.labels(note.reason).inc()
        self._said[key] = pod.uid, frozenset(notes)

    def _record(self, pod: NodePod, kind: EventType, note: _Note) -> None:
        if self._events is not None:
            self._events.record(Regarding.of(PODS, pod.key, pod.uid), kind, reason=note.reason, message=note.message)


@contextmanager
def _of_one(name: str, plan: _PodPlan, apart: Apart) -> Iterator[None]:
    """Around the write of one RmdWorkload: a refusal is noted, and costs no other container."""
    with apart.step():
        try:
            yield
        except ApiError as error:
            if error.about_object:
                plan.notes.append(_Note(_REFUSED, f"RmdWorkload {name}: {error}"))
            raise


def _asks(workload: JSON) -> str:
    cores = ",".join(ranges_of(map(int, workload["spec"]["coreIds"])))
    return f"RmdWorkload {workload['metadata']['name']} asks for it on cores {cores}"


class _Note(NamedTuple):
    """A Warning Event on the Pod."""

    reason: str
    message: str


@dataclass(slots=True)
class _PodPlan:
    """`wait` says why the Pod has to be looked at again, "" where it has not."""

    create: list[JSON] = field(default_factory=list)
    update: list[tuple[Made, JSON]] = field(default_factory=list)
    delete: list[Made] = field(default_factory=list)
    notes: list[_Note] = field(default_factory=list)
    wait: str = ""


def _plan_pod(pod: NodePod | None, made: Sequence[Made], cores: Cores | None, shared: frozenset[int]) -> _PodPlan:
    """`made` are the RmdWorkloads of Pods of this name, `cores` those of all Pods of the node; None: kubelet is silent.

    `shared` are the cores that several containers have. Without an answer of kubelet what is there stays.
    """
    plan = _PodPlan()
    kept: set[str] = set()
    if pod is not None and not pod.ended:
        plan.notes += [_Note(_NO_RESERVATION, line) for line in pod.asks.warnings]
        listed = (cores or {}).get(pod.key) if pod.acknowledged else None
        for ask in pod.asks.containers:
            _plan_container(plan, kept, pod, ask, made, listed, shared)
    plan.delete += [workload for workload in made if workload.key[1] not in kept and not workload.deleting]
    return plan


def _shared_cores(cores: Cores, pods: Iterable[NodePod]) -> frozenset[int]:
    """Cores of more than one container of these Pods, which have not ended: kubelet 1.20 lists the shared ones."""
    living = (cores.get(pod.key, {}) for pod in pods if not pod.ended)
    counted = Counter(core for containers in living for given in containers.values() for core in given or ())
    return frozenset(core for core, times in counted.items() if times > 1)


def _plan_container(
    plan: _PodPlan,
    kept: set[str],
    pod: NodePod,
    request: ContainerRequest,
    made: Sequence[Made],
    listed: Mapping[str, frozenset[int] | None] | None,
    shared: frozenset[int],
) -> None:
    container = request.container
    plan.notes += [_Note(_NO_RESERVATION, line) for line in request.warnings]
    if not request.qualifies:
        plan.notes.append(_Note(_NO_RESERVATION, f"container {container}: {'; '.join(request.problems)}"))
        return
    if container in pod.over:
        return
    given = (listed or {}).get(container, frozenset())
    body = workload_of(pod.identity, request, given or frozenset())
    body["metadata"]["labels"] = node_labels(pod.identity["spec"]["nodeName"])
    present = next((workload for workload in made if workload.key[1] == body["metadata"]["name"]), None)
    if present is not None and present.pod[1] == pod.uid:
        kept.add(present.key[1])
    if not given or given & shared:
        _without_cores(plan, pod, container, given, present, listed=listed is not None)
    elif present is None and not pod.deleting:
        plan.create.append(body)
    elif present is not None and present.pod[1] != pod.uid:
        plan.wait = f"RmdWorkload {present.key[1]} of an earlier Pod has to go first"
    elif present is not None and not _alike(present.spec, body["spec"]) and not present.deleting:
        plan.update.append((present, body))


def _alike(stored: JSON, body: JSON) -> bool:
    """Whether the specs differ in nothing but how they write the same cores: Berth wrote ranges of them before."""
    if {**stored, "coreIds": ()} != {**body, "coreIds": ()}:
        return False
    return read_spec(stored).request.cores == read_spec(body).request.cores


def _without_cores(
    plan: _PodPlan, pod: NodePod, container: str, given: frozenset[int] | None, workload: Made | None, *, listed: bool
) -> None:
    if given is None:
        text = f"container {container}: kubelet lists cores that no machine has: want numbers below {MOST_CORES}"
        plan.notes.append(_Note(_WRONG, text))
    elif given:
        plan.notes.append(_Note(_SHARED, f"container {container}: kubelet lists cores that other containers have too"))
    elif listed and pod.phase == "Running" and workload is None:
        text = f"container {container}: kubelet gave it no cores of its own: its CPU manager policy has to be static"
        plan.notes.append(_Note(_NO_CORES, text))
    if pod.acknowledged:
        plan.wait = plan.wait or f"container {container} has no cores of its own yet"
