"""What the controller keeps of AppWrappers and of their objects. Pure projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.appwrappers.controller.outcomes import Outcome, outcome_of
from app.appwrappers.model import (
    ANNOTATIONS,
    APP_WRAPPER_UID,
    CREATOR,
    FINALIZER,
    MANAGER,
    RESOURCES_DEPLOYED,
    queue_of,
)
from app.appwrappers.podsets.paths import usable_status
from app.kube.conditions import condition
from app.kube.resources import controller_of
from app.kube.store import Head, head_of
from app.wire import JSON, decode_json, encode_json


@dataclass(frozen=True, slots=True)
class AppWrapper(Head):
    """`documents` are the JSON of each of `spec.components`. `annotations` are those that the controller reads.

    `creator` is who created it, as admission has written it; "" where it has not.
    """

    version: int
    generation: int
    finalizers: tuple[str, ...]
    suspend: bool
    ours: bool
    queue: str
    creator: str
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
        """Of each component; empty until the AppWrapper was first seen."""
        return list(self.status.get("componentStatus") or ())

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


def stored_app_wrapper(obj: JSON) -> AppWrapper:
    metadata, spec = obj["metadata"], obj.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    components = spec.get("components") or ()
    listed = components if isinstance(components, list | tuple) else (components,)
    return AppWrapper(
        *head_of(obj),
        version=int(metadata["resourceVersion"]),
        generation=metadata.get("generation", 0),
        finalizers=tuple(metadata.get("finalizers") or ()),
        suspend=bool(spec.get("suspend")),
        ours=spec.get("managedBy") in (None, "", MANAGER),
        queue=queue_of(obj),
        creator=annotations.get(CREATOR) or "",
        annotations={name: value for name, value in annotations.items() if name.startswith(ANNOTATIONS)},
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
