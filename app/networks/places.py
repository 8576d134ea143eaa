"""Where the labels and annotations about networks are read, and which of them stand in another place. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from app.admission.pods import INJECT
from app.kube.resources import NAMESPACES, NETWORK_ATTACHMENTS, PODS
from app.networks.model import (
    CLAIM_TEMPLATE,
    DEFAULT_NETWORK,
    DEVICE_CLASS,
    NETWORKS,
    NODE_SELECTOR,
    RESOURCE_NAME,
    RESOURCES_CONTAINER,
)
from app.text import cut
from app.wire import mapping

ANNOTATIONS = ("annotations",)
LABELS = ("labels",)
EITHER = ("annotations", "labels")
BARE = ""
"""In place of one of these: what stands in the metadata itself."""

INJECT_TEMPLATE = "berth.dev/inject-template"
"""Label or annotation on a Job or an AppWrapper, by its author: "true" has its Pod templates injected into when it is
created, as Pods are. With `--claims`.
"""


class Place(NamedTuple):
    """The kinds on which a key is read, and as what: members of their metadata. `labeled` are read as labels alone."""

    kinds: tuple[str, ...]
    parts: tuple[str, ...] = ANNOTATIONS
    labeled: tuple[str, ...] = ()

    def parts_of(self, kind: str) -> tuple[str, ...]:
        """The members of the metadata of this kind among which it is read; none on another kind."""
        return LABELS if kind in self.labeled else self.parts if kind in self.kinds else ()


PLACES: Mapping[str, Place] = {
    **dict.fromkeys((NETWORKS, DEFAULT_NETWORK, RESOURCES_CONTAINER), Place((PODS.kind,))),
    **dict.fromkeys((RESOURCE_NAME, NODE_SELECTOR, CLAIM_TEMPLATE, DEVICE_CLASS), Place((NETWORK_ATTACHMENTS.kind,))),
    # Selectors of webhooks read it on Namespaces.
    INJECT: Place((PODS.kind, NETWORK_ATTACHMENTS.kind), EITHER, (NAMESPACES.kind,)),
    INJECT_TEMPLATE: Place(("Job", "AppWrapper"), EITHER),
}


class Misplaced(NamedTuple):
    """A key that has no effect where it stands. `fault` says where it is read."""

    field: str
    key: str
    fault: str

    @property
    def text(self) -> str:
        return f"{self.field}: {self.fault}"


def misplaced(
    metadata: Any,
    path: str,
    kind: str,
    *,
    templates: tuple[str, ...] = (),
    places: Mapping[str, Place] = PLACES,
    parts: tuple[str, ...] = EITHER,
) -> Iterator[Misplaced]:
    """The keys of `metadata`, which stands at `path` in an object of this kind, that are not read there.

    `kind` is "" for what is the metadata of nothing, and has its group behind a dot where it only has the name of a
    kind. `templates` are the paths of the Pod templates of the object, into which a key for Pods belongs; that of a Pod
    is "".
    """
    for part in parts:
        for key in mapping(mapping(metadata).get(part) if part else metadata):
            place = places.get(key)
            if place is not None and part not in place.parts_of(kind):
                field = f"{path}.{part}".strip(".")
                yield Misplaced(f"{field}[{cut(key)}]", key, _fault(place, part, path, kind, templates))


def _fault(place: Place, part: str, path: str, kind: str, templates: tuple[str, ...]) -> str:
    if read := place.parts_of(kind):
        return f"read among {read[0]} alone: put it into {path}.{read[0]}"
    *others, last = (f"{owner}{'es' if owner.endswith('s') else 's'}" for owner in (*place.kinds, *place.labeled))
    words = " and ".join(filter(None, (", ".join(others), last)))
    into = part if part in place.parts else place.parts[0]
    homes = " or ".join(f"{template}.metadata.{into}".lstrip(".") for template in templates[:2])
    more = " and the other templates" if len(templates) > 2 else ""
    put = f": put it into {homes}{more}" if homes and PODS.kind in place.kinds else ""
    name, _, group = kind.partition(".")
    other = f", and not on those of {group}" if group and name in place.kinds else ""
    return f"read on {words} alone{other}{put}"
