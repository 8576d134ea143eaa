"""Puts the reviews of AppWrappers together, and gives each one its defaults when it is created.

The defaults are a queue, who created it, and that it waits for the queue. Kueue's own webhook may have been asked
before, or is asked afterwards: what either sets, the other keeps.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Iterator
from functools import partial
from typing import NamedTuple

from app.admission.chain import MutationPlan
from app.admission.parts import EXEMPT, Context, Parts
from app.admission.review import Request, written_object
from app.appwrappers.admission.checking import AppWrapperCheck
from app.appwrappers.admission.entitlement import Access, Entitlement
from app.appwrappers.admission.names import mapping
from app.appwrappers.admission.rights import text_of
from app.appwrappers.ancestors import managed_ancestor, resource_of
from app.appwrappers.model import APP_WRAPPERS, CREATOR, MOST_POD_SETS, QUEUE_NAME, USER, USER_ID, queue_of
from app.appwrappers.options import OperatorConfig, parse_config
from app.appwrappers.settings import AdmissionSettings
from app.kube.configuration import Configuration, data_of
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, controller_of
from app.pace import at_pace
from app.settings.source import settings_as
from app.wire import JSON, pointer

_WORKLOADS = "workloads.kueue.x-k8s.io"
_LABEL_BYTES = 63
_NOT_IN_LABELS = re.compile(r"[^A-Za-z0-9_.-]")


def review(context: Context) -> Parts:
    """What mutates and what validates; both follow the ConfigMap."""
    settings = settings_as(context.settings, AdmissionSettings)
    caches, name, strict = context.caches, settings.appwrapper_config, settings.appwrapper_strict
    config_maps = caches.cache(CONFIG_MAPS, data_of, only=(context.namespace, name))
    configuration = Configuration(config_maps, name=name, parse=parse_config, usual=OperatorConfig(), logs=context.logs)
    definitions = caches.cache(CUSTOM_RESOURCE_DEFINITIONS, _most_pod_sets, only=("", _WORKLOADS))
    access = Access(lambda: caches.client)
    entitlement = Entitlement(access, strict=strict, controller=settings.appwrapper_controller)
    check = AppWrapperCheck(
        configuration,
        entitlement,
        strict=strict,
        most=lambda: definitions.get("", _WORKLOADS) or MOST_POD_SETS,
        without_defaults=frozenset({EXEMPT, context.namespace}),
    )
    return Parts((_Defaulting(configuration, access, strict=strict),), (check,), configuration.problems, _injects)


def _injects(kind: str, name: str) -> bool:
    return (kind == "annotations" and name == CREATOR) or (kind == "fields" and name in _DEFAULTED)


def _most_pod_sets(definition: JSON) -> int:
    """The least that a served version of the definition allows; 0 where none says it."""
    counts = []
    for version in definition["spec"]["versions"]:
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for field in ("spec", "podSets"):
            schema = (schema.get("properties") or {}).get(field) or {}
        if version.get("served") and schema.get("maxItems"):
            counts.append(int(schema["maxItems"]))
    return min(counts, default=0)


class _Defaulting:
    """Neutral to everything but the creation of AppWrappers. With `strict`, who creates one is kept in it."""

    name = "appwrapper-defaults"

    def __init__(self, configuration: Configuration[OperatorConfig], access: Access, *, strict: bool) -> None:
        self._configuration, self._access, self._strict = configuration, access, strict

    def inject(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None:
        """Raises Denied where the object cannot be read; what is wrong in it is found by the check.

        Raises Transient where it has to be known what the object belongs to, and the API server cannot be asked.
        """
        if (request.kind.group, request.kind.kind) != (APP_WRAPPERS.group, APP_WRAPPERS.kind):
            return None
        request.check_proven()
        obj = written_object(request, reason="InvalidAppWrapper")
        if obj is None or request.operation != "CREATE":
            return None
        owner = controller_of(mapping(obj, "metadata"))
        queue = self._configuration.current.default_queue_name
        if not (queue or queue_of(obj)) or (resource_of(owner) is not None and _has_to_wait(obj, queue=queue)):
            return self._inject_queued(request, obj, owner, plan)
        self._inject(request, obj, plan, queue=queue)
        return None

    async def _inject_queued(self, request: Request, obj: JSON, owner: JSON, plan: MutationPlan) -> None:
        """The same, where the queue of the namespace or an owner decides."""
        queue, child = self._configuration.current.default_queue_name, False
        unnamed = not (queue or queue_of(obj))
        if unnamed:
            # Kueue gives its default queue to the kinds that it manages itself. Without it the Pods would bypass quota.
            queue = await self._access.default_queue(request.namespace)
        if resource_of(owner) is not None and (_has_to_wait(obj, queue=queue) or (unnamed and queue)):
            child = await self._belongs(owner, request.namespace)
        if child and unnamed:
            queue = ""
        await at_pace(partial(self._inject, request, obj, plan, queue=queue, child=child))

    async def _belongs(self, owner: JSON, namespace: str) -> bool:
        """Whether it belongs to an object that Kueue manages."""
        unqueued = self._configuration.current.manage_jobs_without_queue_name
        return (
            await managed_ancestor(
                owner, namespace, self._access.ancestor, managed=lambda ancestor: bool(ancestor.queue) or unqueued
            )
            is not None
        )

    def _inject(self, request: Request, obj: JSON, plan: MutationPlan, *, queue: str, child: bool = False) -> None:
        user = request.user_info
        defaulted = defaults(
            obj,
            user=user.username,
            uid=user.uid,
            # An annotation that another client has written is replaced: strict admission would trust it later.
            creator=text_of(user) if self._strict or _has_creator(obj) else "",
            queue=queue,
            child=child,
        )
        for default in defaulted:
            where, holder = pointer(*default.section), obj
            for segment in default.section:
                holder = mapping(holder, segment)
            plan.patch.ensure(where, {}, present=bool(holder) or default.section == ("spec",), reason=default.reason)
            plan.patch.add(where + pointer(default.field), default.value, reason=default.reason)
            plan.count("appwrapper-default")
            plan.reason = plan.reason or "Defaulted"


def _has_creator(obj: JSON) -> bool:
    return CREATOR in mapping(mapping(obj, "metadata"), "annotations")


_DEFAULTED = frozenset({"/spec/suspend", *(pointer("metadata", "labels", key) for key in (USER, USER_ID, QUEUE_NAME))})
"""The fields of `defaults` beside the annotation."""


class Default(NamedTuple):
    """The value for a field: in labels and annotations of the metadata, or in the spec."""

    section: tuple[str, ...]
    field: str
    value: str | bool
    reason: str


def defaults(obj: JSON, *, user: str, uid: str, creator: str, queue: str, child: bool = False) -> Iterator[Default]:
    """What differs from what the object has. `creator` is who created it, as an annotation; "" for none of these.

    `queue` is that of an object without one. A `child` belongs to an object that Kueue manages, and does not wait.
    """
    metadata = mapping(obj, "metadata")
    labels, annotations = mapping(metadata, "labels"), mapping(metadata, "annotations")
    for name, text in ((USER, user), (USER_ID, uid)):
        if labels.get(name) != label_value(text):
            yield Default(("metadata", "labels"), name, label_value(text), "who created it")
    if creator and annotations.get(CREATOR) != creator:
        yield Default(("metadata", "annotations"), CREATOR, creator, "who created it")
    if queue_of(obj) and QUEUE_NAME not in labels:
        yield Default(("metadata", "labels"), QUEUE_NAME, queue_of(obj), "the queue of the annotation")
    elif queue and not queue_of(obj):
        yield Default(("metadata", "labels"), QUEUE_NAME, queue, "the default queue")
    if not child and _has_to_wait(obj, queue=queue):
        yield Default(("spec",), "suspend", True, f"waits for queue {queue_of(obj) or queue}")


def _has_to_wait(obj: JSON, *, queue: str) -> bool:
    """Whether one that is not suspended has a queue, or gets this one."""
    spec = obj.get("spec")
    return bool(queue_of(obj) or queue) and isinstance(spec, dict) and spec.get("suspend") is not True


def label_value(text: str) -> str:
    """The beginning of a text in the characters that a label value may have, as AppWrapper v1.2 writes it."""
    start = text.encode(errors="replace")[:_LABEL_BYTES].decode(errors="replace")
    return _NOT_IN_LABELS.sub("_", start).strip("-_.")
