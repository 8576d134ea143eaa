"""Check `reachability`: does each registration lead to a ready Pod, and does the API server get an answer.

For the second question, the doctor sends the API server objects that Berth refuses, in dry runs: nothing is stored, and
a refusal by Berth is the proof.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Container, Sequence
from dataclasses import replace

from app.admission.review import PROBE
from app.doctor import commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import CALLS, Check, Finding, depends_on, error, guarded, info, ok, or_default, unchecked
from app.doctor.webhooks import Registered
from app.kube.resources import (
    EVENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    PODS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.networks.model import NETWORKS
from app.placement.model import tenant_of
from app.text import moment
from app.wire import JSON
from app.wiring import Permission

_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
_WEBHOOK = "webhook.enabled=true"
_POD = {"generateName": f"{PROBE}-", "annotations": {NETWORKS: "berth-doctor-names-no-network"}}
_PROBES = (
    (PODS, PODS.body(_POD, spec={"containers": [{"name": "probe", "image": PROBE}]})),
    (NETWORK_ATTACHMENTS, NETWORK_ATTACHMENTS.body({"generateName": f"{PROBE}-"}, spec={"config": "{"})),
)
"""What Berth refuses: a Pod that asks for a network that does not exist, and a broken attachment."""
READS = (
    Permission("cluster", MUTATING_WEBHOOKS.group, (MUTATING_WEBHOOKS.plural, VALIDATING_WEBHOOKS.plural), ("list",)),
    Permission("cluster", "apps", ("deployments",), ("list",)),
    Permission("cluster", "", (SERVICES.plural, _ENDPOINTS.plural), ("get",)),
    Permission("cluster", _SLICES.group, (_SLICES.plural,), ("list",)),
)
"""What finds registrations that lead nowhere (BERTH0501 and BERTH0701), as `helm test` does."""
_CALL_FAILED = "failed calling webhook"
_FAILURE = re.compile(rf'{_CALL_FAILED} "(?P<name>[^"]*)": (?P<reason>.*)', re.DOTALL)
_REMEMBERED = 1200.0
"""Seconds in which a controller tries again to create a Pod: what an older Event tells may be over."""
_MESSAGE = re.compile(r'"message": ?"((?:[^"\\]|\\.)*)')


async def _services(cluster: Cluster) -> AsyncIterator[Finding]:
    webhooks = await cluster.registered()
    for service in dict.fromkeys(webhook.service for webhook in webhooks if webhook.service):
        async for finding in guarded(
            _service(cluster, service, [webhook for webhook in webhooks if webhook.service == service])
        ):
            yield finding


async def _service(
    cluster: Cluster, service: tuple[str, str, int], calling: Sequence[Registered]
) -> AsyncIterator[Finding]:
    text, command = await _behind(cluster, service, calling)
    if text:
        case = "closed" if any(webhook.fails_closed for webhook in calling) else ""
        about, because = objects.named(SERVICES, service[1], service[0]), depends_on("webhook")
        yield error("BERTH0701", about, text, case=case, command=command, explains=(CALLS,), because=because)


async def _behind(cluster: Cluster, service: tuple[str, str, int], calling: Sequence[Registered]) -> tuple[str, str]:
    """What is wrong with the Service, its port or its Pods, and the command; "" where Pods are ready."""
    (namespace, name, port), webhook = service, calling[0]
    found = await cluster.get(SERVICES, name, namespace=namespace)
    if found is None:
        text = f"is not there, and {webhook.resource.kind} {webhook.name} calls it"
        return text, await commands.recreate(cluster, webhook, _WEBHOOK)
    ports = [each.get("port") for each in objects.spec(found).get("ports") or []]
    if port not in ports:
        text = f"has no port {port}, which is called (it has {', '.join(map(str, ports)) or 'none'})"
        if webhook.by_chart:
            return text, commands.again(cluster, webhook)
        if webhook.installer_name or len(ports) != 1:
            return text, await commands.recreate(cluster, webhook, _WEBHOOK)
        # The webhooks call the one port that the Service has.
        return text, "\n".join(commands.patch_webhook(each, "clientConfig/service/port", ports[0]) for each in calling)
    if await _ready(cluster, namespace, name):
        return "", ""
    selector = objects.spec(found).get("selector") or {}
    webhooks = [each for each in await cluster.running("webhook") if each.namespace == namespace]
    selected = [each for each in webhooks if selector.items() <= each.template_labels.items()]
    text = "has no Pod behind it that is ready"
    if not selected:
        text = f"selects no Pod of {webhooks[0].subject}" if webhooks else text
        return text, await commands.recreate(cluster, webhook, _WEBHOOK)
    return text, commands.look_at(cluster, selected[0])


async def _ready(cluster: Cluster, namespace: str, service: str) -> bool:
    selector = f"kubernetes.io/service-name={service}"
    if slices := await cluster.listed(_SLICES, namespace=namespace, label_selector=selector):
        # An endpoint without the condition counts as ready.
        endpoints = [endpoint for endpoint_slice in slices for endpoint in endpoint_slice.get("endpoints") or []]
        return any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)
    found = await cluster.get(_ENDPOINTS, service, namespace=namespace) or {}
    return any(subset.get("addresses") for subset in found.get("subsets") or [])


async def _probes(cluster: Cluster) -> AsyncIterator[Finding]:
    webhooks = await cluster.registered()
    namespaces = await or_default(cluster.namespaces(), [{"metadata": {"name": "default"}}])
    for resource, body in _PROBES:
        of_kind = [webhook for webhook in webhooks if webhook.mutating == (resource == PODS)]
        called = [webhook for webhook in of_kind if webhook.covers(resource.group, resource.plural, "CREATE")]
        # A namespace that the webhooks are called for; `default` before others, and none that is ending.
        usable = {
            namespace["metadata"]["name"]: objects.namespace_labels(namespace)
            for namespace in namespaces
            if not namespace["metadata"].get("deletionTimestamp") and not tenant_of(namespace)
            if any(webhook.selects_namespace(objects.namespace_labels(namespace)) for webhook in called)
        }
        if called and not usable:
            yield info("BERTH0702", called[0])
        elif called:
            name = "default" if "default" in usable else next(iter(usable))
            calling = [webhook for webhook in called if webhook.selects_namespace(usable[name])]
            if (finding := await _probe(cluster, calling, resource, body, namespace=name)) is not None:
                yield finding


async def _probe(
    cluster: Cluster, called: Sequence[Registered], resource: Resource, body: JSON, *, namespace: str
) -> Finding | None:
    """What the API server's answer says; None where it does not know the kind."""
    kind, webhook = resource.kind, called[0]
    # Berth or another component refuses it. A dry run stores nothing in any case.
    refusal = await cluster.refusal(resource, body, namespace=namespace)
    if refusal is None:
        silent = "" if webhook.fails_closed else ", or did not answer (failurePolicy is Ignore)"
        return error("BERTH0703", webhook, case=kind, kind=kind, namespace=namespace, silent=silent)
    text = str(refusal)
    named = next((each for each in called if f'webhook "{each.webhook.get("name")}"' in text), None)
    if named is not None and "denied the request" in text:
        return ok(named.subject, "answers the API server (asked with a dry run)")
    if named is not None and _CALL_FAILED in text:
        _, _, reason = text.partition(f'{_CALL_FAILED} "{named.webhook.get("name")}": ')
        reason = _unquoted(reason.removeprefix("failed to call webhook: "))
        because = (CALLS, *depends_on("webhook"))
        return error("BERTH0704", named, reason=reason, command=await _answering(cluster, named), because=because)
    if refusal.status == 404:
        return None
    if refusal.status == 403 and " is forbidden: User " in text:
        return unchecked(refusal)
    if refusal.status == 0:
        return unchecked(refusal, subject=webhook.subject)
    return info("BERTH0705", webhook, kind=kind, text=text)


async def refused_in(cluster: Cluster, namespace: str) -> str:
    """Why the API server cannot call Berth for new Pods of a namespace; "" where it can, or that is not known.

    By a dry run, and where the user may create no Pod, by what Events tell: neither needs a right beyond the namespace.
    """
    refusal = await cluster.refusal(*_PROBES[0], namespace=namespace)
    if refusal is None:
        return ""
    names = {str(webhook.webhook.get("name")) for webhook in await or_default(cluster.of_all_releases(), [])}
    if refusal.status != 403 or " is forbidden: User " not in str(refusal):
        return _failure(str(refusal), names)
    events = await or_default(_events(cluster, namespace), [])
    failures = [event for event in events if _failure(event.get("message") or "", names)]
    last, now = max(failures, key=objects.seen_at, default={}), cluster.now()
    when = moment(objects.seen_at(last))
    created = [objects.seen_at(event) for event in events if event.get("reason") == "SuccessfulCreate"]
    if when is None or (now - when).total_seconds() > _REMEMBERED or max(created, default="") > objects.seen_at(last):
        return ""
    return f"{_failure(last['message'], names)} (an Event of {objects.seen_at(last)} tells it)"


async def _events(cluster: Cluster, namespace: str) -> list[JSON]:
    return [event async for event in cluster.paged(EVENTS, namespace=namespace)]


def _failure(text: str, names: Container[str]) -> str:
    """Why a call of a webhook of Berth failed, in a message of the API server; "" in any other."""
    match = _FAILURE.search(text)
    if match is None or not (match["name"] in names or match["name"].endswith(".berth.dev")):
        return ""
    return _unquoted(match["reason"].removeprefix("failed to call webhook: "))


async def _in_scope(cluster: Cluster) -> AsyncIterator[Finding]:
    if reason := await refused_in(cluster, cluster.scope):
        whole = replace(cluster, scope="").doctor()
        yield error("BERTH0704", objects.named(NAMESPACES, cluster.scope), reason=reason, command=whole)


def _unquoted(reason: str) -> str:
    """The message of a Status that the API server quotes as it came, escaped and cut; all else as it is."""
    before, quoted, body = reason.partition('an error on the server ("')
    if not quoted:
        return reason
    body = body.partition('") has prevented')[0].replace('\\"', '"').replace("\\\\", "\\")
    match = _MESSAGE.search(body)
    said = match[1].replace('\\"', '"') if match else body
    return f"{before}it answers with an error of the server: {plain(said)}"


async def _answering(cluster: Cluster, webhook: Registered) -> str:
    """The command that shows the Pods that should have answered; the check `certificate` reports problems of trust."""
    if webhook.service is None:
        return f"curl --insecure {webhook.url}"
    if webhooks := await cluster.running("webhook"):
        return commands.describe_pods(webhook.service[0], webhooks[0].pod_labels)
    return await commands.recreate(cluster, webhook, _WEBHOOK)


CHECK = Check("reachability", (_services, _probes), of_users=(_in_scope,))
