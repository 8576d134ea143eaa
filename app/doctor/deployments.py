"""Checks of what runs: `clock`, whether clocks agree; `deployments`; `leases`, whether the holder of each renews it.

`deployments`: does each role run, in as many replicas as it should, in one version, with the same allowances. These are
what tenants' Pods may have (`--tenant-allow`), which all roles of an infra cluster have to agree on.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime, timedelta

from app.certs.issuing import CLOCK_SKEW
from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import (
    Check,
    Finding,
    Severity,
    all_well,
    depends_on,
    error,
    info,
    noted,
    ok,
    or_default,
    topic,
    warning,
)
from app.doctor.readiness import Said, pods_of, said_by
from app.kube.resources import LEASES, PODS, PRIORITY_CLASSES, SERVICES
from app.placement.settings import ConfinementSettings
from app.registry import BY_NAME, ROLES, settings_of
from app.text import moment, several

_ALLOWING = tuple(role.name for role in ROLES if "tenant_allow" in settings_of(role.name).model_fields)
"""The roles with `--tenant-allow`."""
_COMPANIONS = "workloads"
"""The controller of which the role says what follows where it is down."""
_REASONS = 3
"""Reasons that are shown of why replicas are not ready."""
_BEFORE_START = re.compile(r"its Pods cannot be created|not scheduled|container [^:]*: \w*Image")
"""Reasons that have no other cause: a container that was never started has read no file and asked for nothing."""
_NODE_LEASES = "kube-node-lease"
_NOTICED = timedelta(seconds=5)
"""A difference that leaves other causes aside: the header has whole seconds, and a request takes its time."""


async def _clock(cluster: Cluster) -> AsyncIterator[Finding]:
    skew = await cluster.skew()
    if skew is None:
        yield info("BERTH0101", "API server")
        return
    if abs(skew) >= _NOTICED:
        where, severity = "ahead of" if skew < timedelta() else "behind", _how_bad(skew)
        seconds = abs(skew).total_seconds()
        yield noted(severity, "BERTH0102", "this machine", case=severity.name, seconds=seconds, where=where)
    # Kubelets renew their Leases by their own clocks every ten seconds. A Lease from the future is a clock's fault.
    for node in await or_default(_nodes_of_berth(cluster), []):
        # The right is rarely granted, and this is only a second look.
        lease = await or_default(cluster.get(LEASES, node, namespace=_NODE_LEASES), None)
        renewed = moment(objects.spec(lease).get("renewTime"))
        ahead = renewed - cluster.now() - skew if renewed else timedelta()
        if ahead >= _NOTICED:
            seconds, fix = ahead.total_seconds(), commands.set_clock(node)
            yield noted(_how_bad(ahead), "BERTH0103", f"Node {node}", seconds=seconds, command=fix)
    yield all_well("", f"the clocks of this machine and of the API server differ by less than {_NOTICED.seconds} s")


def _how_bad(skew: timedelta) -> Severity:
    return Severity.error if abs(skew) >= CLOCK_SKEW else Severity.warning


async def _nodes_of_berth(cluster: Cluster) -> list[str]:
    pods = [
        pod
        for role in await cluster.installed()
        for pod in await cluster.listed(PODS, namespace=role.namespace, label_selector=role.selector)
    ]
    return sorted({name for pod in pods if (name := objects.spec(pod).get("nodeName"))})


async def _absent(cluster: Cluster) -> AsyncIterator[Finding]:
    deployments, home = await cluster.installed(), cluster.namespace
    for role in sorted(cluster.roles - {deployment.role for deployment in deployments}):
        value = "certificates.mode=self-managed" if role == "certificates" else f"{role}.enabled=true"
        fix, down = await commands.helm(cluster, value), BY_NAME[role].when_down
        yield error(
            "BERTH0301", f"role {role}", home=home, consequence=down, command=fix, explains=(topic("role", role),)
        )
    if deployments:
        return
    ours = await or_default(cluster.registered(), [])
    # A URL counts as served, because it is not checked.
    unserved = [
        webhook
        for webhook in ours
        if webhook.fails_closed and webhook.service
        if await or_default(cluster.get(SERVICES, webhook.service[1], namespace=webhook.service[0]), {}) is None
    ]
    calling = ours or await or_default(cluster.of_all_releases(), [])
    if unserved:
        yield error(
            "BERTH0302", "Berth", home=home, command=commands.unregister(*(webhook.name for webhook in unserved))
        )
    elif calling and not cluster.roles:
        yield info("BERTH0303", "Berth", home=home)
    elif not cluster.roles:
        yield warning("BERTH0304", "Berth", home=home, command=await commands.helm(cluster))


async def _replicas(cluster: Cluster) -> AsyncIterator[Finding]:
    deployments = await cluster.installed()
    for deployment in deployments:
        status, wanted = objects.status(deployment.object), objects.spec(deployment.object).get("replicas", 1)
        down, explains = _down(deployment), (topic("role", deployment.role),)
        ready, updated = status.get("readyReplicas") or 0, status.get("updatedReplicas") or 0
        if wanted == 0:
            fix = commands.scale_up(cluster, deployment)
            yield error("BERTH0305", deployment, consequence=down, command=fix, explains=explains)
        elif ready < wanted or updated < wanted:
            said = await or_default(said_by(cluster, deployment), Said())
            pods = await or_default(_reasons(cluster, deployment), [])
            because: tuple[str, ...] = ()
            if not any(_BEFORE_START.match(reason) for reason in pods):
                because = tuple(topic(what, deployment.role) for what in ("link", "files", "rights", "kinds"))
            why = "; ".join([*map(plain, pods), *_merged(said.reasons)][:_REASONS])
            counts = {"ready": ready, "wanted": wanted, "updated": updated, "why": f": {why}" if why else ""}
            fix = commands.describe_pods(deployment.namespace, deployment.pod_labels)
            if ready:
                yield warning("BERTH0306", deployment, command=fix, because=because, **counts)
            else:
                yield error(
                    "BERTH0306", deployment, consequence=down, command=fix, explains=explains, because=because, **counts
                )
            if said.refused:
                yield info("BERTH0311", deployment)
        elif wanted == 1:
            alone = warning if deployment.role == "webhook" else info
            yield alone("BERTH0307", deployment, down=down, command=commands.scale_up(cluster, deployment))
    if deployments:
        yield all_well(
            ", ".join(deployment.role for deployment in deployments), "all replicas are ready, of one version"
        )


def _down(deployment: Installed) -> str:
    """What follows where it does not run; of the role `controller` by the controllers that it is given."""
    controllers = deployment.setting("controllers") if deployment.role == "controller" else ()
    if not controllers or _COMPANIONS in controllers:
        return deployment.descriptor.when_down
    return f"its controllers do nothing: {', '.join(controllers)}"


def _merged(reasons: Iterable[str]) -> list[str]:
    """What Pods wait for: a text that is said of several parts, such as streams to one gateway, is there once."""
    parts: dict[str, list[str]] = {}
    for part, separator, text in (reason.partition(": ") for reason in reasons):
        parts.setdefault(text if separator else part, []).extend([part] if separator else [])
    return [plain(": ".join(filter(None, (", ".join(named), text)))) for text, named in parts.items()]


async def _reasons(cluster: Cluster, deployment: Installed) -> list[str]:
    pods = await pods_of(cluster, deployment)
    if not pods:
        refused = objects.condition(deployment.object, "ReplicaFailure").get("message")
        return [f"its Pods cannot be created: {refused}" if refused else "it has no Pods"]
    reasons = []
    for pod in pods:
        for name, reason, message in objects.waiting_containers(pod):
            reasons.append(f"container {name}: {reason}" + (f" ({message})" if message else ""))
        scheduled = objects.condition(pod, "PodScheduled")
        if scheduled.get("status") == "False":
            reasons.append(f"not scheduled: {scheduled.get('message') or scheduled.get('reason')}")
    return list(dict.fromkeys(reasons))


async def _unlike(cluster: Cluster) -> AsyncIterator[Finding]:
    """What the roles of a release have to have in common, and have not."""
    deployments = await cluster.installed()
    if parts := _compared(deployments, lambda deployment: deployment.image):
        yield warning("BERTH0308", "roles", parts=parts, command=commands.helm_upgrade(cluster))
    allowing = [deployment for deployment in deployments if deployment.role in _ALLOWING]
    if parts := _compared(allowing, lambda deployment: _allowed(deployment) or "nothing"):
        yield warning("BERTH0309", "roles", parts=parts, command=_align(cluster, allowing))


def _compared(deployments: Sequence[Installed], value: Callable[[Installed], str]) -> str:
    """The roles by their values, "" where all have the same."""
    roles: dict[str, list[str]] = {}
    for deployment in deployments:
        roles.setdefault(value(deployment), []).append(deployment.role)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in roles.items()) if len(roles) > 1 else ""


def _allowed(deployment: Installed) -> str:
    """Without an order, which does not count."""
    entries = deployment.deployed.get("tenant_allow")
    return ",".join(sorted(set(entries))) if isinstance(entries, tuple) else ""


def _align(cluster: Cluster, roles: Sequence[Installed]) -> str:
    """The chart has one list for all. Elsewhere that of the webhook counts, which every other role's Pods must pass."""
    charted = next((deployment for deployment in roles if deployment.by_chart), None)
    if charted is not None:
        return commands.retake(cluster, charted.object, *_ALLOWING)
    entries = _allowed(next((deployment for deployment in roles if deployment.role == "webhook"), roles[0]))
    return " && ".join(_allow(deployment, entries) for deployment in roles if _allowed(deployment) != entries)


def _allow(deployment: Installed, entries: str) -> str:
    """The last of several flags counts."""
    operation = {"op": "add", "path": f"{deployment.words_path}/-", "value": f"--tenant-allow={entries}"}
    return commands.json_patch("deployment", deployment.name, [operation], namespace=deployment.namespace)


async def _unlisted_default(cluster: Cluster) -> AsyncIterator[Finding]:
    """The PriorityClass that the API server gives to every Pod without one, where tenants' Pods may not have it."""
    roles = [deployment for deployment in await cluster.installed() if deployment.role in _ALLOWING]
    settings = await cluster.settings(ConfinementSettings)
    if not settings.confine_tenants or not any(deployment.role == "webhook" for deployment in roles):
        return
    classes = await cluster.listed(PRIORITY_CLASSES)
    name = next(
        (priority_class["metadata"]["name"] for priority_class in classes if priority_class.get("globalDefault")), None
    )
    if name is None or settings.placement.policy.allows("priorityClass", name):
        return
    entries = sorted({*settings.tenant_allow, f"priorityClass={name}"})
    command = " && ".join(_allow(deployment, ",".join(entries)) for deployment in roles)
    if any(deployment.by_chart for deployment in roles):
        allowed = ",".join(entry.partition("=")[2] for entry in entries if entry.startswith("priorityClass="))
        command = commands.helm_upgrade(cluster, f"placement.tenantAllow.priorityClass={{{allowed}}}")
    yield error("BERTH0310", objects.named(PRIORITY_CLASSES, name), command=command)


async def _leases(cluster: Cluster) -> AsyncIterator[Finding]:
    there = cluster.now() + (await cluster.skew() or timedelta())
    for deployment in await cluster.installed():
        if deployment.descriptor.lease and deployment.deployed.get("leader_elect", True):
            yield await _holding(cluster, deployment, there)


async def _holding(cluster: Cluster, deployment: Installed, there: datetime) -> Finding:
    about, fix, because = (
        objects.named(LEASES, deployment.descriptor.lease, deployment.home),
        commands.restart(cluster, deployment),
        depends_on(deployment.role),
    )
    lease = await cluster.get(LEASES, about.name, namespace=about.namespace)
    spec, idle = objects.spec(lease), deployment.descriptor.when_idle
    holder, renewed = str(spec.get("holderIdentity") or ""), moment(spec.get("renewTime"))
    if not holder:
        case = "missing" if lease is None else ""
        return error("BERTH0401", about, case=case, consequence=idle, command=fix, because=because)
    if renewed is None:
        return error("BERTH0402", about, consequence=idle, holder=holder)
    age, good = (there - renewed).total_seconds(), int(spec.get("leaseDurationSeconds") or 15)
    if age > good:
        return error("BERTH0403", about, command=fix, because=because, age=age, holder=holder, good=good, idle=idle)
    if age < -_NOTICED.total_seconds():
        fix = await _clock_fix(cluster, deployment, holder)
        return warning("BERTH0404", about, holder=holder, ahead=-age, command=fix)
    changes = several(spec.get("leaseTransitions") or 0, "change")
    return ok(about.subject, f"is held by {holder}, renewed {max(0.0, age):.0f} s ago, {changes} so far")


async def _clock_fix(cluster: Cluster, deployment: Installed, holder: str) -> str:
    """Sets the clock of the node on which the holder (`<Pod>_<random>`) runs; shows the nodes where it is not known."""
    pod = holder.rpartition("_")[0]
    obj = await or_default(cluster.get(PODS, pod, namespace=deployment.namespace), None) if pod else None
    if node := objects.spec(obj).get("nodeName"):
        return commands.set_clock(node)
    return commands.kubectl(
        "get", "pods", "--selector", deployment.selector, "--output", "wide", namespace=deployment.namespace
    )


CLOCK_CHECK = Check("clock", (_clock,))
CHECK = Check("deployments", (_absent, _replicas, _unlike, _unlisted_default))
LEASES_CHECK = Check("leases", (_leases,))
