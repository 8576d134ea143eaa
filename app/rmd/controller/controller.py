"""The controller `rmd`: an RmdConfig and RmdWorkloads in; daemons, their reservations, statuses and Events out.

All state is in the cluster and in the daemons. A node is one key: a daemon has one writer, which makes one request at a
time, and a daemon that hangs holds up no other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.conditions import Truth, condition, set_condition
from app.kube.controller import Done, Result
from app.kube.events import EventRecorder, EventType, Regarding
from app.kube.kit import Kit
from app.kube.resources import DAEMON_SETS, PODS
from app.kube.retry import if_there
from app.kube.store import Key
from app.kube.writing import finalized, merge, write_status
from app.rmd import metrics
from app.rmd.controller.caches import RmdCaches
from app.rmd.controller.installing import AGENT, DAEMON, TEMPLATES, BadTemplate, daemon_set, plan_node_states
from app.rmd.controller.nodes import NodeSync, Showing
from app.rmd.controller.states import PENDING, readiness
from app.rmd.daemon.client import DaemonClient
from app.rmd.model import FINALIZER, READY, RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS, TEMPLATE_HASH, TEMPLATES_NAME
from app.rmd.settings import RmdSettings
from app.rmd.stored import Config, Workload
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.text import MESSAGE, cut, one_line, utc_now
from app.wire import JSON, copied

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a daemon that refuses or is silent is asked again."""
_FIELD_MANAGER = "berth-rmd"
_NAMED = 5000
"""Nodes that the status names; the condition says how many there are."""


@dataclass(frozen=True, slots=True)
class RmdOptions:
    """Times are in seconds.

    `namespace` has the daemons, the RmdConfig, and the Secret `secret` with the client certificate for daemons.
    In `own` the ConfigMap `templates` has the DaemonSets.

    `daemons` are asked at a time: each one that hangs takes one for `timeout`.
    """

    namespace: str
    secret: str
    own: str
    templates: str = TEMPLATES_NAME
    daemons: int = 64
    interval: float = 15.0
    timeout: float = 10.0


def build(context: ControllerContext) -> Kit:
    settings, kit = settings_as(context.settings, RmdSettings), context.kit()
    metrics.create_series()
    options = RmdOptions(
        namespace=settings.rmd_namespace,
        secret=settings.rmd_client_certificate,
        own=context.settings.namespace,
        templates=settings.rmd_daemon_sets,
    )
    reserve(kit, options=options)
    return kit


def reserve(kit: Kit, *, options: RmdOptions, now: Callable[[], datetime] = utc_now) -> None:
    """Make the controller of this kit, whose workers are for RmdWorkloads."""
    client = kit.client
    daemons = DaemonClient(timeout=options.timeout, passing=client.passing)
    caches = RmdCaches(
        kit, namespace=options.namespace, secret=options.secret, own=options.own, templates=options.templates
    )
    kit.reconcile(
        "rmd-nodes",
        NodeSync(client, daemons, caches, Showing(client, now), interval=options.interval).reconcile,
        keys=caches.node_names,
        wakes=caches.nodes_woken(),
        turn=None,
        workers=options.daemons,
        backoff=(_FIRST_PAUSE, _LONGEST_PAUSE),
    )
    kit.reconcile(
        "rmd-workloads",
        WorkloadSync(client, caches, kit.events, now).reconcile,
        keys=caches.workloads.keys,
        wakes=caches.workloads_woken(),
    )
    kit.reconcile(
        "rmd-config",
        ConfigSync(client, caches, now, namespace=options.namespace).reconcile,
        keys=caches.config_namespaces,
        wakes=caches.configs_woken(),
        turn=None,
        workers=1,
    )
    kit.within(daemons)
    kit.at_end(metrics.forget_all)


class WorkloadSync:
    """One RmdWorkload: its finalizer, the nodes that its status names, its condition, and Events.

    A node is named in the status before its daemon is asked, and until that holds nothing any more.
    """

    def __init__(
        self, client: KubeClient, caches: RmdCaches, events: EventRecorder | None, now: Callable[[], datetime]
    ) -> None:
        self._client, self._caches, self._events, self._now = client, caches, events, now

    async def reconcile(self, key: Key) -> Result:
        """One write at most, whose change asks for the next. A conflict says that the object has changed meanwhile."""
        workload = self._caches.workloads.get(*key)
        if workload is None:
            return Done()
        targets = () if workload.deleting else self._caches.targets_of(workload)
        gone = [node for node in workload.states if node not in targets and not self._caches.known(node)]
        if workload.deleting and set(gone) == set(workload.states):
            if workload.finalized:
                await self._patch(workload, finalized(workload.finalizers, FINALIZER, present=False))
        elif not workload.deleting and not workload.finalized and targets and not workload.read.problems:
            await self._patch(workload, finalized(workload.finalizers, FINALIZER, present=True))
        else:
            await self._status(workload, targets, gone)
        return Done()

    async def _status(self, workload: Workload, targets: tuple[str, ...], gone: list[str]) -> None:
        new = [] if workload.read.problems else [node for node in targets if node not in workload.states]
        states: dict[str, Any] = dict.fromkeys(new, PENDING) | dict.fromkeys(gone)
        after = copied(dict(workload.status))
        after.pop("workloadStates", None)
        truth, reason, message = readiness(workload, targets)
        set_condition(after, READY, truth, reason, message, now=self._now(), generation=workload.generation)
        after["observedGeneration"] = workload.generation
        if not states and all(workload.status.get(name) == value for name, value in after.items()):
            return
        body: JSON = {"status": {**after, **({"workloadStates": states} if states else {})}}
        await self._patch(workload, body, subresource="status")
        self._record(workload, after)

    async def _patch(self, workload: Workload, body: JSON, *, subresource: str = "") -> None:
        await if_there(merge(self._client, RMD_WORKLOADS, workload, body, subresource=subresource))

    def _record(self, workload: Workload, after: Mapping[str, Any]) -> None:
        """On the RmdWorkload, and on the Pod that it is made for, where the reason of the condition is another."""
        before, now = condition(dict(workload.status), READY), condition(dict(after), READY)
        if self._events is None or now["reason"] in (before.get("reason"), "Pending", "Releasing"):
            return
        about = [Regarding.of(RMD_WORKLOADS, workload.key, workload.uid)]
        if workload.pod is not None:
            name, uid = workload.pod
            about.append(Regarding.of(PODS, (workload.key[0], name), uid))
        for regarding in about:
            kind: EventType = "Normal" if now["status"] == "True" else "Warning"
            self._events.record(regarding, kind, reason=now["reason"], message=now["message"])


class ConfigSync:
    """Carries out what an RmdConfig asks for, and says in its status what came of it.

    `namespace` is that of the daemons: an RmdConfig anywhere else counts for nothing, and its status says so.
    """

    def __init__(self, client: KubeClient, caches: RmdCaches, now: Callable[[], datetime], *, namespace: str) -> None:
        self._client, self._caches, self._now, self._namespace = client, caches, now, namespace

    async def reconcile(self, namespace: str) -> Result:
        """What an RmdConfig has made goes with it, by the garbage collector."""
        config = self._caches.config_in(namespace)
        if config is None:
            return Done()
        if namespace != self._namespace:
            text = f"nothing is done: want it in namespace {self._namespace}, where the daemons are (rmd.namespace)"
            await self._write(config, dict(config.status), "False", "WrongNamespace", text)
            return Done()
        plan = plan_node_states(config, self._caches.nodes_by_name(), self._caches.node_states.values())
        problems = [await self._daemon_set(DAEMON, config, wanted=True)]
        problems.append(await self._daemon_set(AGENT, config, wanted=config.agent))
        for state in plan.delete:
            name = state.key[1]
            await if_there(self._client.delete(RMD_NODE_STATES, name, namespace=namespace, uid=state.uid))
        problems += [await self._create(body, namespace) for body in plan.create]
        await self._say(config, list(plan.nodes), "; ".join(problem for problem in problems if problem))
        return Done()

    async def _create(self, body: JSON, namespace: str) -> str:
        """What is wrong with an RmdNodeState, "" where nothing is: it holds up no other.

        A node may have a name that is too long for one.
        """
        try:
            await self._client.create(RMD_NODE_STATES, body, namespace=namespace)
        except ApiError as error:
            if not error.about_object:
                raise
            return "" if error.conflict else f"RmdNodeState {cut(body['metadata']['name'])}: {error}"
        return ""

    async def _daemon_set(self, name: str, config: Config, *, wanted: bool) -> str:
        """What is wrong with a DaemonSet, "" where nothing is. One that another controller has is left alone."""
        stored = self._caches.daemon_sets.get(config.key[0], name)
        if stored is not None and stored.owner not in ("", config.uid):
            return f"DaemonSet {name} belongs to another controller"
        if not wanted:
            if stored is not None and stored.owner == config.uid:
                request = self._client.delete(DAEMON_SETS, name, namespace=config.key[0], uid=stored.uid)
                await if_there(request)
            return ""
        try:
            made = daemon_set(name, self._caches.templates, config)
        except BadTemplate as error:
            return str(error)
        if made is None:
            return (
                "" if stored is not None else f"DaemonSet {name}: there is neither one nor a template {TEMPLATES[name]}"
            )
        if stored is not None and not stored.owner:
            return f"DaemonSet {name} is managed by hand: delete it, or its template {TEMPLATES[name]}"
        applied = made["metadata"]["annotations"][TEMPLATE_HASH]
        if stored is None or stored.applied != applied or stored.selector != config.selector:
            try:
                await self._client.apply(DAEMON_SETS, name, made, namespace=config.key[0], field_manager=_FIELD_MANAGER)
            except ApiError as error:
                # Retries are of no use until the RmdConfig, the template or a policy changes.
                if not error.rejected and error.status != 403:
                    raise
                return f"DaemonSet {name}: {error}"
        return ""

    async def _say(self, config: Config, nodes: list[str], problem: str) -> None:
        after = dict(config.status) | {"nodes": nodes[:_NAMED]}
        truth: Truth = "False" if problem or not nodes else "True"
        reason = "NotDeployed" if problem else "Deployed" if nodes else "NoNodes"
        selector = ",".join(f"{name}={value}" for name, value in sorted(config.selector.items()))
        message = one_line(problem, MESSAGE) or f"{len(nodes)} nodes have the labels {selector}"
        await self._write(config, after, truth, reason, message)

    async def _write(self, config: Config, status: JSON, truth: Truth, reason: str, message: str) -> None:
        after = copied(status) | {"observedGeneration": config.generation}
        set_condition(after, READY, truth, reason, message, now=self._now(), generation=config.generation)
        if after != config.status:
            await write_status(self._client, RMD_CONFIGS, config.key, config.uid, after)
