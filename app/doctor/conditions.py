"""Whether matchConditions let every Pod through that needs Berth: each Pod is made up, and the conditions are asked.

CEL is evaluated here by the sandbox's evaluator, which knows a part of the language; what it does not know is said.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.doctor.cluster import Cluster
from app.doctor.commands import helm_upgrade, patch_webhook
from app.doctor.installed import Registered
from app.doctor.model import Finding, Severity
from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.switches import CONFIG_MAP_KEY, CONFIG_MAP_NAME, Switches, parse_switches
from app.sandbox.webhooks.admission import Attributes, UserInfo
from app.sandbox.webhooks.matchconditions import ConditionFailed, holds
from app.wire import JSON

_CHECK = "registrations"


async def left_out_labels(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Annotations of networks, and the labels of the control switches, that no webhook is called for."""
    pods = [one for one in found if one.mutating and one.covers("", "pods", "CREATE")]
    if not pods or any(not one.conditions and _everywhere(one) for one in pods):
        return []
    asked = [one for one in pods if _everywhere(one)]
    findings = [
        _left_out(cluster, asked[0], f"annotation {annotation}", annotation=annotation)
        for annotation in (NETWORKS, DEFAULT_NETWORK)
        if asked and not _any_holds(asked, {"annotations": {annotation: "net"}})
    ]
    labels = [label for label in await _labels(cluster) if asked and not _any_holds(asked, {"labels": {label: "true"}})]
    findings += [_left_out(cluster, asked[0], f"label {label}", labels=labels, label=label) for label in labels]
    return findings


def _left_out(
    cluster: Cluster, one: Registered, what: str, *, annotation: str = "", label: str = "", labels: Sequence[str] = ()
) -> Finding:
    if label and one.by_chart:
        command = helm_upgrade(cluster, f"webhook.injectionLabels={{{','.join(labels)}}}")
    else:
        place, key = ("annotations", annotation) if annotation else ("labels", label)
        command = patch_webhook(one, "matchConditions", [_wider(one.conditions, place, key)])
    source = f" of ConfigMap {cluster.namespace}/{CONFIG_MAP_NAME}" if label else ""
    return Finding(
        _CHECK,
        Severity.error,
        one.subject,
        f"its matchConditions leave out Pods for their {what}{source}",
        "Berth is not asked about these Pods, and nothing is injected into them",
        command,
    )


def _wider(conditions: Sequence[JSON], place: str, key: str) -> JSON:
    """All conditions as one, or else the key."""
    all_of = " && ".join(f"({condition['expression']})" for condition in conditions)
    has = f"(has(object.metadata.{place}) && '{key}' in object.metadata.{place})"
    return {"name": conditions[0].get("name") or "asks-for-injection", "expression": f"({all_of}) || {has}"}


def _any_holds(asked: Sequence[Registered], metadata: JSON) -> bool:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": "default", **metadata}}
    for one in asked:
        try:
            if holds(one.conditions, _attributes(), pod):
                return True
        except ConditionFailed:
            # What fails, or what we cannot evaluate, is the failure policy's: with Fail nothing slips through.
            return True
    return False


def _attributes() -> Attributes:
    return Attributes(
        operation="CREATE",
        group="",
        version="v1",
        kind="Pod",
        resource="pods",
        subresource="",
        namespace="default",
        name="probe",
        dry_run=True,
        user=UserInfo("doctor"),
        old_object=None,
        options=None,
    )


def _everywhere(one: Registered) -> bool:
    """It is called for namespaces that nobody labeled."""
    return one.selects_namespace({"kubernetes.io/metadata.name": "default"})


async def _labels(cluster: Cluster) -> list[str]:
    """The labels that the control switches give something to."""
    try:
        found = await cluster.get(CONFIG_MAPS, CONFIG_MAP_NAME, namespace=cluster.namespace)
    except ApiError:
        return []  # the check of the switches says so
    data = (found or {}).get("data") or {}
    return [entry.label for entry in parse_switches(data.get(CONFIG_MAP_KEY), initial=Switches()).injections]
