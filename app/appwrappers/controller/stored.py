"""What the controllers keep of AppWrappers, and of their objects. Pure projections."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from sys import intern

from app.appwrappers.ancestors import resource_of
from app.appwrappers.controller.outcomes import Outcome, outcome_of
from app.appwrappers.kueue.model import (
    ADMISSION_GATED_BY,
    MAX_EXEC_TIME,
    MULTIKUEUE,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    PROVISIONING,
)
from app.appwrappers.model import (
    ANNOTATIONS,
    APP_WRAPPER_UID,
    CREATOR,
    FINALIZER,
    MANAGER,
    PODS_READY,
    QUOTA_RESERVED,
    RESOURCES_DEPLOYED,
    queue_of,
)
from app.appwrappers.podsets.paths import usable_status
from app.appwrappers.sizes import component_status
from app.kube.conditions import condition, is_true
from app.kube.resources import controller_of
from app.kube.store import Head, head_of
from app.numbers import whole_or
from app.wire import JSON, decode_json, encode_json

_NONE: JSON = {}
"""What most have; one for all of them."""


@dataclass(frozen=True, slots=True)
class AppWrapper(Head):
    """`documents` are the JSON of each of `spec.components`; labels and annotations are those that are read.

    `creator` is who created it, as admission has written it; "" where it has not. `owner` is the reference to its
    controller where Kueue follows that kind, else empty. `remote` says that MultiKueue runs it in another cluster, and
    copies the status from there.
    """

    version: int
    generation: int
    finalizers: tuple[str, ...]
    suspend: bool
    ours: bool
    remote: bool
    owner: JSON
    queue: str
    creator: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    documents: tuple[bytes, ...]
    status: JSON

    @property
    def components(self) -> list[JSON]:
        return [self.component(index) for index in range(len(self.documents))]

    def component(self, index: int) -> JSON:
        """One of them alone: to read all of them for each one takes the square of their size."""
        component: JSON = decode_json(self.documents[index])
        return component

    @property
    def component_statuses(self) -> list[JSON]:
        """Of each component; empty until the framework controller has seen the AppWrapper.

        A remote one has no such controller here. Raises ValueError where a component of it has no podSets.
        """
        stored = list(self.status.get("componentStatus") or ())
        return [component_status(component) for component in self.components] if self.remote and not stored else stored

    @property
    def marked(self) -> bool:
        """Whether all objects were created here, so that they and their Pods have our marks."""
        deployed = [condition(status, RESOURCES_DEPLOYED) for status in self.component_statuses]
        return all("observedGeneration" in mark for mark in deployed if mark)

    @property
    def finalized(self) -> bool:
        return FINALIZER in self.finalizers

    @property
    def phase(self) -> str:
        return str(self.status.get("phase") or "")

    @property
    def active(self) -> bool:
        """Whether it may have Pods here: until this is False, its quota cannot be given to others."""
        return not self.remote and is_true(self.status, QUOTA_RESERVED)

    @property
    def active_elsewhere(self) -> bool:
        """The same in another cluster, by the status that MultiKueue has copied last.

        Nothing corrects it where the object there is gone, or the cluster is lost.
        """
        return self.remote and is_true(self.status, QUOTA_RESERVED)

    @property
    def ready(self) -> bool:
        return is_true(self.status, PODS_READY)

    @property
    def finished(self) -> str:
        """Succeeded or Failed as soon as that is the end; "" before."""
        if self.phase == "Succeeded" or (self.phase == "Failed" and not is_true(self.status, RESOURCES_DEPLOYED)):
            return self.phase
        return ""

    @property
    def prebuilt(self) -> str:
        """The name of the Workload that was made for it; "" where there is none."""
        return self.annotations.get(PREBUILT_WORKLOAD) or self.labels.get(PREBUILT_WORKLOAD, "")

    @property
    def max_exec_time(self) -> int | None:
        return whole_or(self.labels.get(MAX_EXEC_TIME), 0) or None


INDICES: Mapping[str, Callable[[AppWrapper], Iterable[Hashable]]] = {
    "uid": lambda wrapper: (wrapper.uid,),
    "prebuilt": lambda wrapper: ((wrapper.key[0], wrapper.prebuilt),) if wrapper.prebuilt else (),
}
"""Of a cache of AppWrappers: by UID, and by the key of the Workload that was made for one."""


def stored_app_wrapper(obj: JSON) -> AppWrapper:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    owner = controller_of(metadata)
    components = spec.get("components") or ()
    listed = components if isinstance(components, list | tuple) else (components,)
    return AppWrapper(
        *head_of(obj),
        version=int(metadata["resourceVersion"]),
        generation=metadata.get("generation", 0),
        # Few finalizers and queues, many objects: one text for each is kept.
        finalizers=tuple(map(intern, metadata.get("finalizers") or ())),
        suspend=bool(spec.get("suspend")),
        ours=spec.get("managedBy") in (None, "", MANAGER),
        remote=spec.get("managedBy") == MULTIKUEUE,
        owner=owner if resource_of(owner) is not None else _NONE,
        queue=intern(queue_of(obj)),
        creator=annotations.get(CREATOR) or "",
        labels={name: labels[name] for name in (PRIORITY_CLASS, MAX_EXEC_TIME, PREBUILT_WORKLOAD) if name in labels}
        or _NONE,
        annotations={
            name: text
            for name, text in annotations.items()
            if name in (ADMISSION_GATED_BY, PREBUILT_WORKLOAD) or name.startswith((ANNOTATIONS, PROVISIONING))
        }
        or _NONE,
        documents=tuple(map(encode_json, listed)),
        status=usable_status(obj.get("status")),
    )


@dataclass(frozen=True, slots=True)
class Component(Head):
    """An object of an AppWrapper. `owner` is the UID of its controller, `marked` says whether it has our mark."""

    version: int
    owner: str
    owner_name: str
    marked: bool
    finalizers: tuple[str, ...]
    outcome: Outcome


def stored_component(obj: JSON) -> Component:
    metadata = obj["metadata"]
    owner = controller_of(metadata)
    return Component(
        *head_of(obj),
        version=int(metadata["resourceVersion"]),
        owner=owner.get("uid", ""),
        owner_name=owner.get("name", ""),
        marked=APP_WRAPPER_UID in (metadata.get("labels") or {}),
        finalizers=tuple(metadata.get("finalizers") or ()),
        outcome=outcome_of(obj),
    )
