"""What the parts of `berth explain` hand to each other: objects with their places."""

from __future__ import annotations

from dataclasses import dataclass

from app.wire import JSON


@dataclass(frozen=True, slots=True)
class Manifest:
    """An object as it was given; `namespace` is the one that it would be created in, "" for an object of the cluster.

    `place` is file and line.
    """

    place: str
    kind: str
    name: str
    namespace: str
    obj: JSON

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def subject(self) -> str:
        """The title with the place."""
        return f"{self.title} ({self.place})"

    @property
    def reference(self) -> JSON:
        """How a JSON answer names the object."""
        return {"source": self.place, "kind": self.kind, "namespace": self.namespace, "name": self.name}


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
