"""The controller `claim-templates`: of each definition a ResourceClaimTemplate in each namespace that uses it.

A key is the namespace and the name of a template. What lacks our mark is never changed; a Pod that names it uses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from app.claims.definitions import stored_class
from app.claims.known import KnownDefinitions
from app.claims.model import CLAIM_TEMPLATE_MARK
from app.claims.settings import TemplateSettings
from app.claims.templates import metrics
from app.claims.templates.planning import (
    OwnTemplate,
    User,
    hash_of,
    next_action,
    stored_attachment,
    stored_pod,
    stored_template,
    template_body,
)
from app.errors import ApiError, Transient
from app.kube.configuration import data_of
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.events import Regarding
from app.kube.kit import Kit, all_of, itself
from app.kube.resources import CONFIG_MAPS, DEVICE_CLASSES, NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIM_TEMPLATES
from app.kube.retry import get_or_none, if_there
from app.kube.store import Key
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.wire import JSON

log = structlog.get_logger(__name__)
_TOLD = 3
"""Pods, and attachments, that get an Event."""


def build(context: ControllerContext) -> Kit:
    settings = settings_as(context.settings, TemplateSettings)
    metrics.create_series()
    kit = context.kit()
    ClaimTemplates(kit, namespace=context.settings.namespace, config_map=settings.claim_templates)
    return kit


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
        kit.at_end(lambda: metrics.skipped(()))

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
        wanted = template_body(key, definition) if definition is not None else None
        left = self._time_left(key, watched=template is not None and not used)
        action = next_action(wanted, template, used=used, idle=left is not None and left <= 0)
        made = True
        if action != "create":
            self._skips(key, "")
        if action in ("replace", "delete") and template is not None:
            await self._delete(template)
        if action in ("create", "replace") and wanted is not None:
            made = await self._create(key, wanted)
        if action and made:
            metrics.WRITTEN.labels(action).inc()
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

    async def _create(self, key: Key, wanted: JSON) -> bool:
        """Whether it was created; another one can have the name."""
        try:
            await self._client.create(RESOURCE_CLAIM_TEMPLATES, wanted, namespace=key[0])
        except ApiError as error:
            if error.conflict:
                await self._look(key, wanted)
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

    async def _look(self, key: Key, wanted: JSON) -> None:
        """One of this name exists: our own, which the cache does not show yet, or another one."""
        obj = await get_or_none(self._client, RESOURCE_CLAIM_TEMPLATES, key[1], namespace=key[0])
        if obj is None:
            raise Transient("the template is gone that had the name")
        own = stored_template(obj)
        self._skips(key, "foreign" if own is None else "")
        if own is not None:
            if own.deleting or own.made_from != hash_of(wanted):
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
        metrics.skipped(self._skipped.values())


def used_templates(_key: Key, old: User | None, new: User | None) -> set[Key]:
    """Those that a Pod or an attachment names, before the change or after it."""
    return {key for user in (old, new) if user is not None for key in user.keys}
