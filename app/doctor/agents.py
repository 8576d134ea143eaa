"""Check `agent`: do the agent of this cluster and the gateway accept each other, as the agent says it.

The check `certificate` reads the agent's Secret. What it finds there explains what is found here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from functools import partial

from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.contacts import move, resume
from app.doctor.installed import Installed
from app.doctor.model import Check, Finding, error, files_topic, link_topic, ok, plain
from app.doctor.readiness import said_by
from app.doctor.role_secrets import renew, tenant_of

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
    for one in await cluster.running("agent"):
        said = await said_by(cluster, one)
        for text in said_of_gateway(said.reasons):
            yield await _judged(cluster, one, text)
        # A replica that is ready may be one that waits for the Lease: it does not call.
        calling = any(reason.startswith(_FROM) for reason in said.reasons)
        if not calling and not said.refused and objects.status(one.object).get("readyReplicas"):
            yield ok(one.subject, "the gateway accepts the agent")


def said_of_gateway(reasons: Iterable[str]) -> list[str]:
    """What an agent says of the gateway, once for all of its streams."""
    said = (reason.partition(": ") for reason in reasons if reason.startswith(_FROM))
    return list(dict.fromkeys(text for _, _, text in said if text not in ("", _BEGINNING)))


async def _judged(cluster: Cluster, one: Installed, text: str) -> Finding:
    word, _, answer = text.partition(": ")
    place, gateway = f"Secret {one.namespace}/{one.tls_secret}", one.deployed.get("gateway", "")
    verb = "add" if _NO_TENANT in answer else "rotate"
    follows, fix = one.descriptor.when_expired, await renew(cluster, one, verb=verb)
    refused = partial(error, explains=(link_topic(one.role),), because=(files_topic(one.role),))
    if word in _REFUSALS:
        if _SUSPENDED in answer:
            fix = f"{resume(await tenant_of(cluster, one))} --kubeconfig INFRA"
        return refused("BERTH2101", place, f"the gateway refuses its certificate: {plain(answer)}", follows, fix)
    if word == _OF_CLUSTER:
        noted = move(await tenant_of(cluster, one))
        fix = f"{noted} --kubeconfig INFRA  # where this cluster has replaced the other one for good"
        if _TAKEN in answer:
            fix = f"{await renew(cluster, one, _WHICH)}  # {_WHICH}: the tenant of this cluster"
        return refused("BERTH2102", place, f"the gateway refuses this cluster with it: {plain(answer)}", follows, fix)
    if _UNTRUSTED in text:
        text = f"its ca.crt does not verify the certificate of the gateway at {plain(gateway)}"
        return refused("BERTH2103", place, text, "the agent sends nothing to it", fix)
    return refused("BERTH2104", one.subject, f"does not reach the gateway at {plain(gateway)}: {plain(text)}")


CHECK = Check("agent", (_links,))
