"""Checks of the tenancy wing: `tenants` and `agent`.

`tenants` finds tenants that are not served, not connected, or not as wanted, nodes that no workloads will find, and
namespaces that are labeled for another tenant than they are named for, or lack what limits them. `agent` says whether
the agent of this cluster and the gateway accept each other, as the agent says it: the check `certificate` reads the
agent's Secret, and what it finds there explains what is found here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed
from app.doctor.model import (
    REGISTERED,
    Check,
    Finding,
    Severity,
    depends_on,
    error,
    info,
    noted,
    ok,
    sound,
    topic,
    warning,
)
from app.doctor.namespaces import confines_tenants, tenant_namespaces
from app.doctor.readiness import said_by
from app.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, NODES, RESOURCE_QUOTAS, SECRETS, SERVICE_ACCOUNTS
from app.placement.checks import Dpus, dpus_of
from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX
from app.tenancy import model
from app.tenancy.model import SUSPENDED, Link, holder_of, link_of
from app.tenancy.namespace import ISOLATION, bounds_of, uncounted_in
from app.tenancy.sections import SOON, certificate_days
from app.tenancy.why.commands import UNKNOWN, give_bundle, move, renew_agent, resume, tenant_of
from app.tenancy.why.trust import Peer, Trusted, peer_of, pinned_at, trusted_by_gateway
from app.text import UNTRUSTED, stamp
from app.wire import JSON
from app.workloads.model import TENANTS, tenant_namespace
from app.workloads.settings import QuotaSettings

_ASK_THERE = "berth doctor --only agent --kubeconfig TENANT"
"""What is wrong with an agent that has certificates of its own, or does not call, is seen in its cluster."""
PATIENCE = 120.0
"""Seconds in which the controller processes a change of a tenant."""
_FROM = "gateway "
"""How the agent begins what it says of a stream to the gateway; the name of the stream follows."""
_BEGINNING = "not connected yet"
_REFUSALS = frozenset({"permission_denied", "unauthenticated"})
_OF_CLUSTER = "failed_precondition"
_NO_TENANT, _SUSPENDED, _TAKEN = "bound to no tenant", "is suspended", "another tenant"
"""What the gateway says where another certificate would not help: of the Tenant, and of a cluster that is not free."""


async def _statuses(cluster: Cluster) -> AsyncIterator[Finding]:
    late: list[str] = []
    for tenant in await cluster.listed(TENANTS):
        it = objects.Object(TENANTS, tenant)
        for finding in reported(it, cluster.namespace):
            yield finding
        if is_late(it, cluster.now()):
            late.append(it.subject)
    if late:
        yield await acting.late(cluster, "controller", "BERTH2003", late)


def reported(it: objects.Object, namespace: str) -> Iterator[Finding]:
    """What spec and status of a Tenant say that is wrong, but for its agent; `namespace` is that of Berth."""
    said, ready = objects.status(it.json), objects.condition(it.json, "Ready")
    reason = str(ready.get("reason") or "NotReady")
    if reason != SUSPENDED and (ready.get("status") == "False" or said.get("result") == "error"):
        text = ready.get("message") or said.get("message") or ""
        issue = give_bundle(it.name, namespace)
        yield error("BERTH2001", it, case=reason, reason=reason, said=text, label=TENANT_LABEL, issue=issue)
    if objects.spec(it.json).get("suspended"):
        yield info("BERTH2002", it)


def is_late(it: objects.Object, now: datetime) -> bool:
    """Whether the controller has not processed a change of a Tenant in time."""
    return objects.unseen(it.json) and objects.unchanged(it.json, now) > PATIENCE


async def _unconnected(cluster: Cluster) -> AsyncIterator[Finding]:
    tenants = await cluster.listed(TENANTS)
    links, trusted = links_of(tenants), await trusted_by_gateway(cluster) if tenants else None
    for tenant in tenants:
        for finding in of_agent(objects.Object(TENANTS, tenant), links, cluster.namespace, trusted, cluster.now()):
            yield finding


def links_of(tenants: Sequence[JSON]) -> list[tuple[str, Link]]:
    """What is noted of each agent, by the name of its Tenant."""
    return [(tenant["metadata"]["name"], link_of(tenant)) for tenant in tenants]


def of_agent(
    it: objects.Object, links: Sequence[tuple[str, Link]], namespace: str, trusted: Trusted | None, now: datetime
) -> Iterator[Finding]:
    """Whether the agent of a Tenant is connected, and will be when it connects again.

    `namespace` is that of Berth, in which agents run where nothing else is said.
    """
    said, name = objects.condition(it.json, model.CONNECTED), it.name
    reason, files = str(said.get("reason")), topic("files", "agent", name)
    taken = reason == model.CLUSTER_TAKEN
    # In a cluster of another tenant the bundle of that one belongs; its own is for a cluster that is not known yet.
    own, holder = (
        give_bundle(name, namespace, apply=not taken),
        _taker(name, link_of(it.json), links) if taken else name,
    )
    spec = objects.spec(it.json)
    pins = (spec.get("identity") or {}).get("certificates") or ()
    fix = give_bundle(holder or UNKNOWN, namespace) if pins or taken else _ASK_THERE
    values: dict[str, Any] = {"said": said.get("message"), "issue": fix, "move": move(name)}
    cut, connected = said.get("status") == "False" and reason != SUSPENDED, bool(said) and reason != model.NO_CONTACT
    if reason == model.NO_CONTACT:
        yield info("BERTH2008", it, case=reason, **values)
    elif cut:
        because = (files, *depends_on("gateway")) if reason == model.AGENT_SILENT else depends_on("gateway")
        yield error("BERTH2008", it, case=reason, **values, because=because)
    if trusted is not None and (pinned := pinned_at(it.json)) is not None and trusted.is_younger(pinned):
        severity, case = (
            (Severity.error, "cut") if cut and connected else (Severity.warning, "" if connected else "unconnected")
        )
        values = {"pinned": stamp(pinned), "made": stamp(trusted.made), "authority": trusted.name, "issue": own}
        yield noted(severity, "BERTH2010", it, case=case, place=trusted.place, **values, explains=(files,))
    days = certificate_days(pins, now)
    if days is not None and 0 <= days < SOON and not spec.get("suspended"):
        yield warning("BERTH2011", it, days=days, issue=own)


def _taker(name: str, link: Link, links: Sequence[tuple[str, Link]]) -> str:
    """The other tenant that has the cluster: of a move or of an older version, it is noted; else it was refused."""
    clusters = (link.cluster, link.refused.cluster if link.refused else "")
    return next((holder for cluster in clusters if (holder := holder_of(cluster, links)) not in ("", name)), "")


async def _unconfined(cluster: Cluster) -> AsyncIterator[Finding]:
    """Tenants that are to be confined, where no webhook is called for any Pod.

    Where one is called, the check `registrations` looks at each namespace.
    """
    namespaces = await tenant_namespaces(cluster)
    called = any(webhook.injects for webhook in await cluster.registered())
    if namespaces and not called and await confines_tenants(cluster):
        names = [namespace.name for namespace in namespaces]
        yield error("BERTH2009", MUTATING_WEBHOOKS.kind, names=names, because=(REGISTERED,))


async def _nodes(cluster: Cluster) -> AsyncIterator[Finding]:
    if tenants := await cluster.listed(TENANTS):
        for finding in nodes_and_hosts(tenants, await dpus_of(cluster)):
            yield finding


def nodes_and_hosts(tenants: Sequence[JSON], dpus: Dpus) -> Iterator[Finding]:
    """Nodes of a tenant without a host; hosts of a tenant without a node."""
    hosts = {objects.labels(node).get(dpus.host_label) or "" for node in dpus.nodes}
    for node in dpus.nodes:
        own = objects.labels(node)
        if dpus.tenant_label and (tenant := own.get(dpus.tenant_label)) and not own.get(dpus.host_label):
            yield warning("BERTH2004", objects.Object(NODES, node), tenant=tenant, label=dpus.host_label)
    for obj in tenants:
        if missing := sorted(set(objects.spec(obj).get("hosts") or ()) - hosts):
            names, it, fix = ", ".join(missing), objects.Object(TENANTS, obj), dpus.label(missing[0])
            yield warning("BERTH2005", it, label=dpus.host_label, count=len(missing), names=names, command=fix)


async def _mislabeled(cluster: Cluster) -> AsyncIterator[Finding]:
    """Namespaces that are named for one tenant and labeled for another: Pods there are placed by the label.

    Only those that no Tenant's status reports: the Tenant is suspended, missing, or not processed yet.
    """
    tenants = await cluster.listed(TENANTS)
    reported = {
        tenant["metadata"]["name"]
        for tenant in tenants
        if objects.condition(tenant, "NamespaceReady").get("reason") == "ForeignNamespace"
    }
    for namespace in await cluster.namespaces() if tenants else ():
        it, labeled = objects.Object(NAMESPACES, namespace), objects.labels(namespace).get(TENANT_LABEL)
        named = it.name.removeprefix(TENANT_NAMESPACE_PREFIX)
        if it.name != named and labeled and labeled != named and named not in reported:
            yield error("BERTH2006", it, named=named, label=TENANT_LABEL, labeled=labeled)


async def bounded(cluster: Cluster) -> AsyncIterator[Finding]:
    """What is missing or differs; a namespace that is not ready is a finding of its Tenant."""
    settled = {
        tenant_namespace(tenant["metadata"]["name"])
        for tenant in await cluster.listed(TENANTS)
        if objects.condition(tenant, "NamespaceReady").get("status") != "False"
        and not (objects.unseen(tenant) or objects.spec(tenant).get("suspended"))
    }
    present = {
        namespace["metadata"]["name"]
        for namespace in (await cluster.namespaces() if settled else ())
        if not namespace["metadata"].get("deletionTimestamp")
    }
    if not (namespaces := sorted(settled & present)):
        return
    accounts = [account async for account in cluster.paged(SERVICE_ACCOUNTS, field_selector="metadata.name=default")]
    listed = [(RESOURCE_QUOTAS, quota) for quota in await cluster.listed(RESOURCE_QUOTAS)]
    listed += [(SERVICE_ACCOUNTS, account) for account in accounts]
    kept = {objects.subject(resource.kind, obj): obj for resource, obj in listed}
    fix, because = await commands.restart_role(cluster, "controller"), depends_on("controller")
    bounds = bounds_of((await cluster.settings(QuotaSettings, role="controller")).quota)
    for namespace, bound in ((namespace, bound) for namespace in namespaces for bound in bounds):
        it = objects.named(bound.resource, bound.name, namespace)
        obj = kept.get(it.subject)
        if obj is None:
            problem = "is missing"
        elif not bound.holds_in(obj):
            problem = "differs from what the controller keeps there"
        elif bound.resource == RESOURCE_QUOTAS and (uncounted := uncounted_in(obj)):
            problem = f"does not hold: kube-controller-manager has not counted {', '.join(uncounted)}"
        else:
            continue
        severity = Severity.error if bound.name == ISOLATION else Severity.warning
        yield noted(severity, "BERTH2007", it, problem, case=bound.name, command=fix, because=because)


async def _all_well(cluster: Cluster) -> AsyncIterator[Finding]:
    if tenants := await cluster.listed(TENANTS):
        yield sound(len(tenants), "tenant", unless=Severity.warning)


async def _links(cluster: Cluster) -> AsyncIterator[Finding]:
    for agent in await cluster.running("agent"):
        said, peer = await said_by(cluster, agent), await peer_of(cluster, agent)
        complaints = said_of_gateway(said.reasons)
        for text in complaints:
            yield await _judged(cluster, agent, text, peer)
        # A replica that stands by is ready whatever the gateway says to the one that leads.
        ready = objects.status(agent.object).get("readyReplicas") or 0
        accepted = 0 < objects.spec(agent.object).get("replicas", 1) <= ready
        if peer is not None and peer.answer is None and not complaints and accepted:
            yield info("BERTH2106", agent, gateway=agent.deployed.get("gateway", ""))
        if peer is not None and peer.distrusted and not any(UNTRUSTED in text for text in complaints):
            yield await _distrust(cluster, agent, peer, later=accepted)
        elif accepted:
            yield ok(agent.subject, "the gateway accepts the agent")


async def _distrust(cluster: Cluster, agent: Installed, peer: Peer | None, *, later: bool = False) -> Finding:
    """That the agent does not trust who answers, or will not when it connects again."""
    case, fix = "", await renew_agent(cluster, agent)
    if peer is not None and peer.elsewhere:
        case, fix = "elsewhere", await _address(cluster, agent)
    elif peer is not None and peer.ended:
        fix = "berth doctor --only certificate --kubeconfig INFRA"
    noting = partial(warning, "BERTH2105") if later else partial(error, "BERTH2103")
    return noting(
        objects.named(SECRETS, agent.tls_secret, agent.namespace),
        case=case,
        gateway=agent.deployed.get("gateway", ""),
        answered=peer.words if peer is not None else "",
        command=fix,
        explains=(topic("link", agent.role),),
        because=(topic("files", agent.role),),
    )


async def _address(cluster: Cluster, agent: Installed) -> str:
    """The command that gives an agent the address of the gateway."""
    if agent.by_chart:
        return f'{await commands.helm(cluster)} --set agent.gateway="$GATEWAY"  # GATEWAY: HOST:PORT of the gateway'
    return commands.kubectl("edit", "deployment", agent.name, namespace=agent.namespace)


def said_of_gateway(reasons: Iterable[str]) -> list[str]:
    """What an agent says of the gateway, once for all of its streams."""
    said = (reason.partition(": ") for reason in reasons if reason.startswith(_FROM))
    return list(dict.fromkeys(text for _, _, text in said if text not in ("", _BEGINNING)))


async def _judged(cluster: Cluster, agent: Installed, text: str, peer: Peer | None) -> Finding:
    word, _, answer = text.partition(": ")
    place, gateway = objects.named(SECRETS, agent.tls_secret, agent.namespace), agent.deployed.get("gateway", "")
    fix = await renew_agent(cluster, agent, verb="add" if _NO_TENANT in answer else "rotate")
    refused = partial(error, explains=(topic("link", agent.role),), because=(topic("files", agent.role),))
    if word in _REFUSALS:
        if _SUSPENDED in answer:
            fix = f"{resume(await tenant_of(cluster, agent))} --kubeconfig INFRA"
        return refused("BERTH2101", place, answer=answer, consequence=agent.descriptor.when_expired, command=fix)
    if word == _OF_CLUSTER:
        moved = move(await tenant_of(cluster, agent))
        fix, so = f"{moved} --kubeconfig INFRA", agent.descriptor.when_expired
        so = f"{so}; run the command only if this cluster has replaced the other one for good"
        if _TAKEN in answer:
            fix, so = await renew_agent(cluster, agent, UNKNOWN), agent.descriptor.when_expired
        return refused("BERTH2102", place, answer=answer, consequence=so, command=fix)
    if UNTRUSTED in text:
        return await _distrust(cluster, agent, peer)
    return refused("BERTH2104", agent, gateway=gateway, text=text)


TENANTS_CHECK = Check("tenants", (_statuses, _unconnected, _unconfined, _nodes, _mislabeled, bounded, _all_well))
AGENT_CHECK = Check("agent", (_links,))
