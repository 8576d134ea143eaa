"""Checks AppWrappers when they are written: what could only fail later, and what their users may not have.

Facts: the rules, and what may not change, are those of AppWrapper v1.2. `strict` adds to them: docs/appwrappers.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from app.admission.chain import Plan, refuse
from app.admission.review import Request, UserInfo, old_object, written_object
from app.appwrappers.admission import creators
from app.appwrappers.admission.components import component_problems
from app.appwrappers.admission.entitlement import Entitlement
from app.appwrappers.admission.names import annotation_warnings, label_problems, mapping, name_problems
from app.appwrappers.admission.templates import uncounted
from app.appwrappers.admission.updates import same, update_problems
from app.appwrappers.config import OperatorConfig
from app.appwrappers.model import APP_WRAPPERS, CREATOR, QUEUE_NAME
from app.appwrappers.podsets.inference import counted
from app.kube.configuration import Configuration
from app.wire import JSON

_REASON = "InvalidAppWrapper"


class _Found(NamedTuple):
    """What an AppWrapper itself says: `admitting` are the changed fields that decide whether it runs."""

    problems: list[str]
    warnings: list[str]
    admitting: list[str]
    components: Sequence[JSON] = ()


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

    def _created(self, request: Request, obj: JSON, plan: Plan) -> Awaitable[None]:
        """What the object itself says; the rest has to be asked."""
        metadata, spec = mapping(obj, "metadata"), obj.get("spec")
        name = str(metadata.get("name") or request.name or "")
        fields: list[str] = []
        found = component_problems(spec, name=name, namespace=request.namespace, most=self._most(), warnings=fields)
        problems = list(found)
        readable = not problems
        problems += name_problems(metadata, sum(map(counted, _components(spec))))
        problems += label_problems(mapping(metadata, "labels"))
        creator = mapping(metadata, "annotations").get(CREATOR)
        wanted = self._strict and request.namespace not in self._without_defaults
        if (wanted or creator is not None) and creator != creators.text_of(request.user_info):
            problems.append(f"metadata.annotations[{CREATOR}]: Berth alone writes it")
        warnings = self._annotation_warnings(metadata)
        if readable and isinstance(spec, dict):
            warnings += [*uncounted(spec), *fields]
        components = _components(spec) if readable else []
        return self._ask_created(request, obj, _Found(problems, warnings, self._admitting(obj, {}), components), plan)

    async def _ask_created(self, request: Request, obj: JSON, found: _Found, plan: Plan) -> None:
        problems = [*found.problems, *await self._unentitled(request.user_info, obj.get("spec"), request.namespace)]
        problems += await self._unadmitted(request, obj, {}, found.admitting)
        refuse(problems, reason=_REASON)
        plan.warnings += found.warnings
        if found.components:
            plan.warnings += await self._entitlement.warnings(found.components, request.namespace)

    def _changed(self, request: Request, obj: JSON, old: JSON, plan: Plan) -> Awaitable[None]:
        metadata = mapping(obj, "metadata")
        # What was wrong before must not keep the controller, or its user, from changing anything else.
        known = set(label_problems(mapping(mapping(old, "metadata"), "labels")))
        problems = list(update_problems(obj, old))
        problems += [one for one in label_problems(mapping(metadata, "labels")) if one not in known]
        before = mapping(mapping(old, "metadata"), "annotations")
        warnings = [] if same(mapping(metadata, "annotations"), before) else self._annotation_warnings(metadata)
        return self._ask_changed(request, obj, old, _Found(problems, warnings, self._admitting(obj, old)), plan)

    async def _ask_changed(self, request: Request, obj: JSON, old: JSON, found: _Found, plan: Plan) -> None:
        problems = [*found.problems, *await self._unadmitted(request, obj, old, found.admitting)]
        spec, before = mapping(obj, "spec"), mapping(old, "spec")
        if self._strict and before.get("suspend") is True and spec.get("suspend") is not True:
            problems += await self._unentitled_creator(obj, request.namespace)
            if CREATOR not in mapping(mapping(obj, "metadata"), "annotations"):
                plan.warnings.append("spec.suspend: the creator is not known: no rights of a creator are checked")
        refuse(problems, reason=_REASON)
        plan.warnings += found.warnings

    def _annotation_warnings(self, metadata: JSON) -> list[str]:
        defaults = self._configuration.current.fault_tolerance
        return list(annotation_warnings(mapping(metadata, "annotations"), defaults))

    def _admitting(self, obj: JSON, old: JSON) -> list[str]:
        return _admitting(obj, old) if self._strict else []

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

    async def _unadmitted(self, request: Request, obj: JSON, old: JSON, changed: list[str]) -> list[str]:
        """The changed fields, which decide whether one with a queue runs, where the user may not admit AppWrappers."""
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
