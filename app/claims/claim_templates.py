"""The controller `claim-templates`: of each definition a ResourceClaimTemplate in each namespace that uses it.

A template is made from its definition where that is used, and deleted later. A key is the namespace and the name of a
template. What lacks our mark is never changed; a Pod that names it uses it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import structlog
from prometheus_client import Counter, Gauge

from app.claims.definitions import Definition, class_template, stored_class
from app.claims.model import CLAIM_TEMPLATE_HASH, CLAIM_TEMPLATE_MARK
from app.claims.settings import TemplateSettings
from app.claims.sources import KnownDefinitions
from app.errors import ApiError, Transient
from app.kube.configuration import data_of
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.events import Regarding
from app.kube.kit import Kit, all_of, itself
from app.kube.names import shorten
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    NETWORK_ATTACHMENTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    controller_reference,
)
from app.kube.retry import get_or_none, if_there
from app.kube.secrets import MANAGED_BY, MANAGER
from app.kube.store import Head, Identity, Key, head_of, identity_of
from app.networks.model import claim_source
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.wire import JSON, encode_sorted

log = structlog.get_logger(__name__)
Action = Literal["", "create", "replace", "delete"]
_TOLD = 3
"""Pods, and attachments, that get an Event."""
_ACTIONS: tuple[Action, ...] = ("create", "replace", "delete")
_REASONS = ("foreign", "refused")
WRITTEN = Counter("claim_templates_total", "ResourceClaimTemplates of definitions, by what was done", ("action",))
SKIPPED = Gauge(
    "claim_templates_skipped",
    "ResourceClaimTemplates that are used and not made, by reason; foreign: another one has the name of the "
    "definition; refused: the API server does not take it",
    ("reason",),
)


def build(context: ControllerContext) -> Kit:
    settings = settings_as(context.settings, TemplateSettings)
    # At zero, so that a rate over it is right from the first scrape.
    for action in _ACTIONS:
        WRITTEN.labels(action)
    _show_skipped(())
    kit = context.kit()
    ClaimTemplates(kit, namespace=context.settings.namespace, config_map=settings.claim_templates)
    return kit


def _show_skipped(reasons: Iterable[str]) -> None:
    """Of each that is not made, the reason."""
    counts = Counts(reasons)
    for reason in _REASONS:
        SKIPPED.labels(reason).set(counts[reason])


class ClaimTemplates:
    """The ConfigMap `config_map` in `namespace` has the definitions. Of Pods, those that name templates are kept.

    A template that nothing uses is kept for `keep` seconds, so that one Pod after another does not make and delete it.
    """

    def __init__(
        self,
        kit: Kit,
        *,
        namespace: str,
        config_map: str,
        keep: float = 600.0,
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
    ) -> None:
        self._client, self._events, self._clock, self._keep = kit.client, kit.events, clock, keep
        self._unused: dict[Key, float] = {}
        self._skipped: dict[Key, str] = {}
        """Why a template that is used is not made."""
        by_template = {"template": lambda user: user.keys}
        self._pods = kit.cache(PODS, stored_pod, indices=by_template, called="ClaimTemplatePod")
        self._attachments = kit.cache(NETWORK_ATTACHMENTS, stored_attachment, indices=by_template)
        self._templates = kit.cache(RESOURCE_CLAIM_TEMPLATES, stored_template, labels=CLAIM_TEMPLATE_MARK)
        classes = kit.cache(DEVICE_CLASSES, stored_class)
        config_maps = kit.cache(CONFIG_MAPS, data_of, namespace=namespace, name=config_map)
        self._definitions = KnownDefinitions(config_maps, classes, name=config_map)
        kit.reconcile(
            "claim-templates",
            self._reconcile,
            keys=self._keys,
            wakes={
                self._pods: used_templates,
                self._attachments: used_templates,
                self._templates: itself,
                classes: all_of(self._keys),
                config_maps: all_of(self._keys),
            },
        )
        kit.at_end(lambda: _show_skipped(()))

    def _keys(self) -> set[Key]:
        """The templates that are used, or that there are."""
        users = (*self._pods.values(), *self._attachments.values())
        return {key for user in users for key in user.keys} | set(self._templates.keys())

    def _is_used(self, key: Key) -> bool:
        return bool(self._pods.count("template", key) or self._attachments.count("template", key))

    async def _reconcile(self, key: Key) -> Result:
        definition, template, used = self._definitions.find(key[1]), self._templates.get(*key), self._is_used(key)
        if definition is None and self._definitions.problems():
            # It may be one of those that cannot be read. After a start none was read before.
            return Done()
        body = template_body(key, definition) if definition is not None else None
        left = self._time_left(key, watched=template is not None and not used)
        action = next_action(body, template, used=used, idle=left is not None and left <= 0)
        made = True
        if action != "create":
            self._skips(key, "")
        if action in ("replace", "delete") and template is not None:
            await self._delete(template)
        if action in ("create", "replace") and body is not None:
            made = await self._create(key, body)
        if action and made:
            WRITTEN.labels(action).inc()
            log.info("claim template", action=action, namespace=key[0], name=key[1])
        return Done() if left is None or left <= 0 else RequeueAfter(left)

    def _time_left(self, key: Key, *, watched: bool) -> float | None:
        """How long a template without users is kept still; None where none is watched."""
        if not watched:
            self._unused.pop(key, None)
            return None
        now = self._clock()
        return self._unused.setdefault(key, now) + self._keep - now

    async def _delete(self, template: OwnTemplate) -> None:
        namespace, name = template.key
        request = self._client.delete(RESOURCE_CLAIM_TEMPLATES, name, namespace=namespace, uid=template.uid)
        await if_there(request)

    async def _create(self, key: Key, body: JSON) -> bool:
        """Whether it was created; another one can have the name."""
        try:
            await self._client.create(RESOURCE_CLAIM_TEMPLATES, body, namespace=key[0])
        except ApiError as error:
            if error.conflict:
                await self._look(key, body)
                return False
            if error.about_object:
                self._refused(key, str(error))
            raise
        self._skips(key, "")
        return True

    def _refused(self, key: Key, why: str) -> None:
        """Told on some that use it: an administrator sees the metric, and the author of a Pod why it waits."""
        self._skips(key, "refused")
        message = f"the ResourceClaimTemplate {key[1]} of the definition of this name is not made: {why}"
        for resource, users in ((PODS, self._pods), (NETWORK_ATTACHMENTS, self._attachments)):
            for user in users.by_index("template", key)[:_TOLD]:
                if self._events is not None:
                    regarding = Regarding.of(resource, user.key, user.uid)
                    self._events.record(regarding, "Warning", reason="ClaimTemplateRefused", message=message)

    async def _look(self, key: Key, body: JSON) -> None:
        """One of this name exists: our own, which the cache does not show yet, or another one."""
        obj = await get_or_none(self._client, RESOURCE_CLAIM_TEMPLATES, key[1], namespace=key[0])
        if obj is None:
            raise Transient("the template is gone that had the name")
        own = stored_template(obj)
        self._skips(key, "foreign" if own is None else "")
        if own is not None:
            if own.deleting or own.made_from != hash_of(body):
                raise Transient("an earlier template has the name still")
            return
        message = (
            f"the ResourceClaimTemplate was not made from the definition {key[1]} and is left alone: Pods of this "
            "namespace that name it get what it says; rename it, or delete it to have it made from the definition"
        )
        log.warning("claim template of others", namespace=key[0], name=key[1])
        if self._events is not None:
            regarding = Regarding.of(RESOURCE_CLAIM_TEMPLATES, key, obj["metadata"].get("uid", ""))
            self._events.record(regarding, "Warning", reason="NotOfDefinition", message=message)

    def _skips(self, key: Key, reason: str) -> None:
        self._skipped.pop(key, None)
        if reason:
            self._skipped[key] = reason
        _show_skipped(self._skipped.values())


def used_templates(_key: Key, old: User | None, new: User | None) -> set[Key]:
    """Those that a Pod or an attachment names, before the change or after it."""
    return {key for user in (old, new) if user is not None for key in user.keys}


@dataclass(frozen=True, slots=True)
class OwnTemplate(Head):
    """A ResourceClaimTemplate with our mark. `made_from` is the hash of what it was made from."""

    made_from: str


@dataclass(frozen=True, slots=True)
class User(Identity):
    """A Pod that is not over, or an attachment: the templates in its namespace that it needs."""

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
    return OwnTemplate(*head_of(obj), (metadata.get("annotations") or {}).get(CLAIM_TEMPLATE_HASH, ""))


def stored_pod(obj: JSON) -> User | None:
    """None for a Pod that names no template, or is over."""
    claims = (obj.get("spec") or {}).get("resourceClaims") or ()
    names = tuple(dict.fromkeys(claim["resourceClaimTemplateName"] for claim in claims if _from_template(claim)))
    over = (obj.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return User(*identity_of(obj), names) if names and not over else None


def _from_template(claim: JSON) -> bool:
    return bool(claim.get("resourceClaimTemplateName"))


def stored_attachment(obj: JSON) -> User | None:
    """None for an attachment whose device comes by no claim."""
    source = claim_source(obj["metadata"].get("annotations") or {})
    if source is None:
        return None
    name = source.template or class_template(source.device_class)
    return User(*identity_of(obj), (name,))


def template_body(key: Key, definition: Definition) -> JSON:
    """The template as it should be."""
    namespace, name = key
    made: JSON = {"spec": {"spec": definition.spec}}
    device_class = definition.device_class
    owners = (
        [controller_reference(DEVICE_CLASSES, device_class.name, device_class.uid)] if device_class is not None else []
    )
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


def next_action(body: JSON | None, template: OwnTemplate | None, *, used: bool, idle: bool) -> Action:
    """`body` is None without a definition. An unused template is deleted once it has been `idle` for long enough.

    The spec of a template cannot be changed, so it is replaced. An unused one of an earlier definition is deleted at
    once, so that the next Pod that names it does not get a claim of what was defined before.
    """
    if template is None:
        return "create" if body is not None and used else ""
    if template.deleting:
        return ""
    if body is None:
        return "delete"
    stale = template.made_from != hash_of(body)
    if used:
        return "replace" if stale else ""
    return "delete" if stale or idle else ""
