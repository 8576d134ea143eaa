"""Reads what several checks look at in any object. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.kube import conditions
from app.kube.resources import Resource
from app.text import moment
from app.wire import JSON

NAME_LABEL = "kubernetes.io/metadata.name"
PART_OF = "app.kubernetes.io/part-of"
COMPONENT = "app.kubernetes.io/component"
BY_CHART = "helm.sh/chart"
"""The label on each object of the chart."""
INSTANCE = "app.kubernetes.io/instance"
"""The release that an object is of."""
_HELM = "helm"
RELEASE = "meta.helm.sh/release-name"
"""The annotation that Helm adds to each object of a release."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object with its resource, as texts of findings name it and its fields."""

    resource: Resource
    json: JSON

    @property
    def name(self) -> str:
        return str(self.json["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.json["metadata"].get("namespace") or "")

    @property
    def subject(self) -> str:
        return subject(self.resource.kind, self.json)

    @property
    def plural(self) -> str:
        return plural(self.resource)

    @property
    def where(self) -> str:
        """The flag of kubectl."""
        return f"--namespace {self.namespace}" if self.namespace else ""


def named(resource: Resource, name: str, namespace: str = "") -> Object:
    """One of which no more is known, or that is not there."""
    return Object(resource, {"metadata": {"name": name, "namespace": namespace}})


def subject(kind: str, obj: JSON) -> str:
    """`Kind namespace/name`."""
    metadata = obj["metadata"]
    return f"{kind} {'/'.join(filter(None, (metadata.get('namespace'), metadata['name'])))}"


def plural(resource: Resource) -> str:
    """The resource as kubectl takes it without mixing it up with another group's."""
    return f"{resource.plural}.{resource.group}".rstrip(".")


def created(obj: JSON) -> datetime | None:
    return moment(obj["metadata"].get("creationTimestamp"))


def age(obj: JSON, now: datetime) -> float:
    """Seconds since the object was created; 0 where that is not known."""
    return (now - (created(obj) or now)).total_seconds()


def overdue(obj: JSON, now: datetime) -> float | None:
    """Seconds since it should have ended, negative before; None where it is not being deleted."""
    ending = moment(obj["metadata"].get("deletionTimestamp"))
    return None if ending is None else (now - ending).total_seconds()


def unchanged(obj: JSON, now: datetime) -> float:
    """Seconds since the last change outside of the status, by the times in managedFields; without these, its age.

    At most: an API server does not note the time of an update that only removes fields.
    """
    entries = [entry for entry in obj["metadata"].get("managedFields") or () if not entry.get("subresource")]
    changes = [when for entry in entries if (when := moment(entry.get("time")))]
    return (now - max(changes)).total_seconds() if changes else age(obj, now)


def spec(obj: JSON | None) -> dict[str, Any]:
    return (obj or {}).get("spec") or {}


def status(obj: JSON) -> JSON:
    found = obj.get("status")
    return found if isinstance(found, dict) else {}


def condition(obj: JSON, kind: str) -> dict[str, Any]:
    """The condition of this type, {} where there is none."""
    return conditions.condition(status(obj), kind)


def lasts(entry: dict[str, Any], now: datetime) -> float:
    """Seconds since the status of a condition changed; 0 where that is not known."""
    return (now - (moment(entry.get("lastTransitionTime")) or now)).total_seconds()


def waiting_containers(pod: JSON) -> Iterator[tuple[str, str, str]]:
    """Name, reason and message ("" where there is none) of each container that waits for something."""
    said = status(pod)
    for container in [*(said.get("initContainerStatuses") or ()), *(said.get("containerStatuses") or ())]:
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason"):
            yield str(container.get("name")), str(waiting["reason"]), str(waiting.get("message") or "")


FAILING = frozenset(
    {
        "CrashLoopBackOff",
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)
"""Reasons of containers that do not come up by themselves."""


def waits_for(pod: JSON) -> tuple[str, str] | None:
    """Why a Pod does not work: a reason and a message; None where it runs and is ready."""
    said = status(pod)
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating", ""
    if said.get("phase") == "Failed":
        return str(said.get("reason") or "Failed"), str(said.get("message") or "")
    for name, reason, message in waiting_containers(pod):
        if reason != "ContainerCreating" or said.get("phase") != "Running":
            return reason, f"container {name}: {message or reason}"
    scheduled = condition(pod, "PodScheduled")
    if scheduled.get("status") == "False":
        return str(scheduled.get("reason") or "Unschedulable"), str(scheduled.get("message") or "")
    if said.get("phase") != "Running":
        started = (pod.get("spec") or {}).get("nodeName")
        return ("NotStarted", "its node has not started it") if started else ("NotScheduled", "it has no node yet")
    ready = condition(pod, "Ready")
    if ready.get("status") == "False":
        return str(ready.get("reason") or "NotReady"), str(ready.get("message") or "")
    return None


def labels(obj: JSON | None) -> dict[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def namespace_labels(namespace: JSON) -> dict[str, str]:
    """The labels of a Namespace, with the one that API servers give to each."""
    return {NAME_LABEL: namespace["metadata"]["name"], **labels(namespace)}


def unseen(obj: JSON) -> bool:
    """Whether the spec has changed since the generation that its status observed."""
    return (status(obj).get("observedGeneration") or 0) < (obj["metadata"].get("generation") or 0)


def helm_manager(obj: JSON) -> str:
    """The name of Helm's field manager: the manager of Helm's annotation, else the default."""
    return str(_helm_entry(obj).get("manager") or _HELM)


def contested(deployment: JSON) -> bool:
    """Whether Helm applies the Deployment (version 4), and another manager owns a field of its spec.

    Annotations of Pods, such as that of `kubectl rollout restart`, do not count: the chart has none there.
    """
    helm = _helm_entry(deployment)
    entries = deployment["metadata"].get("managedFields") or ()
    others = [entry for entry in entries if entry.get("manager") != helm.get("manager")]
    written = [(entry.get("fieldsV1") or {}).get("f:spec") or {} for entry in others]
    return helm.get("operation") == "Apply" and any(
        fields.keys() - {"f:template"} or (fields.get("f:template") or {}).keys() - {"f:metadata"} for fields in written
    )


def _helm_entry(obj: JSON) -> JSON:
    """The entry of managedFields whose manager owns Helm's annotation; empty without one."""
    for entry in obj["metadata"].get("managedFields") or ():
        metadata = (entry.get("fieldsV1") or {}).get("f:metadata") or {}
        if f"f:{RELEASE}" in (metadata.get("f:annotations") or {}):
            return dict(entry)
    return {}


def seen_at(event: JSON) -> str:
    """When an Event was seen last, in RFC 3339; "" where it does not say."""
    series = event.get("series") or {}
    return str(series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime") or "")
