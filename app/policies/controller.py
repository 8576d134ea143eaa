"""The controller `policies`: keeps the policies current, and the condition by which the webhook leaves Pods to them.

All of them are one key, since a change of any attachment changes the same objects. They are replaced as a whole:
server-side apply would leave what others have added to a list of them. Of the webhook configuration, which is the
chart's, one match condition is written, by server-side apply, with a field manager of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from prometheus_client import Counter, Gauge

from app.errors import ApiError, Transient
from app.kube.configuration import Configuration, data_of
from app.kube.controller import Done, RequeueAfter, Result
from app.kube.events import EventRecorder, Regarding
from app.kube.kit import Kit
from app.kube.resources import CLUSTER_ROLES, CONFIG_MAPS, MUTATING_WEBHOOKS, NETWORK_ATTACHMENTS
from app.kube.retry import get_or_none, if_there
from app.kube.store import Key, Store, key_of
from app.kube.walls import Apart
from app.networks.settings import CONFIG_MAP_NAME, Switches, text_of
from app.policies.keeping import (
    KINDS,
    UNREGISTERED,
    Difference,
    Ident,
    condition_of,
    difference,
    entry_of,
    ident_of,
    next_step,
)
from app.policies.model import Left
from app.policies.objects import CONDITION, POLICIES_OF, Generated, generate
from app.policies.settings import Config, ControllerSettings, Mode, parse_config
from app.policies.terms import WEBHOOK
from app.settings.reconciling import ControllerContext
from app.settings.source import settings_as
from app.text import several
from app.wire import JSON

ATTACHMENTS = Gauge("policies_attachments", "Attachments, by whether policies serve them", ("state",))
WRITES = Counter("policies_writes_total", "Policies, bindings and conditions written", ("verb",))
FIELD_MANAGER = "berth-policies"
_STATES, _VERBS = ("served", "left"), ("create", "replace", "delete", "condition")
_FOREIGN = 30.0
"""Seconds until it is looked again whether an object of another has gone."""
_ALL = ""
"""The one key."""
_BULKY = "kubectl.kubernetes.io/last-applied-configuration"
_log = structlog.get_logger(__name__)


def stored_attachment(obj: JSON) -> JSON:
    """What the cache keeps of an attachment."""
    namespace, name = key_of(obj)
    metadata = obj["metadata"]
    annotations = metadata.get("annotations")
    kept = {key: value for key, value in annotations.items() if key != _BULKY} if isinstance(annotations, dict) else {}
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": str(metadata.get("uid") or ""),
            "annotations": kept,
        }
    }


def stored_policy(obj: JSON) -> JSON:
    metadata = {key: obj["metadata"].get(key) for key in ("name", "uid", "resourceVersion", "ownerReferences")}
    return {"kind": obj["kind"], "metadata": metadata, "spec": obj.get("spec") or {}}


def stored_owner(obj: JSON) -> JSON:
    """The reference of what it owns. It does not block the deletion of the owner."""
    name, uid = obj["metadata"]["name"], obj["metadata"]["uid"]
    return {"apiVersion": CLUSTER_ROLES.api_version, "kind": CLUSTER_ROLES.kind, "name": name, "uid": uid}


def stored_configuration(obj: JSON) -> JSON:
    metadata = {key: obj["metadata"].get(key) for key in ("name", "uid", "resourceVersion")}
    return {"metadata": metadata, "webhooks": obj.get("webhooks") or []}


def build(context: ControllerContext) -> Kit:
    settings = settings_as(context.settings, ControllerSettings)
    for state in _STATES:
        ATTACHMENTS.labels(state)
    for verb in _VERBS:
        WRITES.labels(verb)
    kit = context.kit()
    keeper = Keeper(kit, settings, namespace=context.settings.namespace)
    kit.waits_for(keeper.problems)
    wakes = dict.fromkeys(keeper.stores, lambda _key, _old, _new: (_ALL,))
    kit.reconcile("policies", keeper.reconcile, keys=lambda: (_ALL,), wakes=wakes, turn=None, workers=1)
    return kit


class Keeper:
    """Writes the policies that the ConfigMap in `namespace` asks for."""

    def __init__(self, kit: Kit, settings: ControllerSettings, *, namespace: str) -> None:
        config, name = settings.policies_config, settings.policies_name
        self._client, self._name, self._namespace, self._owner = kit.client, name, namespace, settings.policies_owner
        self._attachments = kit.cache(NETWORK_ATTACHMENTS, stored_attachment, called="Network")
        self._switches_text = kit.cache(CONFIG_MAPS, text_of, namespace=namespace, name=CONFIG_MAP_NAME)
        configs = kit.cache(CONFIG_MAPS, data_of, namespace=namespace, name=config, called="PoliciesConfig")
        self._configurations = kit.cache(MUTATING_WEBHOOKS, stored_configuration, name=name)
        self._owners = kit.cache(CLUSTER_ROLES, stored_owner, name=self._owner)
        labels = f"{POLICIES_OF}={name}"
        self._policies: list[Store[JSON]] = [kit.cache(kind, stored_policy, labels=labels) for kind in KINDS]
        self._configuration = Configuration[Config | None](configs, name=config, parse=parse_config, usual=None)
        self.stores: tuple[Store[Any], ...] = (
            self._attachments,
            self._switches_text,
            configs,
            self._configurations,
            self._owners,
            *self._policies,
        )
        self._switches = Switches()
        self._opened: float | None = None
        """Since when the webhook is called for Pods that policies serve, too; None where it is not."""
        self._unregistered: float | None = None
        """Since when the webhook that is to serve Pods is not registered; None where it is, or is not wanted."""
        self._current: float | None = None
        """Since when the policies are as wanted; None where they are not."""
        self._saying = _Saying(kit.events)

    def problems(self) -> list[str]:
        """What of the configuration is not used, and what nothing is written without."""
        lacking = (
            f"{CLUSTER_ROLES.kind} {self._owner}: is not there, so nothing would delete the policies with the release"
        )
        return [*self._configuration.problems(), *([] if self._owners.get("", self._owner) else [lacking])]

    async def reconcile(self, _key: str) -> Result:
        config, now = self._configuration.current, time.monotonic()
        owner = self._owners.get("", self._owner)
        if config is None or owner is None:  # not installed yet, or not any more: what is there stays
            return Done()
        wanted = self._wanted(config)
        for obj in wanted.objects:
            obj["metadata"]["ownerReferences"] = [owner]
        installed = {ident_of(obj): obj for store in self._policies for obj in store.values()}
        registered = self._configurations.get("", self._name)
        condition = condition_of(registered)
        change = difference(wanted.objects, installed)
        self._look(config.mode, registered, now)
        self._current = None if change else self._current if self._current is not None else now
        step = next_step(
            change,
            condition=condition,
            wanted=wanted.condition if entry_of(registered) else "",
            open_for=now - (self._opened if self._opened is not None else now),
            current_for=now - (self._current if self._current is not None else now),
            fresh=not installed,
        )
        if step.condition is not None and registered is not None:
            await self._write_condition(registered, step.condition)
        if step.change:
            await self._write(step.change, installed)
        self._say(config, wanted)
        return RequeueAfter(step.again) if step.again else Done()

    def _look(self, mode: Mode, registered: JSON | None, now: float) -> None:
        """Note since when the webhook is called for all Pods that ask.

        One that is to serve them, and is not registered, is not: Helm writes the ConfigMap before the registration.
        """
        if entry_of(registered) or mode == "policies":
            self._unregistered = None
        elif self._unregistered is None:
            self._unregistered = now
        awaited = self._unregistered is not None and now - self._unregistered < UNREGISTERED
        if condition_of(registered) or awaited:
            self._opened = None
        elif self._opened is None:
            self._opened = now

    def _wanted(self, config: Config) -> Generated:
        if config.mode == "webhook":
            return Generated()
        self._switches = config.switches(self._switches_text.get(self._namespace, CONFIG_MAP_NAME), self._switches)
        registered = entry_of(self._configurations.get("", self._name)) or None
        terms = config.terms(self._switches, name=self._name, registered=registered, namespace=self._namespace)
        return generate(self._attachments.values(), terms)

    async def _write_condition(self, configuration: JSON, expression: str) -> None:
        """Raises Transient where the configuration has changed meanwhile."""
        metadata, entries = configuration["metadata"], configuration["webhooks"]
        if expression:
            entry = {"name": WEBHOOK, "matchConditions": [{"name": CONDITION, "expression": expression}]}
            body = MUTATING_WEBHOOKS.body({"name": self._name, "uid": metadata["uid"]}, webhooks=[entry])
            await self._client.apply(MUTATING_WEBHOOKS, self._name, body, field_manager=FIELD_MANAGER)
        else:
            # Also one that another has written, or has a part in, which an apply would leave.
            (index,) = (index for index, entry in enumerate(entries) if entry.get("name") == WEBHOOK)
            conditions = entries[index]["matchConditions"]
            (place,) = (place for place, condition in enumerate(conditions) if condition["name"] == CONDITION)
            change: JSON = {"op": "remove", "path": f"/webhooks/{index}/matchConditions/{place}"}
            version = metadata["resourceVersion"]
            await self._client.patch(MUTATING_WEBHOOKS, self._name, [change], patch_type="json", version=version)
        WRITES.labels("condition").inc()
        _log.info("condition of the webhook written", configuration=self._name, characters=len(expression))

    async def _write(self, change: Difference, installed: Mapping[Ident, JSON]) -> None:
        apart = Apart()
        for obj in change.missing:
            with apart.step():
                await self._create(obj)
        for obj in change.stale:
            with apart.step():
                ident = ident_of(obj)
                version = installed[ident]["metadata"]["resourceVersion"]
                body = {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
                await self._client.replace(ident.resource, ident.name, body)
                WRITES.labels("replace").inc()
        for ident in change.extra if apart.whole else ():
            with apart.step():
                uid = installed[ident]["metadata"]["uid"]
                if await if_there(self._client.delete(ident.resource, ident.name, uid=uid)) is not None:
                    WRITES.labels("delete").inc()
        apart.end()
        _log.info(
            "policies written", created=len(change.missing), replaced=len(change.stale), deleted=len(change.extra)
        )

    async def _create(self, obj: JSON) -> None:
        ident = ident_of(obj)
        try:
            await self._client.create(ident.resource, obj)
        except ApiError as error:
            if not error.conflict:
                raise
            there = await get_or_none(self._client, ident.resource, ident.name)
            if there is None or labels_of(there).get(POLICIES_OF) == self._name:
                raise Transient(f"{ident.subject}: the watch does not show it yet") from error
            text = f"{ident.subject} is there without label {POLICIES_OF}={self._name}, so it is not ours: delete it"
            raise Transient(text, delay=_FOREIGN) from error
        WRITES.labels("create").inc()

    def _say(self, config: Config, wanted: Generated) -> None:
        left = [] if config.mode == "webhook" else wanted.left
        ATTACHMENTS.labels("served").set(len(wanted.networks))
        ATTACHMENTS.labels("left").set(len(left))
        self._saying.of_left(left, self._attachments, refused=config.mode == "policies")


def labels_of(obj: JSON) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


class _Saying:
    """Says on each attachment that policies do not serve why, once until that changes. `events` may be None."""

    def __init__(self, events: EventRecorder | None) -> None:
        self._events = events
        self._said: dict[Key, tuple[str, str]] = {}
        self._all = ""

    def of_left(self, left: Sequence[Left], attachments: Store[JSON], *, refused: bool) -> None:
        told: dict[Key, tuple[str, str]] = {}
        so = "Pods that select it are refused" if refused else "the webhook serves Pods that select it"
        for subject, reason in left:
            kind, _, key = subject.partition(" ")
            namespace, _, name = key.partition("/")
            attachment = attachments.get(namespace, name) if kind == NETWORK_ATTACHMENTS.kind else None
            if attachment is None:
                self._say_all(reason)
                continue
            uid = attachment["metadata"]["uid"]
            told[namespace, name] = uid, reason
            if self._events is not None and self._said.get((namespace, name)) != (uid, reason):
                regarding = Regarding.of(NETWORK_ATTACHMENTS, (namespace, name), uid)
                message = f"policies do not serve it: {reason}; {so}"
                self._events.record(
                    regarding, "Warning" if refused else "Normal", reason="LeftByPolicies", message=message
                )
        if len(told) != len(self._said):
            _log.info("attachments are left", count=len(told), what=several(len(told), "attachment"))
        self._said = told

    def _say_all(self, reason: str) -> None:
        if reason != self._all:
            self._all = reason
            _log.warning("policies serve no Pod", reason=reason)
