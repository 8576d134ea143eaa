"""Check `reachability`: does each registration lead to a ready Pod, and does the API server get an answer.

For the second question, the doctor sends the API server objects that Berth refuses, in dry runs: nothing is stored, and
a refusal by Berth is the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.doctor.cluster import Cluster
from app.doctor.commands import certs_install, describe_pods, patch_webhook
from app.doctor.installed import Installed, installed, released
from app.doctor.model import Finding, Severity
from app.doctor.probing import probes
from app.doctor.remediation import again, recreate
from app.doctor.running import unchecked
from app.doctor.webhooks import Registered, registered
from app.errors import ApiError
from app.kube.resources import SERVICES, Resource
from app.wire import JSON

_CHECK = "reachability"
_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
_ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")


@dataclass(frozen=True, slots=True)
class Reachability:
    name: str = _CHECK

    async def run(self, cluster: Cluster) -> list[Finding]:
        found = await registered(cluster)
        findings: list[Finding] = []
        for service in dict.fromkeys(one.service for one in found if one.service):
            calling = [one for one in found if one.service == service]
            try:
                findings += await _behind(cluster, service, calling)
            except ApiError as error:
                findings.append(unchecked(_CHECK, error))
        return findings + await probes(cluster, found)


async def _behind(cluster: Cluster, service: tuple[str, str, int], calling: Sequence[Registered]) -> list[Finding]:
    """The Service, its port, and Pods that are ready."""
    namespace, name, port = service
    subject = f"Service {namespace}/{name}"
    closed = any(one.fails_closed for one in calling)
    consequence = "no Pod can be created where Berth is called" if closed else "nothing is injected into any Pod"
    found = await cluster.get(SERVICES, name, namespace=namespace)
    spec = (found or {}).get("spec") or {}
    if found is None:
        text = f"is not there, and {calling[0].resource.kind} {calling[0].name} calls it"
        return [_error(subject, text, consequence, await _recreate(cluster, calling))]
    if port not in [one.get("port") for one in spec.get("ports") or []]:
        ports = ", ".join(str(one.get("port")) for one in spec.get("ports") or []) or "none"
        text = f"has no port {port}, which is called (it has {ports})"
        return [_error(subject, text, consequence, await _port(cluster, calling, spec.get("ports") or []))]
    if await _ready(cluster, namespace, name):
        return []
    selector = spec.get("selector") or {}
    webhooks = await _webhooks(cluster, namespace)
    selected = [one for one in webhooks if selector.items() <= one.template_labels.items()]
    command = describe_pods(namespace, selector)
    if webhooks and not selected:
        text = f"selects no Pod of {webhooks[0].subject}"
        return [_error(subject, text, consequence, await _recreate(cluster, calling))]
    if selected and selected[0].object["spec"].get("replicas") == 0:
        command = f"kubectl --namespace {namespace} scale deployment/{selected[0].name} --replicas=2"
    elif not selected:
        command = await _recreate(cluster, calling)
    return [_error(subject, "has no Pod behind it that is ready", consequence, command)]


async def _ready(cluster: Cluster, namespace: str, service: str) -> bool:
    selector = f"kubernetes.io/service-name={service}"
    slices = await cluster.listed(_SLICES, namespace=namespace, label_selector=selector)
    if slices:
        # An endpoint without the condition counts as ready.
        return any(
            (endpoint.get("conditions") or {}).get("ready") is not False
            for one in slices
            for endpoint in one.get("endpoints") or []
        )
    endpoints = await cluster.get(_ENDPOINTS, service, namespace=namespace) or {}
    return any(subset.get("addresses") for subset in endpoints.get("subsets") or [])


async def _webhooks(cluster: Cluster, namespace: str) -> list[Installed]:
    try:
        return [one for one in await installed(cluster) if (one.role, one.namespace) == ("webhook", namespace)]
    except ApiError:
        return []


async def _recreate(cluster: Cluster, calling: Sequence[Registered]) -> str:
    """The command that writes the Service again, by the method of the installation.

    A registration whose Service has no owner is deleted.
    """
    one = calling[0]
    if one.installer_name and one.service:
        return certs_install(one.service[0], one.installer_name, failure_policy=one.webhook["failurePolicy"])
    return recreate(cluster, one, "webhook.enabled=true", present=await released(cluster))


async def _port(cluster: Cluster, calling: Sequence[Registered], ports: Sequence[JSON]) -> str:
    """The Service is asked for a port that it has, where it has but one; else it is written again."""
    one = calling[0]
    if one.by_chart:
        return again(cluster, one)
    if one.installer_name or len(ports) != 1:
        return await _recreate(cluster, calling)
    return "\n".join(patch_webhook(each, "clientConfig/service/port", ports[0].get("port")) for each in calling)


def _error(subject: str, message: str, consequence: str, command: str) -> Finding:
    return Finding(_CHECK, Severity.error, subject, message, consequence, command)
