"""What counts of an object, and the meaning of a rule's terms: the words of the oracle. Pure."""

from __future__ import annotations

import json
from typing import Any

from app.kube.resources import PODS, Resource
from app.workloads.model import (
    MIRROR,
    RULE_NAME,
)

JSON = dict[str, Any]
Place = tuple[str, str]
OWN_DOMAINS = ("berth.dev", "universe.nvidia.com")


def lookup(document: Any, path: str) -> Any:
    for part in path.split("."):
        document = document.get(part) if isinstance(document, dict) else None
    return document


def holds(expression: JSON, document: JSON) -> bool:
    value, values = lookup(document, expression["key"]), expression.get("values", [])
    text = None if value is None or isinstance(value, dict | list) else rendered(value)
    return {
        "In": text in values,
        "NotIn": text not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


def rendered(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def live(pod: JSON) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and (pod.get("status") or {}).get("phase") not in (
        "Succeeded",
        "Failed",
    )


def workload_of(pod: JSON) -> JSON:
    """The spec of the Workload of a tenant's Pod."""
    metadata = pod["metadata"]
    conditions = (pod.get("status") or {}).get("conditions") or []
    return {
        "metadata": {
            "id": metadata["uid"],
            "orchestrator": "kubernetes",
            "resourceType": "v1/Pod",
            "resourceName": metadata["name"],
            "resourceNamespace": metadata["namespace"],
        },
        "state": {
            "nodeName": pod["spec"].get("nodeName") or "",
            "ready": any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
            "extra": {
                "labels": metadata.get("labels") or {},
                "annotations": metadata.get("annotations") or {},
            },
        },
    }


def guest_of(obj: JSON) -> JSON:
    """All of a UVSPod that is its user's: everything but the status and what the API server keeps about it."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    return {"metadata": metadata, "spec": obj["spec"]}


def _place(obj: JSON) -> Place:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _is_mirror(obj: JSON) -> bool:
    return (obj["metadata"].get("labels") or {}).get(MIRROR) == "true"


def _shown(pod: JSON) -> JSON:
    metadata, placement = pod["metadata"], {}
    own = {"berth.dev/spec-hash", "berth.dev/injected-annotations", "berth.dev/dpu-of-host"}
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    for term in terms:
        for one in term["matchExpressions"]:
            placement[one["key"]] = one["values"][0]
    ending = {"ending": True} if metadata.get("deletionTimestamp") else {}
    lost = {"lost": True} if (pod.get("status") or {}).get("phase") == "Failed" else {}
    return {
        "labels": metadata.get("labels") or {},
        "annotations": {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in own},
        "image": pod["spec"]["containers"][0]["image"],
        "placement": placement,
        **ending,
        **lost,
    }


def _public(pod: JSON) -> JSON:
    """A companion as its tenant may see it."""
    metadata: JSON = {"name": pod["metadata"]["name"]}
    for part in ("labels", "annotations"):
        entries = {}
        for key, value in (pod["metadata"].get(part) or {}).items():
            domain = key.rpartition("/")[0]
            own = any(domain == each or domain.endswith(f".{each}") for each in OWN_DOMAINS)
            if not own or key == RULE_NAME:
                entries[key] = value
        if entries:
            metadata[part] = entries
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod["spec"]}


def _content(target: Resource, obj: JSON) -> Any:
    if target is PODS:
        ending = "ending" if obj["metadata"].get("deletionTimestamp") else ""
        return obj["spec"]["containers"][0]["image"], ending
    return obj.get("data")
