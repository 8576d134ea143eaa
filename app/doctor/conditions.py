"""Checks whether matchConditions let every Pod through that needs Berth, by evaluating them for made-up Pods.

The sandbox's evaluator evaluates the CEL. It supports a part of the language, and a finding says what it cannot decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from app.cel.attributes import Attributes, UserInfo
from app.cel.matchconditions import ConditionFailed, holds
from app.doctor.cluster import Cluster
from app.doctor.commands import patch_webhook
from app.doctor.model import Finding, Severity
from app.doctor.objects import plain
from app.doctor.remediation import again
from app.doctor.switches import switches_of
from app.doctor.webhooks import Registered
from app.errors import ApiError
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.switches import CONFIG_MAP_NAME
from app.placement.model import DPU_OF_HOST
from app.wire import JSON

_CHECK = "registrations"


_Place = Literal["annotations", "labels"]


async def left_out(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Annotations by which Pods ask, and labels of the control switches, that no webhook is called for."""
    asked = [one for one in found if one.mutating and one.covers("", "pods", "CREATE") and _everywhere(one)]
    if not asked or any(not one.conditions for one in asked):
        return []
    labels = await _labels(cluster)
    keys: list[tuple[_Place, str]] = [("annotations", one) for one in (NETWORKS, DEFAULT_NETWORK, DPU_OF_HOST)]
    keys += [("labels", one) for one in labels]
    unknown: dict[str, str] = {}
    missing = [key for key in keys if not _any_holds(asked, *key, unknown=unknown)]
    not_read = [
        Finding(
            _CHECK,
            Severity.info,
            subject,
            f"its matchConditions have no value here: {plain(error)}",
            "whether they leave out Pods that need Berth was not checked; where the API server cannot tell either, "
            "failurePolicy decides about the Pod",
        )
        for subject, error in unknown.items()
    ]
    return [*(_finding(cluster, asked[0], *key, labels=labels, missing=missing) for key in missing), *not_read]


def may_hold(one: Registered, *, namespace: str) -> bool:
    """Whether its conditions let a Pod of this namespace through, or whether that cannot be decided."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": namespace}}
    try:
        return holds(one.conditions, _attributes(namespace), pod)
    except ConditionFailed:
        return True


def _finding(
    cluster: Cluster,
    one: Registered,
    place: _Place,
    key: str,
    *,
    labels: Sequence[str],
    missing: Sequence[tuple[_Place, str]],
) -> Finding:
    """The finding for one key. Its command adds all missing keys: of separate commands the last would undo the rest."""
    of_label = place == "labels"
    if one.by_chart:
        missing_labels = any(kind == "labels" for kind, _ in missing)
        values = [f"webhook.injectionLabels={{{','.join(labels)}}}"] if missing_labels else []
        command = again(cluster, one, *values)
    else:
        command = patch_webhook(one, "matchConditions", [_wider(one.conditions, missing)])
    source = f" of ConfigMap {cluster.namespace}/{CONFIG_MAP_NAME}" if of_label else ""
    return Finding(
        _CHECK,
        Severity.error,
        one.subject,
        f"its matchConditions leave out Pods for their {'label' if of_label else 'annotation'} {key}{source}",
        "Berth is not asked about these Pods, and nothing is injected into them",
        command,
    )


def _wider(conditions: Sequence[JSON], missing: Sequence[tuple[_Place, str]]) -> JSON:
    """All conditions as one, or else any of the keys."""
    all_of = " && ".join(f"({condition['expression']})" for condition in conditions)
    any_of = [f"(has(object.metadata.{place}) && '{key}' in object.metadata.{place})" for place, key in missing]
    expression = " || ".join([f"({all_of})", *any_of])
    return {"name": conditions[0].get("name") or "asks-for-injection", "expression": expression}


def _any_holds(asked: Sequence[Registered], place: _Place, key: str, *, unknown: dict[str, str]) -> bool:
    """Whether one is called, or may be; why that cannot be told goes to `unknown`."""
    metadata: JSON = {"name": "probe", "namespace": "default", place: {key: "true"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    may_be = False
    for one in asked:
        try:
            if holds(one.conditions, _attributes(), pod):
                return True
        except ConditionFailed as error:
            unknown.setdefault(one.subject, str(error))
            may_be = True
    return may_be


def _attributes(namespace: str = "default") -> Attributes:
    return Attributes(
        operation="CREATE",
        group="",
        version="v1",
        kind="Pod",
        resource="pods",
        subresource="",
        namespace=namespace,
        name="probe",
        dry_run=True,
        user=UserInfo("doctor"),
        old_object=None,
        options=None,
    )


def _everywhere(one: Registered) -> bool:
    """Whether it is called for a namespace that has only the label of the API server."""
    return one.selects_namespace({"kubernetes.io/metadata.name": "default"})


async def _labels(cluster: Cluster) -> list[str]:
    """The labels that the control switches give something to."""
    try:
        return [entry.label for entry in (await switches_of(cluster)).injections]
    except ApiError:
        return []  # the check of the switches says so
