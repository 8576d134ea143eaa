"""The controller `network-services`: Services with the annotation in, EndpointSlices and Events out.

All state is in the cluster. A Service is one key: however many of its Pods change, it is looked at once. What is
wrong with one is said once until it changes.

A network status is an annotation. So the right to write annotations of a Pod is the right to send traffic for the
Services that select it to any address that an API server takes in an EndpointSlice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, get_args

from prometheus_client import Counter as CounterMetric
from prometheus_client import Gauge

from app.claims.publishing.model import Attachment
from app.claims.settings import ControllerSettings
from app.claims.slices import Slice
from app.errors import ApiError, Terminal, Transient
from app.kube.client import KubeClient
from app.kube.controller import Done, Result
from app.kube.events import EventRecorder, EventType, Regarding
from app.kube.kit import Kit, Wakes, itself
from app.kube.resources import ENDPOINT_SLICES, SERVICES
from app.kube.retry import get_or_none, if_there
from app.kube.store import Key, Store
from app.kube.walls import Apart
from app.metrics import Shares
from app.services.addresses import Reason
from app.services.caches import ServiceCaches
from app.services.model import NO_PODS, Pod, Problem, Service, Wish
from app.services.planning import ServicePlan, plan_service, problems_of
from app.services.slices import EndpointSlice, Wanted, stored_endpoint_slice
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.text import enumerated

SERVED = Gauge(
    "claims_services",
    "Services with an annotation for a network: served, or with a problem that an Event tells",
    ("state",),
)
ENDPOINTS = Gauge(
    "claims_service_endpoints", "Endpoints of Services on other networks, by whether they are ready", ("state",)
)
SKIPPED = Gauge(
    "claims_service_pods_skipped", "Pods that such Services select and that are no endpoints, by reason", ("reason",)
)
WRITES = CounterMetric("claims_endpoint_slice_writes_total", "EndpointSlices created, changed and deleted", ("verb",))
_LABELS = {
    SERVED: ("served", "problem"),
    ENDPOINTS: ("ready", "unready"),
    SKIPPED: get_args(Reason),
    WRITES: ("create", "patch", "delete"),
}


def build(context: ControllerContext) -> Kit:
    networks, kit = settings_as(context.settings, ControllerSettings), context.kit()
    caches = ServiceCaches(
        kit,
        keys=networks.network_resource_name_keys,
        home=networks.default_network_namespace,
        unconfined=networks.unconfined_networks,
        excluded=networks.excluded,
    )
    network_services(kit, caches)
    return kit


def network_services(kit: Kit, caches: ServiceCaches) -> None:
    """Make the controller of this kit, whose caches these are."""
    # At zero, so that a rate over them is right from the first scrape.
    for metric, labels in _LABELS.items():
        for label in labels:
            metric.labels(label)
    sync = ServiceSync(kit.client, caches, Saying(kit.events))
    kit.reconcile("network-services", sync.reconcile, keys=caches.keys, wakes=Waking(caches).wakes())
    kit.at_end(sync.shares.clear)


class Waking:
    """Which Services have to be looked at after a change.

    What a change of a Pod costs does not depend on the number of Pods.
    """

    def __init__(self, caches: ServiceCaches) -> None:
        self._caches = caches

    def wakes(self) -> Mapping[Store[Any], Wakes]:
        caches = self._caches
        return {
            caches.services: itself,
            caches.pods: lambda _key, old, new: self._selecting(old, new),
            caches.zones: lambda key, _old, _new: self._selecting(*caches.pods.by_index("node", key[1])),
            caches.claims: lambda key, _old, _new: self._of_claim(key),
            caches.devices: lambda _key, old, new: self._of_devices(old, new),
            caches.attachments: lambda _key, old, new: self._of_attachments(old, new),
            caches.slices: services_of,
        }

    def _selecting(
        self, *pods: Pod | None, network: Callable[[Pod, str], bool] = lambda _pod, _network: True
    ) -> list[Key]:
        """Those that select one of the Pods, and whose network is one of those."""
        services = {
            service.key
            for pod in pods
            if pod is not None
            for service in self._caches.services.by_index("namespace", pod.key[0])
            if (wish := service.wish) is not None and wish.pods.matches(pod.labels) and network(pod, wish.network)
        }
        return sorted(services)

    def _of_claim(self, key: Key) -> list[Key]:
        """A claim counts only for Services on networks of which Multus says nothing for the Pod."""
        pods = self._caches.pods.by_index("claim", key)
        return self._selecting(*pods, network=lambda pod, network: network not in (pod.attached or ()))

    def _of_devices(self, *slices: Slice | None) -> list[Key]:
        pools = {(devices.driver, devices.pool) for devices in slices if devices is not None}
        claims = {claim.key for pool in pools for claim in self._caches.claims.by_index("pool", pool)}
        return [service for claim in claims for service in self._of_claim(claim)]

    def _of_attachments(self, *attachments: Attachment | None) -> list[Key]:
        """Another attachment with the same resource makes it unclear which of both a device is for."""
        changed = [attachment for attachment in attachments if attachment is not None]
        networks = {attachment.key for attachment in changed}
        resources = {attachment.resource for attachment in changed if attachment.resource}
        # Many attachments may have one resource, and few of them have Services.
        named = [
            (service.key, service.wish.network if service.wish else "") for service in self._caches.services.values()
        ]
        return [
            key
            for key, network in named
            if network in networks or (resources and self._caches.resource_of(network) in resources)
        ]


def services_of(_key: Key, old: EndpointSlice | None, new: EndpointSlice | None) -> list[Key]:
    """Those of a slice, before the change and after it."""
    return sorted({endpoints.of for endpoints in (old, new) if endpoints is not None})


class ServiceSync:
    """Makes and writes the plan of one Service; what is wrong with it becomes an Event.

    Creates first and deletes last, so that an address that moves between slices is always in one.
    """

    def __init__(self, client: KubeClient, caches: ServiceCaches, saying: Saying) -> None:
        self._client, self._caches, self._saying = client, caches, saying
        self._taken: dict[Key, set[str]] = {}
        """Names of slices that are not ours, by Service."""
        self.shares = Shares(SERVED, ENDPOINTS, SKIPPED)

    async def reconcile(self, key: Key) -> Result:
        service = self._caches.services.get(*key)
        if service is None:
            self._forget(key)
            await self._delete(self._caches.slices_of(key))
        elif service.wish is None:
            await self._refuse(service, service.problem)
        else:
            plan = plan_service(self._caches.inputs(service, service.wish, taken=self._taken.get(key, ())))
            attached, refused = bool(service.wish.device) or self._caches.attached(service.wish.network), ""
            try:
                refused = await self._write(service, plan)
            finally:
                problems = self._saying.of_plan(service, service.wish, plan, attached=attached, refused=refused)
                endpoints = {"ready": plan.ready, "unready": plan.unready}
                skipped = Counter[str](reason for _, reason in plan.skipped)
                self.shares.set(key, {"problem" if problems else "served": 1}, endpoints, skipped)
            if refused:
                raise Terminal(refused)
        return Done()

    def _forget(self, key: Key) -> None:
        self._taken.pop(key, None)
        self._saying.forget(key)
        self.shares.set(key)

    async def _refuse(self, service: Service, problem: Problem | None) -> None:
        self.shares.set(service.key, {"problem": 1})
        if problem is not None:
            self._saying.of_problem(service, problem)
            if problem.refused:
                await self._delete(self._caches.slices_of(service.key))

    async def _write(self, service: Service, plan: ServicePlan) -> str:
        """What the API server says of the slices that it does not take; "" where it has taken all.

        One that it does not take costs its own addresses, and what is to be deleted after it.
        """
        apart, refusals = Apart(), list[str]()
        for name, planned in plan.create.items():
            with apart.step():
                refusals.append(await self._taken_or(self._create(service, name, planned)))
        for stored, planned in plan.change:
            with apart.step():
                refusals.append(await self._taken_or(self._change(stored, planned)))
        apart.end()
        refused = [text for text in dict.fromkeys(refusals) if text]
        if not refused:
            await self._delete(plan.delete)
        return enumerated(refused)

    async def _taken_or(self, write: Awaitable[None]) -> str:
        """What the API server says where it does not take the slice. Raises ApiError for what may pass."""
        try:
            await write
        except ApiError as error:
            if error.rejected:
                return str(error)
            raise
        return ""

    async def _create(self, service: Service, name: str, planned: Wanted) -> None:
        namespace = service.key[0]
        request = self._client.create(ENDPOINT_SLICES, planned.body(name, service), namespace=namespace)
        try:
            await self._put("create", (namespace, name), request)
        except ApiError as error:
            if error.conflict:
                await self._look_at(service, name)
            raise

    async def _look_at(self, service: Service, name: str) -> None:
        """Whose slice has the name: one of ours is a watch that lags; another one keeps the name for good."""
        obj = await get_or_none(self._client, ENDPOINT_SLICES, name, namespace=service.key[0])
        if obj is not None and stored_endpoint_slice(obj) is None:
            self._taken.setdefault(service.key, set()).add(name)

    async def _change(self, stored: EndpointSlice, planned: Wanted) -> None:
        """A conflict says that the watch lags, or that another replica has written."""
        namespace, name = stored.key
        patch = planned.patch(stored)
        request = self._client.patch(
            ENDPOINT_SLICES, name, patch, patch_type="merge", namespace=namespace, version=str(stored.version)
        )
        if not await self._put("patch", stored.key, request):
            self._caches.written.deleted(stored.key, stored.uid)
            raise Transient(f"EndpointSlice {namespace}/{name} is gone")

    async def _put(self, verb: str, key: Key, request: Awaitable[dict[str, object]]) -> bool:
        """Whether the slice existed, or has been created.

        Raises Transient where it is another one by now: the change came while it was taken for our own write.
        """
        with self._caches.written.under_way(key):
            answer = await if_there(request)
        if answer is None:
            return False
        WRITES.labels(verb).inc()
        written = stored_endpoint_slice(answer)
        if written is not None:
            self._caches.written.wrote(key, written)
            if self._caches.written.get(key) != written:
                raise Transient(f"EndpointSlice {'/'.join(key)} has changed since")
        return True

    async def _delete(self, slices: tuple[EndpointSlice, ...]) -> None:
        for endpoint_slice in slices:
            namespace, name = endpoint_slice.key
            request = self._client.delete(ENDPOINT_SLICES, name, namespace=namespace, uid=endpoint_slice.uid)
            if await if_there(request) is not None:
                WRITES.labels("delete").inc()
            self._caches.written.deleted(endpoint_slice.key, endpoint_slice.uid)


class Saying:
    """`events` may be None: then nothing is written."""

    def __init__(self, events: EventRecorder | None) -> None:
        self._events = events
        self._said: dict[Key, dict[str, tuple[str, str]]] = {}
        """The UID and the message, by Service and reason."""

    def of_problem(self, service: Service, problem: Problem) -> None:
        self._say(service, {problem.reason: problem.message})

    def of_plan(
        self, service: Service, wish: Wish, plan: ServicePlan, *, attached: bool, refused: str = ""
    ) -> list[str]:
        """The reasons of what is wrong now. That there are no Pods may be meant: it is told, and is none of them.

        `attached` is whether the attachment exists, if the Service names one; `refused` is what the API server says of
        a slice of the plan.
        """
        reasons = {"EndpointSliceRefused": refused} if refused else {}
        reasons |= {problem.reason: problem.message for problem in problems_of(service, wish, plan, attached=attached)}
        self._say(service, reasons)
        return [reason for reason in reasons if reason != NO_PODS]

    def forget(self, service: Key) -> None:
        self._said.pop(service, None)

    def _say(self, service: Service, reasons: dict[str, str]) -> None:
        before = self._said.get(service.key, {})
        now = {reason: (service.uid, message) for reason, message in reasons.items()}
        for reason, (uid, message) in now.items():
            if self._events is not None and before.get(reason) != (uid, message):
                regarding = Regarding.of(SERVICES, service.key, uid)
                event: EventType = "Normal" if reason == NO_PODS else "Warning"
                self._events.record(regarding, event, reason=reason, message=message)
        if now:
            self._said[service.key] = now
        else:
            self.forget(service.key)
