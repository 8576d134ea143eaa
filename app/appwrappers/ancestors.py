"""The object that Kueue manages and another belongs to: its controller, the controller of that, and so on upward.

Facts: Kueue follows controllers alone, ten at most, in the namespace of the object, by the kinds that it manages and
by ReplicaSets; each has to exist with the UID that the reference says. What has a queue is managed. Of several that
are, the last one counts.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from app.appwrappers.model import APP_WRAPPERS, queue_of
from app.kube.names import check_dns_subdomain
from app.kube.resources import Resource, controller_of
from app.wire import JSON

MOST = 10
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?", re.ASCII)
_MANAGED = {
    ("", "Pod"): "pods",
    (APP_WRAPPERS.group, APP_WRAPPERS.kind): APP_WRAPPERS.plural,
    ("apps", "Deployment"): "deployments",
    ("apps", "StatefulSet"): "statefulsets",
    ("batch", "Job"): "jobs",
    ("jobset.x-k8s.io", "JobSet"): "jobsets",
    ("kubeflow.org", "JAXJob"): "jaxjobs",
    ("kubeflow.org", "MPIJob"): "mpijobs",
    ("kubeflow.org", "PaddleJob"): "paddlejobs",
    ("kubeflow.org", "PyTorchJob"): "pytorchjobs",
    ("kubeflow.org", "TFJob"): "tfjobs",
    ("kubeflow.org", "XGBoostJob"): "xgboostjobs",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkersets",
    ("ray.io", "RayCluster"): "rayclusters",
    ("ray.io", "RayJob"): "rayjobs",
    ("ray.io", "RayService"): "rayservices",
    ("sparkoperator.k8s.io", "SparkApplication"): "sparkapplications",
    ("trainer.kubeflow.org", "TrainJob"): "trainjobs",
}
"""The kinds that Kueue manages, with their plurals."""
_FOLLOWED = {**_MANAGED, ("apps", "ReplicaSet"): "replicasets"}


class Ancestor(NamedTuple):
    """`managed` says whether its kind is one that Kueue manages; `owner` is the reference to its controller."""

    uid: str
    queue: str
    managed: bool
    owner: JSON


Read = Callable[[Resource, str, str], Awaitable[Ancestor | None]]
"""Reads an object by resource, namespace and name, as `stored_ancestor` shows it; None where there is none."""


def stored_ancestor(obj: JSON) -> Ancestor:
    metadata, group = obj["metadata"], str(obj.get("apiVersion") or "").rpartition("/")[0]
    return Ancestor(metadata["uid"], queue_of(obj), (group, obj.get("kind")) in _MANAGED, controller_of(metadata))


def resource_of(owner: JSON) -> Resource | None:
    """The resource that an owner reference (unchecked JSON) names; None where Kueue does not follow the kind."""
    group, _, version = str(owner.get("apiVersion")).rpartition("/")
    kind = str(owner.get("kind"))
    plural = _FOLLOWED.get((group, kind))
    return Resource(group, version, plural, kind) if plural and _VERSION.fullmatch(version) else None


async def managed_ancestor(
    owner: JSON, namespace: str, read: Read, *, managed: Callable[[Ancestor], bool]
) -> Ancestor | None:
    """The last ancestor that is managed, from the reference to a controller upward; None where there is none.

    `managed` is asked about objects of the kinds that Kueue manages. Raises what `read` raises.
    """
    outermost: Ancestor | None = None
    for _ in range(MOST):
        resource, name = resource_of(owner), owner.get("name")
        if resource is None or not _is_name(name):
            break
        ancestor = await read(resource, namespace, str(name))
        if ancestor is None or ancestor.uid != owner.get("uid"):
            break
        if ancestor.managed and managed(ancestor):
            outermost = ancestor
        owner = ancestor.owner
    return outermost


def followed() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The groups and plurals of all objects that are read for this."""
    for group in dict.fromkeys(group for group, _ in _FOLLOWED):
        yield group, tuple(sorted(plural for (of, _), plural in _FOLLOWED.items() if of == group))


def _is_name(name: object) -> bool:
    try:
        check_dns_subdomain(str(name or ""))
    except ValueError:
        return False
    return True
