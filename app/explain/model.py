"""What the parts of `berth explain` hand to each other: objects with their places, findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from app.wire import JSON

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as it was given; `namespace` is the one that it would be created in, "" for an object of the cluster.

    `place` is file and line. `within` is the path of the object in the one that stands there, "" for that one itself.
    """

    place: str
    kind: str
    name: str
    namespace: str
    obj: JSON
    within: str = ""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def subject(self) -> str:
        """The title with the place."""
        return f"{self.title} ({self.place}{' ' * bool(self.within)}{self.within})"

    @property
    def reference(self) -> JSON:
        """How a JSON answer names the object."""
        return {"source": self.place, "kind": self.kind, "namespace": self.namespace, "name": self.name} | (
            {"path": self.within} if self.within else {}
        )


@dataclass(frozen=True, slots=True)
class PodManifest:
    """A Pod as the API server would be asked to create it, and the object that makes it.

    `path` is that of the Pod template in the object where it may have several, else "".
    """

    owner: Manifest
    pod: JSON
    path: str = ""

    @property
    def title(self) -> str:
        return f"{self.owner.title} {self.path}" if self.path else self.owner.title

    @property
    def subject(self) -> str:
        return f"{self.title} ({self.owner.place})"

    @property
    def reference(self) -> JSON:
        return {**self.owner.reference, **({"path": self.path} if self.path else {})}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong in the manifests, beside the Pods that would be denied.

    An error: the API server, or a webhook, would refuse the object or drop a part of it. A warning: it is probably not
    meant. `reason` is one CamelCase word. `manifest` is None for a file that cannot be read. `field` is a path in the
    object, `meant` what was probably meant; both can be "".
    """

    severity: Severity
    reason: str
    message: str
    manifest: Manifest | None = None
    field: str = ""
    meant: str = ""

    @property
    def text(self) -> str:
        subject = f"{self.manifest.subject}: " if self.manifest else ""
        field = f"{self.field}: " if self.field else ""
        return f"{self.severity}: {subject}{field}{self.message}" + (f"; did you mean {self.meant}?" * bool(self.meant))

    @property
    def members(self) -> JSON:
        """As a JSON answer has it."""
        reference = self.manifest.reference if self.manifest else {}
        members = {"severity": self.severity, "reason": self.reason, **reference, "message": self.message}
        return members | {name: text for name, text in (("field", self.field), ("meant", self.meant)) if text}
