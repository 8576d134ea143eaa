"""The agent: caches of the tenant cluster, the connection to the gateway, and what goes between them.

Each part waits for what it needs, so that without the definition of rules the Pods' part still works.

WorkloadRules and UVS objects ask the gateway for something. Statuses show its answer. Its watch says what it has, so
that what was changed or removed there is put right too.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import structlog
from cryptography import x509

from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.kube.resources import PODS, Resource
from app.kube.running import stand
from app.kube.store import Store
from app.serving.metrics import refresh
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as
from app.tenancy.agent.connection import ClusterIdentity, Connection
from app.tenancy.agent.metrics import create_series
from app.tenancy.agent.outages import Answers, GatewayRefused, GatewayUnavailable
from app.tenancy.agent.remote import Pod, Pods, Rules, Watch, is_companion, names_of, pod_summary
from app.tenancy.agent.settings import AgentOptions, AgentSettings
from app.tenancy.agent.syncing import Local, MirrorSync, Syncer
from app.tenancy.agent.views import Objects, ObjectView, PodView, in_terms_of_the_object, project_object, project_pod
from app.tenancy.agent.workloads import Namespaces, WorkloadSender
from app.tenancy.messages import data_of_spec, status_json
from app.tenancy.proto import resource_pb, rule_pb
from app.workloads.model import (
    AGENT_OWNER,
    UVS_CONFIG_MAPS,
    UVS_DAEMON_SETS,
    UVS_PODS,
    UVS_RESOURCES,
    UVS_SECRETS,
    WORKLOAD_RULES,
)

if TYPE_CHECKING:  # it needs OpenTelemetry, which need not be installed
    from app.tracing.spans import Spans


log = structlog.get_logger(__name__)
_TYPES = {
    UVS_PODS: resource_pb.ResourceType(api_version="v1", kind="Pod"),
    UVS_DAEMON_SETS: resource_pb.ResourceType(api_version="apps/v1", kind="DaemonSet"),
    UVS_SECRETS: resource_pb.ResourceType(api_version="v1", kind="Secret"),
    UVS_CONFIG_MAPS: resource_pb.ResourceType(api_version="v1", kind="ConfigMap"),
}
"""What the objects of each kind ask for."""
T = TypeVar("T")
_POLL_SECONDS = 10.0
_WORKERS = 4
_OBJECTS = (WORKLOAD_RULES, *UVS_RESOURCES)


def connect(kit: Kit, *, options: AgentOptions, calls: Spans | None = None) -> None:
    """Make the agent of this kit, whose client speaks to the tenant cluster.

    It may get namespace kube-system, list and watch Pods everywhere and the one ConfigMap, read and write
    WorkloadRules, UVS objects and their statuses in the namespace of the settings. The kit gets ready when the streams
    are up and the namespaces of workloads are known.
    """
    settings, client = options.settings, kit.client
    cluster = ClusterIdentity(client, base=options.backoff_base, cap=options.backoff_cap)
    connection = Connection(options, cluster=cluster, calls=calls)
    kit.beside("cluster", cluster.run)
    kit.beside("connection", connection.run)
    pods: Store[PodView] = kit.cache(PODS, partial(project_pod, keep_finished=settings.keep_finished))
    namespaces = Namespaces(kit, settings)
    sender = WorkloadSender(pods, namespaces, options=options)
    kit.beside("stream-workloads", partial(connection.keep, "workloads", sender.session))
    rules, companions = Rules(connection), Pods(connection)
    for watch in (rules, companions):
        kit.beside(f"stream-{watch.stream}", partial(connection.keep, watch.stream, watch.session))
    objects: dict[Resource, Objects] = {
        resource: kit.cache(resource, project_object, namespace=settings.namespace) for resource in _OBJECTS
    }
    local = {resource: Local(client, resource, store, options, kit.events) for resource, store in objects.items()}
    RuleSync("rules", kit, local[WORKLOAD_RULES], rules)
    # What the mirrors know of a UVSPod decides whether it is a request: they are told of each change before a key of it
    # is looked at. A mirror is not the user's object: no Event is made of its status.
    mirrors = MirrorSync(kit, Local(client, UVS_PODS, objects[UVS_PODS], options), companions)
    for resource in UVS_RESOURCES:
        ResourceSync(kit, local[resource], companions, is_mirror=mirrors.is_mirror)
    kit.waits_for(lambda: filter(None, (namespaces.problem and f"namespaces of workloads: {namespaces.problem}",)))
    kit.waits_for(connection.waiting)


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, AgentSettings)
    create_series()
    options, spans = AgentOptions(settings), context.spans()

    def agent(client: KubeClient, events: EventRecorder) -> Kit:
        kit = Kit(client, events=events, workers=_WORKERS, resync=None)
        connect(kit, options=options, calls=spans)
        return kit

    work = context.elected(agent)
    return _CertificateDate(work, Path(settings.tls_cert_file)) if context.alone else work


class Requests(Syncer[T]):
    """Each is sent, shows the answer in its status, and is removed there. Only what an agent owns is ever removed."""

    _remote: Watch[T]

    def __init__(self, name: str, kit: Kit, local: Local, remote: Watch[T]) -> None:
        super().__init__(name, kit, local, remote)
        self._unanswered: dict[str, float] = {}
        self._answers = Answers(base=self._options.refusal_pause, cap=self._options.settings.resync_seconds)

    @abstractmethod
    async def _converge(self, view: ObjectView) -> None:
        """Send the object where that is needed, and show what the gateway says. Raises GatewayRefused."""

    @abstractmethod
    def _deletion(self, name: str) -> Any:
        """The request that removes it there; None where the gateway has none of this name that an agent has sent."""

    def _asks(self, view: ObjectView) -> bool:  # noqa: ARG002 - for those of which some do not
        """Whether the object is a request."""
        return True

    def _removed(self, name: str) -> None:
        """The gateway does not have it any more."""

    async def _learn(self) -> None:
        self._answers.clear()  # what was refused is asked again

    async def _reconcile(self, name: str) -> float | None:
        view = self._local.get(name)
        if view is not None and not self._asks(view):
            view = None
        if not self._remote.synced:
            return None if view is None else await self._unreached(view)
        if view is None:
            await self._remove(name)
            return None
        try:
            await self._converge(view)
        except GatewayRefused as error:
            await self._local.report(view, "error", error.reason, in_terms_of_the_object(str(error)))
        except GatewayUnavailable as error:
            if not self._patience(name):
                await self._local.report(view, "error", error.reason, str(error))
            raise
        self._unanswered.pop(name, None)
        return self._answers.next(name)

    def _patience(self, name: str) -> float:
        """Seconds until a call without an answer is reported, counted from the first one."""
        began = self._unanswered.setdefault(name, time.monotonic())
        return max(0.0, began + self._options.patience - time.monotonic())

    async def _remove(self, name: str) -> None:
        self._unanswered.pop(name, None)
        self._answers.drop(name)
        request = self._deletion(name)
        if request is None or await self._exists(name):
            return
        try:
            await self._remote.call("Delete", request)
        except GatewayRefused as error:
            if not error.not_found:
                raise
        self._removed(name)
        log.info("object removed", kind=self._local.resource.kind, name=name)

    async def _exists(self, name: str) -> bool:
        """Ask the API server itself: another agent may just have sent a new object."""
        view = await self._local.read(name)
        return view is not None and self._asks(view)


class RuleSync(Requests[rule_pb.WorkloadRule]):
    """Keeps the tenant's rules at the gateway equal to the WorkloadRules of this cluster, and shows its answers."""

    _remote: Rules

    async def _converge(self, view: ObjectView) -> None:
        answer, have = self._answers.get(view.name, view.version), self._remote.items.get(view.name)
        if answer is not None and answer.refusal is not None:
            raise answer.refusal
        if have is not None and have.owner != AGENT_OWNER:
            keeper = repr(have.owner) if have.owner else "another client"
            raise GatewayRefused(
                f"the gateway has a rule of this name that is kept by {keeper}: delete it there first",
                code=grpc.StatusCode.ALREADY_EXISTS,
            )
        data = data_of_spec(view.decoded_spec())
        rule = rule_pb.WorkloadRule(id=view.name, data=data, owner=AGENT_OWNER, generation=view.generation)
        if have is not None and self._remote.holds(rule):
            await self._show(view, have.status)
            return
        try:
            await self._remote.send(rule)
        except GatewayRefused as error:
            self._answers.put(view.name, view.version, error)
            raise
        self._answers.drop(view.name)
        log.info("rule sent", name=view.name, generation=view.generation)

    async def _show(self, view: ObjectView, status: rule_pb.RuleStatus) -> None:
        if status.result and status.observed_generation == view.generation:
            shown = status_json(status)
            # A WorkloadRule with a condition that has no time would be refused.
            shown["conditions"] = [
                each for each in shown["conditions"] if each["type"] and each["status"] and each["lastTransitionTime"]
            ]
            await self._local.write_status(view, shown)
        elif view.observed and view.result != "success":
            # The gateway has taken it since, and its controller has written no status: our report is no longer true.
            await self._local.report(view, "", "Pending")

    async def _remove(self, name: str) -> None:
        self._remote.forget(name)
        await super()._remove(name)

    def _deletion(self, name: str) -> rule_pb.DeleteWorkloadRuleRequest | None:
        have = self._remote.items.get(name)
        return rule_pb.DeleteWorkloadRuleRequest(id=name) if have is not None and have.owner == AGENT_OWNER else None


class ResourceSync(Requests[Pod]):
    """One kind. `pods` are the tenant's Pods in the infra cluster; `is_mirror` says which objects are ours.

    The gateway sends the changes of Pods alone. The sweep lists the names of every kind.
    """

    def __init__(self, kit: Kit, local: Local, pods: Pods, *, is_mirror: Callable[[ObjectView], bool]) -> None:
        super().__init__(local.resource.plural, kit, local, pods)
        self._type, self._is_mirror = _TYPES[local.resource], is_mirror
        self._asking: set[str] = set()
        self._present: set[str] = set()
        self._touched: set[str] = set()

    def _asks(self, view: ObjectView) -> bool:
        return not self._is_mirror(view)

    def _there(self) -> Iterable[str]:
        return self._present

    def _deletion(self, name: str) -> resource_pb.DeleteRequest | None:
        if name not in self._present:
            return None
        return resource_pb.DeleteRequest(type=self._type, id=resource_pb.ResourceId(name=name))

    def _removed(self, name: str) -> None:
        self._present.discard(name)

    def _remote_changed(self, name: str) -> None:
        if self._local.resource is not UVS_PODS:
            return
        if name not in self._remote.items:
            # It is gone there: if it is still wanted it has to be applied again.
            self._answers.drop(name)
            self._asking.discard(name)
        super()._remote_changed(name)

    async def _learn(self) -> None:
        self._touched.clear()
        answer = await self._remote.call("List", resource_pb.ListRequest(type=self._type, owner=AGENT_OWNER))
        names = await asyncio.to_thread(names_of, [obj.obj_spec for obj in answer.objects])
        # What was applied while the answer was on its way is there as well.
        self._present = names | (self._present & self._touched)
        await super()._learn()

    async def _converge(self, view: ObjectView) -> None:
        name, answer = view.name, self._answers.get(view.name, view.version)
        refusal = answer.refusal if answer is not None else None
        if answer is None:
            try:
                manifest = self._manifest(view)
            except ValueError as error:
                await self._local.report(view, "error", "InvalidArgument", str(error))
                return
            self._asking.add(name)
            try:
                await self._apply(name, manifest)
            except GatewayRefused as error:
                refusal = error
            # What stood there may have gone while the answer was on its way: then the answer is about the past.
            if name in self._asking:
                self._answers.put(name, view.version, refusal)
        if refusal is not None:
            raise refusal
        pod = self._pod(name)
        shown = pod_summary(pod) if pod is not None and pod.origin == resource_pb.ORIGIN_RESOURCE else {}
        await self._local.report(view, "success", "Applied", extra=shown)

    def _manifest(self, view: ObjectView) -> bytes:
        """What is to be sent. Raises ValueError where that cannot be, whatever the gateway would say."""
        pod = self._pod(view.name)
        if pod is not None and is_companion(pod):
            raise ValueError(f"metadata.name: the rule {pod.rule!r} has created a Pod of this name")
        return view.manifest()

    async def _apply(self, name: str, manifest: bytes) -> None:
        obj = resource_pb.ResourceObject(obj_spec=manifest)
        await self._remote.call("Update", resource_pb.UpdateRequest(type=self._type, obj=obj, owner=AGENT_OWNER))
        self._present.add(name)
        self._touched.add(name)
        log.info("object sent", kind=self._type.kind, name=name)

    def _pod(self, name: str) -> Pod | None:
        return self._remote.items.get(name) if self._local.resource is UVS_PODS else None


class _CertificateDate:
    """Runs the work of a process, and sets the metric of when the certificate in a file ends."""

    def __init__(self, work: Runnable, path: Path) -> None:
        self._work, self._path = work, path

    def waiting(self) -> list[str]:
        return self._work.waiting()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            following = stand(tasks, "certificate", self._follow)
            await self._work.run()
            following.cancel()

    async def _follow(self) -> None:
        while True:
            refresh(await asyncio.to_thread(_not_after, self._path))
            await asyncio.sleep(_POLL_SECONDS)


def _not_after(path: Path) -> datetime | None:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].not_valid_after_utc
    except (OSError, ValueError):
        return None
