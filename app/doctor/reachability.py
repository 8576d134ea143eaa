"""Check `reachability`: does each registration lead to a ready Pod, and does the API server get an answer.

For the second question, the doctor sends the API server objects that Berth refuses, in dry runs: nothing is stored, and
a refusal by Berth is the proof.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import CALLS, Check, Finding, depends_on, error, guarded, info, ok, or_default, plain, unchecked
from app.doctor.webhooks import Registered
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, SERVICES, Resource
from app.networks.model import NETWORKS
from app.placement.model import tenant_of

_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
_WEBHOOK = "webhook.enabled=true"
_NAME = "berth-doctor-probe"
_PROBES = (
    (
        PODS,
        PODS.body(
            {"generateName": f"{_NAME}-", "annotations": {NETWORKS: "berth-doctor-names-no-network"}},
            spec={"containers": [{"name": "probe", "image": _NAME}]},
        ),
    ),
    (NETWORK_ATTACHMENTS, NETWORK_ATTACHMENTS.body({"generateName": f"{_NAME}-"}, spec={"config": "{"})),
)
"""What Berth refuses: a Pod that asks for a network that does not exist, and a broken attachment."""
_CALL_FAILED = "failed calling webhook"
_MESSAGE = re.compile(r'"message": ?"((?:[^"\\]|\\.)*)')


async def _services(cluster: Cluster) -> AsyncIterator[Finding]:
    found = await cluster.registered()
    for service in dict.fromkeys(one.service for one in found if one.service):
        async for finding in guarded(_service(cluster, service, [one for one in found if one.service == service])):
            yield finding


async def _service(
    cluster: Cluster, service: tuple[str, str, int], calling: Sequence[Registered]
) -> AsyncIterator[Finding]:
    text, command = await _behind(cluster, service, calling)
    if text:
        closed = any(one.fails_closed for one in calling)
        follows = "no Pod can be created where Berth is called" if closed else "nothing is injected into any Pod"
        about, because = f"Service {service[0]}/{service[1]}", depends_on("webhook")
        yield error("BERTH0701", about, text, follows, command, explains=(CALLS,), because=because)


async def _behind(cluster: Cluster, service: tuple[str, str, int], calling: Sequence[Registered]) -> tuple[str, str]:
    """What is wrong with the Service, its port or its Pods, and the command; "" where Pods are ready."""
    (namespace, name, port), one = service, calling[0]
    found = await cluster.get(SERVICES, name, namespace=namespace)
    if found is None:
        text = f"is not there, and {one.resource.kind} {one.name} calls it"
        return text, await commands.recreate(cluster, one, _WEBHOOK)
    spec = found.get("spec") or {}
    ports = [one.get("port") for one in spec.get("ports") or []]
    if port not in ports:
        text = f"has no port {port}, which is called (it has {', '.join(map(str, ports)) or 'none'})"
        if one.by_chart:
            return text, commands.again(cluster, one)
        if one.installer_name or len(ports) != 1:
            return text, await commands.recreate(cluster, one, _WEBHOOK)
        # The webhooks call the one port that the Service has.
        return text, "\n".join(commands.patch_webhook(each, "clientConfig/service/port", ports[0]) for each in calling)
    if await _ready(cluster, namespace, name):
        return "", ""
    selector = spec.get("selector") or {}
    webhooks = [one for one in await cluster.running("webhook") if one.namespace == namespace]
    selected = [one for one in webhooks if selector.items() <= one.template_labels.items()]
    text = "has no Pod behind it that is ready"
    if not selected:
        text = f"selects no Pod of {webhooks[0].subject}" if webhooks else text
        return text, await commands.recreate(cluster, one, _WEBHOOK)
    return text, commands.look_at(selected[0])


async def _ready(cluster: Cluster, namespace: str, service: str) -> bool:
    selector = f"kubernetes.io/service-name={service}"
    if slices := await cluster.listed(_SLICES, namespace=namespace, label_selector=selector):
        # An endpoint without the condition counts as ready.
        return any(
            (endpoint.get("conditions") or {}).get("ready") is not False
            for one in slices
            for endpoint in one.get("endpoints") or []
        )
    endpoints = await cluster.get(_ENDPOINTS, service, namespace=namespace) or {}
    return any(subset.get("addresses") for subset in endpoints.get("subsets") or [])


async def _probes(cluster: Cluster) -> AsyncIterator[Finding]:
    found = await cluster.registered()
    namespaces = await or_default(cluster.namespaces(), [{"metadata": {"name": "default"}}])
    for resource, body in _PROBES:
        called = [
            one
            for one in found
            if one.mutating == (resource == PODS) and one.covers(resource.group, resource.plural, "CREATE")
        ]
        if not called:
            continue
        # A namespace that the webhooks are called for; `default` before others, and none that is ending.
        usable = {
            namespace["metadata"]["name"]: objects.namespace_labels(namespace)
            for namespace in namespaces
            if not namespace["metadata"].get("deletionTimestamp") and not tenant_of(namespace)
            if any(one.selects_namespace(objects.namespace_labels(namespace)) for one in called)
        }
        if not usable:
            text = "no namespace is left for a probe: its namespaceSelector leaves out all that were seen"
            yield info("BERTH0702", called[0].subject, text)
            continue
        name = "default" if "default" in usable else next(iter(usable))
        calling = [one for one in called if one.selects_namespace(usable[name])]
        if (finding := await _probe(cluster, calling, resource, body, namespace=name)) is not None:
            yield finding


async def _probe(
    cluster: Cluster, called: Sequence[Registered], resource: Resource, body: dict[str, Any], *, namespace: str
) -> Finding | None:
    """What the API server's answer says; None where it does not know the kind."""
    kind, one = f"a {resource.kind} that Berth refuses", called[0]
    # Berth or another component refuses it. A dry run stores nothing in any case.
    refusal = await cluster.refusal(resource, body, namespace=namespace)
    if refusal is None:
        return error(
            "BERTH0703",
            one.subject,
            f"the API server admitted {kind} in namespace {namespace}, in a dry run: Berth was not asked"
            + ("" if one.fails_closed else ", or did not answer (failurePolicy is Ignore)"),
            "nothing is injected into Pods" if resource == PODS else "broken attachments are stored",
            "kubectl get --raw /metrics | grep -E 'apiserver_admission_webhook_(fail_open|rejection)_count'",
        )
    text = str(refusal)
    named = next((one for one in called if f'webhook "{one.webhook.get("name")}"' in text), None)
    if named is not None and "denied the request" in text:
        return ok(named.subject, "answers the API server (asked with a dry run)")
    if named is not None and _CALL_FAILED in text:
        _, _, reason = text.partition(f'{_CALL_FAILED} "{named.webhook.get("name")}": ')
        reason = _unquoted(reason.removeprefix("failed to call webhook: "))
        return error(
            "BERTH0704",
            named.subject,
            f"the API server cannot call Berth: {reason}",
            command=await _answering(cluster, named),
            because=(CALLS, *depends_on("webhook")),
        )
    if refusal.status == 404:
        return None
    if refusal.status == 403 and " is forbidden: User " in text:
        return unchecked(refusal)
    if refusal.status == 0:
        return unchecked(refusal, subject=one.subject)
    return info("BERTH0705", one.subject, f"not tried: {kind} was refused for another reason: {text}")


def _unquoted(reason: str) -> str:
    """The message of a Status that the API server quotes as it came, escaped and cut; all else as it is."""
    before, quoted, body = reason.partition('an error on the server ("')
    if not quoted:
        return reason
    body = body.partition('") has prevented')[0].replace('\\"', '"').replace("\\\\", "\\")
    found = _MESSAGE.search(body)
    said = found[1].replace('\\"', '"') if found else body
    return f"{before}it answers with an error of the server: {plain(said)}"


async def _answering(cluster: Cluster, one: Registered) -> str:
    """The command that shows the Pods that should have answered; the check `certificate` reports problems of trust."""
    if one.service is None:
        return f"curl --insecure {one.url}"
    if webhooks := await cluster.running("webhook"):
        return commands.describe_pods(one.service[0], webhooks[0].pod_labels)
    return await commands.recreate(cluster, one, _WEBHOOK)


CHECK = Check("reachability", (_services, _probes))
