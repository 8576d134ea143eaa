"""Fields without which an API server, or the webhook of a kind, refuses an object of others. Pure.

Facts: the definitions of KubeRay 1.6.2 and JobSet 0.12, and the webhooks of Kubeflow's training operator 1.9.3. Fields
that have defaults, there or by a webhook, are left out, and so are those whose lack `podsets.inference` finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from app.appwrappers.admission.kubeflow import FIELDS
from app.appwrappers.podsets.paths import found_at
from app.pace import step
from app.wire import JSON


def _of_cluster(path: str, *, inferred: bool = False) -> Mapping[str, tuple[str, ...]]:
    """What a cluster of Ray has to have; of one that is `inferred` the head has been looked for."""
    head = {path: ("headGroupSpec",), f"{path}.headGroupSpec".lstrip("."): ("template",)}
    others = {"workerGroupSpecs.*": ("groupName", "template"), "gcsFaultToleranceOptions": ("redisAddress",)}
    return (head if not inferred else {}) | {f"{path}.{at}".lstrip("."): fields for at, fields in others.items()}


_UPGRADE = ("gatewayClassName", "intervalSeconds", "stepSizePercent")
_FIELDS: Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]] = {
    ("ray.io", "RayCluster"): _of_cluster("", inferred=True),
    ("ray.io", "RayJob"): _of_cluster("rayClusterSpec", inferred=True),
    ("ray.io", "RayService"): {
        "": ("rayClusterConfig",),
        **_of_cluster("rayClusterConfig"),
        "upgradeStrategy.clusterUpgradeOptions": _UPGRADE,
    },
    ("ray.io", "RayCronJob"): {"": ("jobTemplate",), **_of_cluster("jobTemplate.rayClusterSpec")},
    ("jobset.x-k8s.io", "JobSet"): {
        "replicatedJobs.*": ("name", "template"),
        "replicatedJobs.*.dependsOn.*": ("name", "status"),
        "startupPolicy": ("startupPolicyOrder",),
        "successPolicy": ("operator",),
        "failurePolicy.rules.*": ("action",),
        "coordinator": ("replicatedJob",),
    },
    **{
        ("kubeflow.org", kind): {"": (field,), f"{field}.*": ("template",)} for kind, field in FIELDS.items()
    },
}  # fmt: skip
"""By group and kind: the paths of objects below `spec`, with `*` for each entry, and the fields that these need."""


def missing_problems(template: JSON, path: str) -> Iterator[str]:
    """The fields that a wrapped object at `path` lacks; nothing of other kinds. What is no object is left out."""
    kind = (str(template["apiVersion"]).rpartition("/")[0], template["kind"])
    for holder, fields in _FIELDS.get(kind, {}).items():
        for where, found in _holders(template, holder.split(".") if holder else [], "spec"):
            for field in fields:
                if found.get(field) is None:
                    yield f"{path}.{where}.{field}: want it: no {template['kind']} is created without"


def _holders(template: JSON, steps: list[str], path: str) -> Iterator[tuple[str, JSON]]:
    """The objects that the steps lead to from `path`, with their paths."""
    step()
    found = found_at(template, f"template.{path}")
    if steps[:1] == ["*"] and isinstance(found, list):
        entries = [f"{path}[{index}]" for index in range(len(found))]
    elif steps[:1] == ["*"]:
        entries = [f"{path}.{name}" for name in found] if isinstance(found, dict) else []
    else:
        entries = [f"{path}.{steps[0]}"] if steps else []
    for entry in entries:
        yield from _holders(template, steps[1:], entry)
    if not steps and isinstance(found, dict):
        yield path, found
