"""Checks AppWrappers when they are written: what could only fail later, and what their users may not have.

Facts: the rules, and what may not change, are those of AppWrapper v1.2. `strict` adds to them: docs/appwrappers.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from app.admission.chain import Plan, refuse
from app.admission.review import Request, UserInfo, old_object, written_object
from app.appwrappers.admission import creators
from app.appwrappers.admission.components import component_problems
from app.appwrappers.admission.entitlement import Entitlement
from app.appwrappers.admission.names import annotation_warnings, label_problems, mapping, name_problems
from app.appwrappers.admission.templates import uncounted, unknown_fields
from app.appwrappers.admission.updates import same, update_problems
from app.appwrappers.config import OperatorConfig
from app.appwrappers.model import APP_WRAPPERS, CREATOR, QUEUE_NAME
from app.appwrappers.podsets.inference import pod_sets_of
from app.appwrappers.sizes import count_problems
from app.kube.configuration import Configuration
from app.wire import JSON

_REASON = "InvalidAppWrapper"


class AppWrapperCheck:
    """Neutral to everything but AppWrappers. `most` says how many podSets a Workload may have.

    `without_defaults` are namespaces in which nothing is given to new objects, so no creator either.
    """

    def __init__(
        self,
        configuration: Configuration[OperatorConfig],
        entitlement: Entitlement,
        *,
        strict: bool,
        most: Callable[[], int],
        without_defaults: frozenset[str] = frozenset(),
    ) -> None:
        self._configuration, self._entitlement = configuration, entitlement
        self._strict, self._most, self._without_defaults = strict, most, without_defaults

    def check(self, request: Request, plan: Plan) -> Awaitable[None] | None:
        """Raises Denied with every problem, Transient where the API server cannot be asked for rights."""
        if (request.kind.group, request.kind.kind) != (APP_WRAPPERS.group, APP_WRAPPERS.kind):
            return None
        obj = written_object(request, reason=_REASON)
        if obj is None:
            return None
        old = old_object(request, reason=_REASON)
        return self._created(request, obj, plan) if old is None else self._changed(request, obj, old, plan)

    async def _created(self, request: Request, obj: JSON, plan: Plan) -> None:
        metadata, spec = mapping(obj, "metadata"), obj.get("spec")
        refuse(list(count_problems(_components(spec))), reason=_REASON)  # before it asks for rights to each of them
        name = str(metadata.get("name") or request.name or "")
        problems = list(component_problems(spec, name=name, namespace=request.namespace, most=self._most()))
        readable = not problems
        problems += name_problems(metadata, _pod_sets(spec))
        problems += label_problems(mapping(metadata, "labels"))
        problems += await self._unentitled(request.user_info, spec, request.namespace)
        problems += await self._unadmitted(request, obj, {})
        creator = mapping(metadata, "annotations").get(CREATOR)
        wanted = self._strict and request.namespace not in self._without_defaults
        if (wanted or creator is not None) and creator != creators.text_of(request.user_info):
            problems.append(f"metadata.annotations[{CREATOR}]: Berth alone writes it")
        refuse(problems, reason=_REASON)
        plan.warnings += annotation_warnings(
            mapping(metadata, "annotations"), self._configuration.current.fault_tolerance
        )
        if readable and isinstance(spec, dict):
            plan.warnings += [*uncounted(spec), *unknown_fields(spec)]
            plan.warnings += await self._entitlement.warnings(_components(spec), request.namespace)

    async def _changed(self, request: Request, obj: JSON, old: JSON, plan: Plan) -> None:
        metadata = mapping(obj, "metadata")
        # What was wrong before must not keep the controller, or its user, from changing anything else.
        known = set(label_problems(mapping(mapping(old, "metadata"), "labels")))
        problems = list(update_problems(obj, old))
        problems += [one for one in label_problems(mapping(metadata, "labels")) if one not in known]
        problems += await self._unadmitted(request, obj, old)
        spec, before = mapping(obj, "spec"), mapping(old, "spec")
        if self._strict and before.get("suspend") is True and spec.get("suspend") is not True:
            problems += await self._unentitled_creator(obj, request.namespace)
            if CREATOR not in mapping(metadata, "annotations"):
                plan.warnings.append("spec.suspend: the creator is not known: no rights of a creator are checked")
        refuse(problems, reason=_REASON)
        if not same(mapping(metadata, "annotations"), mapping(mapping(old, "metadata"), "annotations")):
            plan.warnings += annotation_warnings(
                mapping(metadata, "annotations"), self._configuration.current.fault_tolerance
            )

    async def _unentitled(self, user: UserInfo, spec: Any, namespace: str) -> list[str]:
        if not self._configuration.current.user_rbac_admission_check:
            return []
        return await self._entitlement.problems(user, _components(spec), namespace)

    async def _unentitled_creator(self, obj: JSON, namespace: str) -> list[str]:
        """Ask again for who created it, as far as that is known: it may be one from before admission was strict."""
        text = mapping(mapping(obj, "metadata"), "annotations").get(CREATOR)
        if not isinstance(text, str):
            return []
        try:
            user = creators.read(text)
        except ValueError as error:
            return [f"metadata.annotations[{CREATOR}]: {error}"]
        return await self._unentitled(user, obj.get("spec"), namespace)

    async def _unadmitted(self, request: Request, obj: JSON, old: JSON) -> list[str]:
        """Fields that decide whether one with a queue runs, where who changes them may not admit AppWrappers."""
        if not self._strict:
            return []
        changed = _admitting(obj, old)
        if not changed:
            return []
        name = request.name or str(mapping(obj, "metadata").get("name") or "")
        if await self._entitlement.may_admit(request.user_info, request.namespace, name):
            return []
        queue = _queue(obj) or _queue(old)
        return [
            f"{field}: want the verb admit on {APP_WRAPPERS.plural}.{APP_WRAPPERS.group}, "
            f"which user {request.user_info.username} has not: the queue {queue} decides it"
            for field in changed
        ]


def _admitting(obj: JSON, old: JSON) -> list[str]:
    """The fields that are said otherwise than before, or than one says that waits; none without a queue."""
    if not (_queue(obj) or _queue(old)):
        return []
    spec, before = mapping(obj, "spec"), mapping(old, "spec")
    found = ["spec.suspend"] if bool(spec.get("suspend")) != (bool(before.get("suspend")) if old else True) else []
    infos = [one.get("podSetInfos") or None for one in _components(spec)]
    earlier = [one.get("podSetInfos") or None for one in _components(before)] if old else [None] * len(infos)
    if not same(infos, earlier):
        found.append("spec.components[].podSetInfos")
    if _queue(old) and not _queue(obj):
        found.append(f"metadata.labels[{QUEUE_NAME}]")
    return found


def _queue(obj: JSON) -> str:
    return str(mapping(mapping(obj, "metadata"), "labels").get(QUEUE_NAME) or "")


def _components(spec: Any) -> list[JSON]:
    found = spec.get("components") if isinstance(spec, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _pod_sets(spec: Any) -> int:
    """How many there are, as far as can be seen."""
    total = 0
    for component in _components(spec):
        try:
            total += len(pod_sets_of(component))
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # the component's own problem says what is wrong
    return total
