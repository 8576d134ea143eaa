"""Check `agent`: do the agent of this cluster and the gateway accept each other, as the agent says it.

The check `certificate` reads the agent's Secret. What it finds there explains what is found here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial

from app.doctor import objects
from app.doctor.certificate import renew, tenant_of
from app.doctor.cluster import Cluster
from app.doctor.commands import move, resume
from app.doctor.installed import Installed
from app.doctor.model import Check, Finding, error, ok, topic
from app.doctor.readiness import said_by
from app.kube.resources import SECRETS

_FROM = "gateway "
"""How the agent begins what it says of a stream to the gateway; the name of the stream follows."""
_BEGINNING = "not connected yet"
_REFUSALS = frozenset({"permission_denied", "unauthenticated"})
_OF_CLUSTER = "failed_precondition"
_NO_TENANT, _SUSPENDED, _TAKEN = "bound to no tenant", "is suspended", "another tenant"
"""What the gateway says where another certificate would not help: of the Tenant, and of a cluster that is not free."""
_WHICH = "TENANT"
_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"


async def _links(cluster: Cluster) -> AsyncIterator[Finding]:
    for agent in await cluster.running("agent"):
        said = await said_by(cluster, agent)
        for text in said_of_gateway(said.reasons):
            yield await _judged(cluster, agent, text)
        # A replica that stands by is ready whatever the gateway says to the one that leads.
        if (
            0
            < objects.spec(agent.object).get("replicas", 1)
            <= (objects.status(agent.object).get("readyReplicas") or 0)
        ):
            yield ok(agent.subject, "the gateway accepts the agent")


def said_of_gateway(reasons: Iterable[str]) -> list[str]:
    """What an agent says of the gateway, once for all of its streams."""
    said = (reason.partition(": ") for reason in reasons if reason.startswith(_FROM))
    return list(dict.fromkeys(text for _, _, text in said if text not in ("", _BEGINNING)))


async def _judged(cluster: Cluster, agent: Installed, text: str) -> Finding:
    word, _, answer = text.partition(": ")
    place, gateway = objects.named(SECRETS, agent.tls_secret, agent.namespace), agent.deployed.get("gateway", "")
    fix = await renew(cluster, agent, verb="add" if _NO_TENANT in answer else "rotate")
    refused = partial(error, explains=(topic("link", agent.role),), because=(topic("files", agent.role),))
    if word in _REFUSALS:
        if _SUSPENDED in answer:
            fix = f"{resume(await tenant_of(cluster, agent))} --kubeconfig INFRA"
        return refused("BERTH2101", place, answer=answer, consequence=agent.descriptor.when_expired, command=fix)
    if word == _OF_CLUSTER:
        noted = move(await tenant_of(cluster, agent))
        fix = f"{noted} --kubeconfig INFRA  # where this cluster has replaced the other one for good"
        if _TAKEN in answer:
            fix = f"{await renew(cluster, agent, _WHICH)}  # {_WHICH}: the tenant of this cluster"
        return refused("BERTH2102", place, answer=answer, consequence=agent.descriptor.when_expired, command=fix)
    if _UNTRUSTED in text:
        return refused("BERTH2103", place, gateway=gateway, command=fix)
    return refused("BERTH2104", agent, gateway=gateway, text=text)


CHECK = Check("agent", (_links,))
