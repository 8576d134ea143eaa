"""What becomes of one ResourceClaimTemplate: made from its definition where that is used, and deleted later. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from app.claims.definitions import Definition, class_template
from app.claims.model import CLAIM_TEMPLATE_HASH, CLAIM_TEMPLATE_MARK
from app.kube.names import shorten
from app.kube.owners import controller_reference
from app.kube.resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES
from app.kube.secrets import MANAGED_BY, MANAGER
from app.kube.store import Key, key_of
from app.networks.claim_sources import claim_source
from app.wire import JSON, encode_sorted

Action = Literal["", "create", "replace", "delete"]


@dataclass(frozen=True, slots=True)
class OwnTemplate:
    """A ResourceClaimTemplate with our mark. `made_from` is the hash of what it was made from."""

    key: Key
    uid: str
    made_from: str
    deleting: bool


@dataclass(frozen=True, slots=True)
class User:
    """A Pod that is not over, or an attachment: the templates in its namespace that it needs."""

    key: Key
    uid: str
    templates: tuple[str, ...]

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple((self.key[0], name) for name in self.templates)


def stored_template(obj: JSON) -> OwnTemplate | None:
    """None for one without our mark."""
    metadata = obj["metadata"]
    labels: Mapping[str, str] = metadata.get("labels") or {}
    if labels.get(MANAGED_BY) != MANAGER or CLAIM_TEMPLATE_MARK not in labels:
        return None
    made_from = (metadata.get("annotations") or {}).get(CLAIM_TEMPLATE_HASH, "")
    return OwnTemplate(key_of(obj), metadata.get("uid", ""), made_from, "deletionTimestamp" in metadata)


def stored_pod(obj: JSON) -> User | None:
    """None for a Pod that names no template, or is over."""
    claims = (obj.get("spec") or {}).get("resourceClaims") or ()
    names = tuple(dict.fromkeys(one["resourceClaimTemplateName"] for one in claims if _from_template(one)))
    over = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return User(key_of(obj), _uid(obj), names) if names and not over else None


def _uid(obj: JSON) -> str:
    return str(obj["metadata"].get("uid", ""))


def _from_template(claim: JSON) -> bool:
    return bool(claim.get("resourceClaimTemplateName"))


def stored_attachment(obj: JSON) -> User | None:
    """None for an attachment whose device comes by no claim."""
    source = claim_source(obj["metadata"].get("annotations") or {})
    if source is None:
        return None
    name = source.template or class_template(source.device_class)
    return User(key_of(obj), _uid(obj), (name,))


def template_body(key: Key, definition: Definition) -> JSON:
    """The template as it should be."""
    namespace, name = key
    made: JSON = {"spec": {"spec": definition.spec}}
    one = definition.device_class
    owners = [controller_reference(DEVICE_CLASSES, one.name, one.uid)] if one is not None else []
    digest = hashlib.sha256(encode_sorted([made, owners])).hexdigest()
    metadata: JSON = {
        "name": name,
        "namespace": namespace,
        "labels": {MANAGED_BY: MANAGER, CLAIM_TEMPLATE_MARK: shorten(name)},
        "annotations": {CLAIM_TEMPLATE_HASH: digest},
    }
    if owners:
        metadata["ownerReferences"] = owners
    return RESOURCE_CLAIM_TEMPLATES.body(metadata, **made)


def hash_of(body: JSON) -> str:
    """What `made_from` is of a template with this body."""
    return str(body["metadata"]["annotations"][CLAIM_TEMPLATE_HASH])


def next_action(wanted: JSON | None, found: OwnTemplate | None, *, used: bool, idle: bool) -> Action:
    """`wanted` is None without a definition. An unused template is deleted once it has been `idle` for long enough.

    The spec of a template cannot be changed, so it is replaced. An unused one of an earlier definition is deleted at
    once, so that the next Pod that names it does not get a claim of what was defined before.
    """
    if found is None:
        return "create" if wanted is not None and used else ""
    if found.deleting:
        return ""
    if wanted is None:
        return "delete"
    stale = found.made_from != hash_of(wanted)
    if used:
        return "replace" if stale else ""
    return "delete" if stale or idle else ""
