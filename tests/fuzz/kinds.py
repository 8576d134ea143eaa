"""All kinds of reviews that API servers are told to send, each with an object that has what the review reads."""

from __future__ import annotations

import copy
import functools
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from app.registry import REVIEWED, reviews_of, webhooks_of
from app.wiring import ReviewKind
from app.workloads.tenant_pods import TEMPLATES
from tests.support.chart_combinations import CALLER_TOKEN

JSON = dict[str, Any]
_OBJECTS = Path(__file__).with_name("objects.yaml")
_TENANT, _SYSTEM = "tenant-a", "berth-system"
_NAMESPACES = {"tenants": _TENANT, "claim-definitions": _SYSTEM}
_PLURALS = {"networkattachmentdefinition": "network-attachment-definitions", "deviceclass": "deviceclasses"}
OPERATIONS = ("CREATE", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Kind:
    """What one webhook is asked about one resource; `resource` has the subresource behind a slash."""

    review: ReviewKind
    group: str
    version: str
    resource: str
    operations: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.review}: {self.resource}"

    @property
    def path(self) -> str:
        """With the token of callers where the webhook configuration has it."""
        path = f"/{REVIEWED[self.review]}"
        return f"{path}/{CALLER_TOKEN}" if any(one.proven for one in webhooks_of(self.review)) else path


def kinds() -> tuple[Kind, ...]:
    """Those that the rules of all wings name."""
    return tuple(
        Kind(rule.kind, rule.group, "v1" if rule.version == "*" else rule.version, resource, rule.operations)
        for rule in reviews_of(*REVIEWED)
        for resource in rule.resources
    )


def object_of(kind: Kind) -> JSON:
    """An object of this kind, to be changed. Raises LookupError for a kind of which there is none."""
    plural = kind.resource.partition("/")[0]
    found = _objects().get((kind.group, plural))
    if found is None:
        raise LookupError(f"{_OBJECTS.name}: want an object of {kind.group}/{plural}, which {kind.review} reviews")
    obj = copy.deepcopy(found)
    if kind.review in _NAMESPACES:
        obj["metadata"]["namespace"] = _NAMESPACES[kind.review]
    return obj


def body_of(kind: Kind, operation: str, obj: JSON, old: JSON | None = None) -> bytes:
    """The review of a write; `old` is what was stored before."""
    resource, _, subresource = kind.resource.partition("/")
    group, _, version = obj["apiVersion"].rpartition("/")
    metadata = obj["metadata"] if isinstance(obj.get("metadata"), dict) else {}
    request = {
        "uid": f"fuzz-{next(_NUMBERS)}",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": kind.group, "version": kind.version, "resource": resource},
        "subResource": subresource,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "operation": operation,
        "userInfo": {"username": "alice", "groups": ["system:masters"]},
        "object": None if operation == "DELETE" else obj,
        "oldObject": None if operation == "CREATE" else old,
        "dryRun": False,
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review, separators=(",", ":")).encode()


_NUMBERS = itertools.count()


@functools.cache
def _objects() -> dict[tuple[str, str], JSON]:
    documents: list[JSON] = yaml.safe_load(_OBJECTS.read_text())
    pod = next(one for one in documents if one["kind"] == "Pod")
    found = {_key(one["apiVersion"], one["kind"]): one for one in [*_templates(pod), *documents]}
    return {key: json.loads(json.dumps(one)) for key, one in found.items()}  # without the aliases of YAML


def _templates(pod: JSON) -> Iterator[JSON]:
    """The built-in kinds that have a Pod's template, each with the spec of this Pod."""
    for (group, kind), path in TEMPLATES.items():
        obj: JSON = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind}
        metadata = {**pod["metadata"], "labels": {**pod["metadata"]["labels"], "berth.dev/inject-template": "true"}}
        obj["metadata"] = metadata
        *way, last = path.split(".")
        holder = obj
        for field in way:
            holder = holder.setdefault(field, {})
        holder[last] = {key: value for key, value in pod["spec"].items() if key != "restartPolicy"}
        if way and holder is not obj:
            holder["metadata"] = {field: metadata[field] for field in ("labels", "annotations")}
        yield obj


def _key(api_version: str, kind: str) -> tuple[str, str]:
    plural = kind.lower()
    return api_version.rpartition("/")[0], _PLURALS.get(plural, f"{plural}s")
