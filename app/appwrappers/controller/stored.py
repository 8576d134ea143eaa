"""What the controller keeps of AppWrappers, of their objects and of their Pods. Pure projections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.appwrappers.controller.outcomes import Outcome, outcome_of
from app.appwrappers.model import (
    ANNOTATIONS,
    APP_WRAPPER,
    APP_WRAPPER_UID,
    CREATOR,
    FINALIZER,
    MANAGER,
    POD_SET,
    RESOURCES_DEPLOYED,
    queue_of,
)
from app.appwrappers.podsets.shapes import usable_status
from app.kube.conditions import condition, status_of
from app.kube.owners import controller_of
from app.kube.quantity import parse
from app.kube.store import Key, key_of
from app.numbers import whole_or
from app.wire import JSON, decode_json, encode_json

_CRASH_LOOP = "CrashLoopBackOff"


@dataclass(frozen=True, slots=True)
class AppWrapper:
    """`documents` are the JSON of each of `spec.components`. `annotations` are those that the controller reads.

    `creator` is who created it, as admission has written it; "" where it has not.
    """

    key: Key
    uid: str
    version: int
    generation: int
    deleting: bool
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
        found: JSON = decode_json(self.documents[index])
        return found

    @property
    def component_statuses(self) -> list[JSON]:
        """Of each component; empty until the AppWrapper was first seen."""
        return list(self.status.get("componentStatus") or ())

    @property
    def marked(self) -> bool:
        """Whether all objects were created here, so that they and their Pods have our marks."""
        found = [condition(one, RESOURCES_DEPLOYED) for one in self.component_statuses]
        return all("observedGeneration" in one for one in found if one)

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
        key=key_of(obj),
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        generation=metadata.get("generation", 0),
        deleting="deletionTimestamp" in metadata,
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
class Component:
    """An object of an AppWrapper. `owner` is the UID of its controller, `marked` says whether it has our mark."""

    key: Key
    uid: str
    version: int
    owner: str
    owner_name: str
    marked: bool
    deleting: bool
    finalizers: tuple[str, ...]
    outcome: Outcome


def stored_component(obj: JSON) -> Component:
    metadata = obj["metadata"]
    owner = controller_of(metadata)
    return Component(
        key=key_of(obj),
        uid=metadata["uid"],
        version=int(metadata["resourceVersion"]),
        owner=owner.get("uid", ""),
        owner_name=owner.get("name", ""),
        marked=APP_WRAPPER_UID in (metadata.get("labels") or {}),
        deleting="deletionTimestamp" in metadata,
        finalizers=tuple(metadata.get("finalizers") or ()),
        outcome=outcome_of(obj),
    )


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod with the label of an AppWrapper. `mark` is the UID in our own label, `pod_set` the number of its podSet.

    `exit_codes` are those of containers that have failed, init containers too. `restarts` is the most that a container
    in a crash loop has been restarted. `resources` are the resources that its containers use.
    """

    key: Key
    uid: str
    app_wrapper: str
    mark: str
    pod_set: int
    phase: str
    ready: bool
    deleting: bool
    held: bool
    restarts: int
    exit_codes: tuple[int, ...]
    node: str
    resources: frozenset[str]


def stored_pod(obj: JSON) -> Pod:
    metadata, status = obj["metadata"], status_of(obj)
    labels, statuses = metadata.get("labels") or {}, _container_statuses(status)
    deleting = "deletionTimestamp" in metadata
    return Pod(
        key=key_of(obj),
        uid=metadata["uid"],
        app_wrapper=labels.get(APP_WRAPPER, ""),
        mark=labels.get(APP_WRAPPER_UID, ""),
        pod_set=whole_or(labels.get(POD_SET), -1),
        phase=str(status.get("phase") or ""),
        ready=condition(status, "Ready").get("status") == "True",
        deleting=deleting,
        held=deleting and bool(metadata.get("finalizers")) and metadata.get("deletionGracePeriodSeconds") == 0,
        restarts=max((whole_or(one.get("restartCount"), 0) for one in statuses if _is_in_crash_loop(one)), default=0),
        exit_codes=tuple(sorted({code for one in statuses if (code := _exit_code(one))})),
        node=str((obj.get("spec") or {}).get("nodeName") or ""),
        resources=frozenset(_resources(obj.get("spec") or {})),
    )


def _container_statuses(status: JSON) -> list[JSON]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def _is_in_crash_loop(status: JSON) -> bool:
    return ((status.get("state") or {}).get("waiting") or {}).get("reason") == _CRASH_LOOP


def _exit_code(status: JSON) -> int:
    code = ((status.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
    return code if isinstance(code, int) else 0


def _resources(spec: JSON) -> set[str]:
    """The extended resources of which a container has more than nothing."""
    return {
        name
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        for part in ("limits", "requests")
        for name, amount in ((container.get("resources") or {}).get(part) or {}).items()
        if "/" in name and uses(amount)
    }


def uses(amount: Any) -> bool:
    """Whether a quantity is more than nothing; what is no quantity is left to the API server."""
    try:
        return parse(amount) > 0
    except ValueError:
        return False
