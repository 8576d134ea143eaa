"""The workloads and rules of a run, and the companions that they call for, worked out by Berth's own pure parts.

Half of the rules ask for a value of the label `app`, half for one of `team`, all for the namespace that every workload
has: each workload is matched by two of them, however many there are.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Sequence

from app.kube.resources import NAMESPACES
from app.placement.model import PlacementOptions
from app.text import stamp
from app.wire import JSON
from app.workloads.companions.marks import companion_of
from app.workloads.companions.plan import Blueprint, Planned, plan
from app.workloads.controller.statuses import rule_status, timed, workload_rules
from app.workloads.controller.stored import project_workload
from app.workloads.matching.matcher import Matcher
from app.workloads.model import SYSTEM_NAMESPACE, TENANT_RULES, WORKLOADS, tenant_namespace, workload_name
from app.workloads.rules.keys import Facts
from app.workloads.rules.problems import parse_rule

TENANT = "tenant1"
NAMESPACE = tenant_namespace(TENANT)
STATUS_KINDS = {one.kind: one for one in (WORKLOADS, TENANT_RULES)}
"""The resources whose statuses the controller writes here."""
MATCHES = 2
"""Rules that match one workload."""
VERSION_LABEL = "version"
INJECTED = "example.com/version"
"""The annotation of a companion that shows the label VERSION_LABEL of its workload."""


def namespaces() -> list[JSON]:
    return [{"apiVersion": "v1", "kind": NAMESPACES.kind, "metadata": {"name": name}} for name in _namespaces()]


def workload(number: int, *, rules: int) -> JSON:
    """A Workload of usual size: 5 labels and 3 annotations."""
    workload_id = str(uuid.UUID(int=(number + 1) * 2**64 + number))
    half = max(1, rules // MATCHES)
    labels = {
        "app": f"app-{number % half}",
        "team": f"team-{number // half % half}",
        VERSION_LABEL: "1",
        "app.kubernetes.io/part-of": "shop",
        "pod-template-hash": f"{number:010x}",
    }
    annotations = {
        "kubectl.kubernetes.io/restartedAt": "2026-01-01T12:00:00Z",
        "prometheus.io/scrape": "true",
        "checksum/config": f"{number:064x}",
    }
    metadata = {
        "id": workload_id,
        "orchestrator": "kubernetes",
        "resourceType": "v1/Pod",
        "resourceName": f"web-{number:05}-{number:010x}",
        "resourceNamespace": "default",
    }
    extra = {"labels": labels, "annotations": annotations}
    return {
        "apiVersion": WORKLOADS.api_version,
        "kind": WORKLOADS.kind,
        "metadata": {"name": workload_name(workload_id), "namespace": NAMESPACE},
        "spec": {"metadata": metadata, "state": {"nodeName": f"host-{number % 50}", "ready": True, "extra": extra}},
    }


def rule(number: int, *, rules: int) -> JSON:
    half = max(1, rules // MATCHES)
    label, value = ("app", number) if number < half else ("team", number - half)
    expressions = [
        {"key": "metadata.resourceNamespace", "operator": "In", "values": ["default"]},
        {"key": f"state.extra.labels.{label}", "operator": "In", "values": [f"{label}-{value}"]},
    ]
    inject = [
        {"workloadKey": "metadata.resourceName", "asAnnotation": {"name": "example.com/name"}},
        {"workloadKey": f"state.extra.labels.{VERSION_LABEL}", "asAnnotation": {"name": INJECTED}},
    ]
    return {
        "apiVersion": TENANT_RULES.api_version,
        "kind": TENANT_RULES.kind,
        "metadata": {"name": f"rule-{number}", "namespace": NAMESPACE},
        "spec": {
            "resourceType": "v1/Pod",
            "workloadTerms": [{"matchExpressions": expressions}],
            "workloadInfoInject": inject,
            "dpuSelectionPolicy": "SameNode" if number % 2 else "Any",
            "template": _template(),
        },
    }


def companions(workloads: Sequence[JSON], rules: Sequence[JSON]) -> list[JSON]:
    """The Pods that should exist, as the controller would create them, in the order of the workloads."""
    matcher = Matcher()
    options = PlacementOptions()
    parsed = [parse_rule(_stored(obj), kind="tenant") for obj in rules]
    blueprints = {one.key: Blueprint(one, options) for one in parsed}
    for one in parsed:
        matcher.put_rule(one)
    pods: list[JSON] = []
    for obj in workloads:
        known = project_workload(obj)
        matcher.put_workload(known)
        facts = Facts(known.document)
        for found in matcher.rules_of(known.key):
            outcome = plan(blueprints[found.key], known, facts)
            if not isinstance(outcome, Planned):
                raise TypeError(f"{found.id}: {outcome}")
            pods.append(outcome.manifest)
    return pods


def statuses(workloads: Sequence[JSON], rules: Sequence[JSON], pods: Sequence[JSON]) -> list[JSON]:
    """What the statuses should say once these companions exist, without a node: kind, metadata and status each."""
    known = [companion_of({**pod, "metadata": {**pod["metadata"], "uid": "some"}}) for pod in pods]
    of_workload, of_rule = defaultdict(list), defaultdict(list)
    for one in known:
        of_workload[one.workload[1]].append(one)
        of_rule[one.rule[1]].append(one)
    told = []
    for obj in workloads:
        mine = of_workload[obj["metadata"]["name"]]
        told.append(_told(obj, {"rules": workload_rules([("tenant", one.rule) for one in mine], mine, {})}))
    for obj in rules:
        mine = of_rule[obj["metadata"]["name"]]
        status = rule_status(
            "tenant",
            generation=1,
            terms=parse_rule(_stored(obj), kind="tenant").terms,
            matched=len(mine),
            standings=Counter(one.standing for one in mine),
            broken=(),
            findings=(),
        )
        told.append(_told(obj, timed(status, {}, now=stamp()) or {}))
    return told


def _told(obj: JSON, status: JSON) -> JSON:
    return {"kind": obj["kind"], "metadata": obj["metadata"], "status": status}


def _namespaces() -> tuple[str, ...]:
    return (SYSTEM_NAMESPACE, NAMESPACE)


def _stored(obj: JSON) -> JSON:
    return {**obj, "metadata": {**obj["metadata"], "generation": 1}}


def _template() -> JSON:
    item = {"path": "version", "fieldRef": {"fieldPath": f"metadata.annotations['{INJECTED}']"}}
    container = {
        "name": "agent",
        "image": "example.com/agent:1.2",
        "env": [{"name": "MODE", "value": "fast"}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
        "volumeMounts": [{"name": "info", "mountPath": "/etc/info", "readOnly": True}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"labels": {"app": "agent"}},
        "spec": {"containers": [container], "volumes": [{"name": "info", "downwardAPI": {"items": [item]}}]},
    }
