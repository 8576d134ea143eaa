"""Asks the API server to create, in a dry run, what Berth refuses: its answer says whether Berth was asked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.doctor.cluster import Cluster
from app.doctor.commands import certs_install, describe_pods
from app.doctor.installed import installed, released
from app.doctor.model import Finding, Severity
from app.doctor.objects import namespace_labels, plain
from app.doctor.remediation import recreate
from app.doctor.running import unchecked
from app.doctor.webhooks import Registered
from app.errors import ApiError
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, PODS, Resource
from app.networks.model import NETWORKS
from app.placement.namespaces import tenant_of
from app.wire import JSON

_CHECK = "reachability"
_NAME = "berth-doctor-probe"
_NETWORK = "berth-doctor-names-no-network"
_CALL_FAILED = "failed calling webhook"
_MESSAGE = re.compile(r'"message": ?"((?:[^"\\]|\\.)*)')


async def probes(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """One probe of each kind of webhook that there is."""
    findings = []
    for resource, body, called in (
        (PODS, _pod(), [one for one in found if one.mutating and one.covers("", "pods", "CREATE")]),
        (NETWORK_ATTACHMENTS, _attachment(), [one for one in found if not one.mutating and _checks_attachments(one)]),
    ):
        namespace = await _namespace(cluster, called) if called else ""
        if not called:
            continue
        if not namespace:
            text = "no namespace is left for a probe: its namespaceSelector leaves out all that were seen"
            findings.append(Finding(_CHECK, Severity.info, called[0].subject, text))
            continue
        calling = [one for one in called if one.selects_namespace(await _labels(cluster, namespace))]
        finding = await _probe(cluster, calling or called, resource, body, namespace=namespace)
        if finding is not None:
            findings.append(finding)
    return findings


def _checks_attachments(one: Registered) -> bool:
    return one.covers(NETWORK_ATTACHMENTS.group, NETWORK_ATTACHMENTS.plural, "CREATE")


async def _probe(
    cluster: Cluster, called: Sequence[Registered], resource: Resource, body: JSON, *, namespace: str
) -> Finding | None:
    """What the API server's answer says; None where it does not know the kind."""
    kind = f"a {resource.kind} that Berth refuses"
    try:
        # Refused by us, or by whom it may be; a dry run stores nothing whatever is answered.
        await cluster.client.post(f"{resource.path(namespace=namespace)}?dryRun=All", body)
    except ApiError as error:
        return await _read(cluster, called, error, kind=kind)
    ignoring = not called[0].fails_closed
    return Finding(
        _CHECK,
        Severity.error,
        called[0].subject,
        f"the API server admitted {kind} in namespace {namespace}, in a dry run: Berth was not asked"
        + (", or did not answer (failurePolicy is Ignore)" if ignoring else ""),
        "nothing is injected into Pods" if resource == PODS else "broken attachments are stored",
        "kubectl get --raw /metrics | grep -E 'apiserver_admission_webhook_(fail_open|rejection)_count'",
    )


async def _read(cluster: Cluster, called: Sequence[Registered], error: ApiError, *, kind: str) -> Finding | None:
    text = str(error)
    named = next((one for one in called if f'webhook "{one.webhook.get("name")}"' in text), None)
    if named is not None and "denied the request" in text:
        return Finding(_CHECK, Severity.ok, named.subject, "answers the API server (asked with a dry run)")
    if named is not None and _CALL_FAILED in text:
        _, _, reason = text.partition(f'{_CALL_FAILED} "{named.webhook.get("name")}": ')
        reason = _plain(reason.removeprefix("failed to call webhook: "))
        consequence = "no object of its rules can be created while this lasts"
        return Finding(
            _CHECK,
            Severity.error,
            named.subject,
            f"the API server cannot call Berth: {reason}",
            consequence,
            await _fix(cluster, named),
        )
    if error.status == 404:
        return None
    if error.status == 403 and " is forbidden: User " in text:
        return unchecked(_CHECK, error)
    if error.status == 0:
        return unchecked(_CHECK, error, subject=called[0].subject)
    message = f"not tried: {kind} was refused for another reason: {text}"
    return Finding(_CHECK, Severity.info, called[0].subject, message)


def _plain(reason: str) -> str:
    """The message of a Status that the API server quotes as it came, escaped and cut; all else as it is."""
    before, quoted, body = reason.partition('an error on the server ("')
    if not quoted:
        return reason
    body = body.partition('") has prevented')[0].replace('\\"', '"').replace("\\\\", "\\")
    found = _MESSAGE.search(body)
    said = found[1].replace('\\"', '"') if found else body
    return f"{before}it answers with an error of the server: {plain(said)}"


async def _fix(cluster: Cluster, one: Registered) -> str:
    """The command that shows the Pods that should have answered; the check `certificate` reports problems of trust."""
    if one.service is None:
        return f"curl --insecure {one.url}"
    try:
        webhooks = [role for role in await installed(cluster) if role.role == "webhook"]
    except ApiError:
        webhooks = []
    if webhooks:
        return describe_pods(one.service[0], webhooks[0].pod_labels)
    if one.installer_name:
        return certs_install(one.service[0], one.installer_name, failure_policy=one.webhook["failurePolicy"])
    return recreate(cluster, one, "webhook.enabled=true", present=await released(cluster))


async def _namespace(cluster: Cluster, called: Sequence[Registered]) -> str:
    """One that the webhooks are called for; `default` before others, and none that is ending."""
    try:
        namespaces = await cluster.listed(NAMESPACES) or []
    except ApiError:
        return "default"
    usable = [
        name
        for namespace in namespaces
        if not namespace["metadata"].get("deletionTimestamp") and not tenant_of(namespace)
        for name in [str(namespace["metadata"]["name"])]
        if any(one.selects_namespace(namespace_labels(namespace)) for one in called)
    ]
    return "default" if "default" in usable else next(iter(usable), "")


async def _labels(cluster: Cluster, name: str) -> dict[str, str]:
    try:
        namespaces = await cluster.listed(NAMESPACES) or []
    except ApiError:
        namespaces = []
    found = next((one for one in namespaces if one["metadata"]["name"] == name), {"metadata": {"name": name}})
    return namespace_labels(found)


def _pod() -> JSON:
    """A Pod that asks for a network that does not exist."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": f"{_NAME}-", "annotations": {NETWORKS: _NETWORK}},
        "spec": {"containers": [{"name": "probe", "image": _NAME}]},
    }


def _attachment() -> JSON:
    return {
        "apiVersion": NETWORK_ATTACHMENTS.api_version,
        "kind": NETWORK_ATTACHMENTS.kind,
        "metadata": {"generateName": f"{_NAME}-"},
        "spec": {"config": "{"},
    }
