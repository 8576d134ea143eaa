"""What a tenant's manifest may not say about itself: Berth's and the kubelet's marks, owners, and foreign identities.

Pure: arbitrary JSON in, one line for each finding, beginning with the field's path. What a Pod may not ask of the host
is in `guards`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from app.errors import Denied
from app.kube.names import domain_above
from app.networks.interfaces import chosen_by
from app.pace import step
from app.text import cut
from app.wire import JSON, encode_json
from app.workloads.model import RESERVED_DOMAINS, USER_MARKS

_STATIC_POD = re.compile(r"kubernetes\.io/config\.(?:mirror|source|hash|seen)", re.ASCII | re.IGNORECASE)
# The forms in which profiles were written before they became fields, with the values that leave a profile.
_PROFILES = {
    "container.apparmor.security.beta.kubernetes.io/": ("", "runtime/default"),
    "container.seccomp.security.alpha.kubernetes.io/": ("runtime/default", "docker/default"),
    "seccomp.security.alpha.kubernetes.io/": ("runtime/default", "docker/default"),
}
_TOKENS = {
    "kubernetes.io/service-account-token": "the token of a service account",
    "bootstrap.kubernetes.io/token": "a token that lets nodes join the cluster",
}


def is_reserved(key: str) -> bool:
    """Whether only Berth may write this label or annotation: below a reserved domain, but what users ask Berth by."""
    return key not in USER_MARKS and domain_above(key, RESERVED_DOMAINS) is not None


def reserved_marks(metadata: Any, path: str) -> Iterator[str]:
    """Labels and annotations that only Berth may write; the admin's templates may not have them either."""
    for field in ("labels", "annotations"):
        for key in _keys(member(metadata, field)):
            step()
            if is_reserved(key):
                yield f"{path}.{field}[{cut(key)}]: the domain is reserved for Berth; use another one"


def foreign_metadata(metadata: Any, path: str) -> Iterator[str]:
    """All that a tenant may not write in the metadata of an object, or of a template of Pods."""
    yield from reserved_marks(metadata, path)
    for field in ("labels", "annotations"):
        for key in _keys(member(metadata, field)):
            step()
            if _STATIC_POD.fullmatch(key):
                yield f"{path}.{field}[{key}]: the kubelet marks its own Pods with it; leave it out"
    for field in ("ownerReferences", "finalizers"):
        if member(metadata, field):
            yield f"{path}.{field}: not allowed in a tenant's manifest; leave it out"
    annotations, where = member(metadata, "annotations"), f"{path}.annotations"
    for key in _keys(annotations):
        step()
        value = str(annotations[key])
        for prefix, fine in _PROFILES.items():
            if key.startswith(prefix) and value not in fine and not value.startswith("localhost/"):
                yield f"{where}[{cut(key)}]: {shown(value)} takes the container's profile away; use runtime/default"


def token_secret(secret: Any, path: str) -> Iterator[str]:
    """A Secret that would be an identity in the infra cluster."""
    kind = member(secret, "type")
    if isinstance(kind, str) and kind in _TOKENS:
        yield f"{path}.type: {shown(kind)} is {_TOKENS[kind]}, which a tenant may not have; use another type"


def network_warnings(metadata: Any, path: str) -> Iterator[str]:
    """What Multus, and Berth in the infra cluster, would say of the networks of the Pods."""
    annotations = {key: text for key, text in (member(metadata, "annotations") or {}).items() if isinstance(text, str)}
    try:
        yield from (f"{path}: {line}" for line in chosen_by(annotations, "").ignored)
    except Denied as denial:
        yield f"{path}: {denial}: such Pods are denied where Berth injects networks, and Multus refuses them"


def member(value: Any, field: str) -> Any:
    """A field of what should be an object; None where it is none."""
    return value.get(field) if isinstance(value, dict) else None


def at(value: Any, path: str) -> Any:
    """What stands at a path of fields below an object, the object itself for an empty one; None where nothing does."""
    for field in path.split(".") if path else ():
        if not isinstance(value, dict):
            return None
        value = value.get(field)
    return value


def each(holder: Any, field: str, path: str) -> Iterator[tuple[str, JSON]]:
    """The objects in the list at a path of fields, each with its path; other entries are for the check of shapes."""
    items = at(holder, field)
    for index, item in enumerate(items if isinstance(items, list) else []):
        step()
        if isinstance(item, dict):
            yield f"{path}.{field}[{index}]", item


def shown(value: object) -> str:
    """A value of a manifest as JSON, cut where it is long."""
    return cut(encode_json(value).decode())


def _keys(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []
