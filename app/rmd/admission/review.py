"""Puts the reviews of RMD together: what serves Pods decides what is read of the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.admission.chain import Check, MutationPlan, refuse
from app.admission.decision import read_or_deny
from app.admission.parts import EXEMPT, Context, Parts
from app.admission.pods import crowded
from app.admission.review import Request, old_object, written_object
from app.kinds.requests import pod_requests
from app.kube.configuration import Configuration, data_of
from app.kube.names import DNS_LABEL_LIMIT
from app.kube.resources import CONFIG_MAPS, NODES
from app.kube.store import Store
from app.rmd.admission.injector import RdtClassInjector
from app.rmd.admission.workloads import BY_NODE, Hosts, RmdObjectCheck, indexed_nodes, stored_held, stored_host
from app.rmd.classes import KEYS, Classes, parse_classes
from app.rmd.model import L3_CACHE_WAYS, RMD_WORKLOADS
from app.rmd.pods import SETTINGS, read_pod, ways_of
from app.rmd.settings import AdmissionSettings
from app.settings.source import settings_as
from app.text import quoted
from app.wire import JSON

_REASON = "InvalidCacheRequest"
_POLICIES = ("gold", "silver", "bronze")
"""Those that RMD has for every CPU that it knows."""


def review(context: Context) -> Parts:
    """What the backend decides, which is not `off`.

    RDT classes need their ConfigMap, daemons the nodes and the RmdWorkloads, `auto` all of it.
    """
    settings, caches = settings_as(context.settings, AdmissionSettings), context.caches
    backend = settings.rmd_backend
    hosts = Hosts(Store(stored_host) if backend == "runtime" else caches.cache(NODES, stored_host))

    def runtime() -> bool:
        return backend == "runtime" or (backend == "auto" and not hosts.most_ways)

    pods = PodCheck(
        hosts,
        runtime=runtime,
        warns=settings.rmd_unreserved == "warn",
        exempt=frozenset({EXEMPT, context.namespace}),
    )
    checks: tuple[Check, ...] = (pods,)
    if backend != "runtime":
        indices = {BY_NODE: indexed_nodes}
        held = caches.cache(RMD_WORKLOADS, stored_held, indices=indices, volatile=True)
        checks = (pods, RmdObjectCheck(hosts, held))
    if backend == "daemon":
        return Parts(checks=checks)
    config_maps = caches.cache(CONFIG_MAPS, data_of, only=(context.namespace, settings.rmd_classes))
    name = settings.rmd_classes
    configuration = Configuration(config_maps, name=name, parse=parse_classes, usual=Classes(), logs=context.logs)
    return Parts((RdtClassInjector(configuration, runtime=runtime),), checks, configuration.problems, _injects)


def _injects(kind: str, name: str) -> bool:
    return kind == "annotations" and name.startswith(tuple(KEYS.values()))


class PodCheck:
    """Checks Pods that ask for cache ways, or whose annotations are settings of RMD, where daemons serve them.

    Neutral to everything but Pods. `runtime` says whether RDT classes serve them; then no daemon does.

    A Pod that asks for cache ways and will never get a reservation is denied, or with `warns` admitted with a warning,
    as the operator has it. An update is checked for what it changes: containers cannot change, so that is annotations.
    `exempt` are namespaces whose Pods are not looked at.
    """

    def __init__(self, hosts: Hosts, *, runtime: Callable[[], bool], warns: bool, exempt: frozenset[str]) -> None:
        self._hosts, self._runtime, self._warns, self._exempt = hosts, runtime, warns, exempt

    def check(self, request: Request, plan: MutationPlan) -> None:
        """Raises Denied with every problem."""
        if (request.kind.group, request.kind.kind) != ("", "Pod") or request.namespace in self._exempt:
            return
        pod = written_object(request, reason=_REASON)
        if pod is None or request.is_static_pod(request.pod.metadata.annotations):
            return
        old = old_object(request, reason=_REASON)
        changes = read_or_deny(lambda: self._changes(pod, old), reason=_REASON)
        plan.warnings += changes.warnings
        if self._warns:
            plan.warnings += changes.problems
        else:
            refuse(changes.problems, reason=_REASON)

    def _changes(self, pod: JSON, old: JSON | None) -> _Found:
        if self._runtime():
            return _Found(warnings=tuple(_too_late(pod, old))) if old is not None else _Found()
        findings = _check_pod(pod, self._hosts.most_ways)
        if old is None:
            return findings
        before = _check_pod(old, self._hosts.most_ways)
        return _Found(_added(findings.problems, before.problems), _added(findings.warnings, before.warnings))


def _added(now: tuple[str, ...], before: tuple[str, ...]) -> tuple[str, ...]:
    """What was wrong before must not keep a controller from changing anything else."""
    earlier = set(before)
    return tuple(line for line in now if line not in earlier)


@dataclass(frozen=True, slots=True)
class _Found:
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def _check_pod(pod: JSON, most_ways: int | None) -> _Found:
    """What keeps a Pod from its reservations, and what of it has no effect; `most_ways` are those of one node."""
    spec: JSON = pod.get("spec") or {}
    asking = [
        sum(ways_of(container) is not None for container in spec.get(kind) or ())
        for kind in ("containers", "initContainers")
    ]
    if crowd := tuple(crowded(*asking, what="asks for cache ways in each")):
        return _Found(crowd)
    asks = read_pod(pod)
    problems = dict.fromkeys(line for ask in asks.containers for line in ask.problems)
    warnings = [line for ask in asks.containers for line in ask.warnings]
    for ask in asks.containers:
        warnings += _unknown_policy(ask.container, ask.spec.get("policy", ""))
        warnings += _too_long(ask.container)
    if asks.containers and most_ways is not None:
        warnings += _too_many(pod, most_ways)
    return _Found(tuple(problems), (*warnings, *asks.warnings))


def _unknown_policy(container: str, policy: str) -> Iterator[str]:
    if policy and policy not in _POLICIES:
        yield (
            f"metadata.annotations[{container}_policy]: {quoted(policy)} is no policy that every daemon has: "
            f"want {', '.join(_POLICIES)}, or one that the daemons are configured with"
        )


def _too_long(container: str) -> Iterator[str]:
    names = [setting for setting in SETTINGS if len(container) + 1 + len(setting) > DNS_LABEL_LIMIT]
    if names:
        yield (
            f"container {container}: its name is too long for the annotations of {', '.join(names)}: "
            f"a key has at most {DNS_LABEL_LIMIT} characters"
        )


def _too_many(pod: JSON, most: int) -> Iterator[str]:
    ways = pod_requests(pod).get(L3_CACHE_WAYS, 0)
    if ways > most:
        yield f"spec: the containers ask for {ways} {L3_CACHE_WAYS} together, and no node has more than {most}"


def _too_late(pod: JSON, old: JSON) -> Iterator[str]:
    now, before = _annotations(pod), _annotations(old)
    changed = {key for key in {*now, *before} if now.get(key) != before.get(key)}
    names = [
        container["name"] for kind in ("initContainers", "containers") for container in pod["spec"].get(kind) or ()
    ]
    for key in sorted(changed & {f"{name}_{setting}" for name in names for setting in SETTINGS}):
        yield f"metadata.annotations[{key}]: has no effect any more: a Pod gets its RDT classes when it is created"


def _annotations(pod: JSON) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}
