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
from app.appwrappers.admission.templates import misplaced_keys, uncounted
from app.appwrappers.admission.updates import decided_by_queue, decides_what_runs, same, update_problems
from app.appwrappers.config import OperatorConfig
from app.appwrappers.model import APP_WRAPPERS, CREATOR, queue_of
from app.appwrappers.podsets.inference import counted
from app.appwrappers.sizes import count_problems
from app.kube.configuration import Configuration
from app.wire import JSON

_REASON = "InvalidAppWrapper"


class _Found(NamedTuple):
    """What an AppWrapper itself says.

    `passing` are the problems of a user who may not admit AppWrappers, `deciding` the changed fields that decide what
    runs.
    """

    problems: list[str]
    warnings: list[str]
    passing: list[str]
    deciding: Sequence[str] = ()
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
        request.check_proven()
        obj = written_object(request, reason=_REASON)
        if obj is None:
            return None
        old = old_object(request, reason=_REASON)
        return self._created(request, obj, plan) if old is None else self._changed(request, obj, old, plan)

    def _created(self, request: Request, obj: JSON, plan: Plan) -> Awaitable[None]:
        """What the object itself says; the rest has to be asked."""
        metadata, spec = mapping(obj, "metadata"), obj.get("spec")
        refuse(list(count_problems(_components(spec))), reason=_REASON)  # before it asks for rights to each of them
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
            warnings += [*uncounted(spec), *fields, *misplaced_keys(obj)]
        components = _components(spec) if readable else []
        passing = _unadmitted(request.user_info, obj, {}) if self._strict else []
        return self._ask_created(request, obj, _Found(problems, warnings, passing, (), components), plan)

    async def _ask_created(self, request: Request, obj: JSON, found: _Found, plan: Plan) -> None:
        problems = [*found.problems, *await self._unentitled(request.user_info, obj.get("spec"), request.namespace)]
        if found.passing:
            problems += [] if await self._may_admit(request, obj) else found.passing
        refuse(list(dict.fromkeys(problems)), reason=_REASON)
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
        deciding = list(decides_what_runs(obj, old)) if self._strict else []
        passing = _unadmitted(request.user_info, obj, old) if deciding else []
        return self._ask_changed(request, obj, old, _Found(problems, warnings, passing, deciding), plan)

    async def _ask_changed(self, request: Request, obj: JSON, old: JSON, found: _Found, plan: Plan) -> None:
        problems = list(found.problems)
        if found.deciding:
            problems += await self._unentitled_change(request, obj, old, found, plan)
        refuse(list(dict.fromkeys(problems)), reason=_REASON)
        plan.warnings += found.warnings

    def _annotation_warnings(self, metadata: JSON) -> list[str]:
        defaults = self._configuration.current.fault_tolerance
        return list(annotation_warnings(mapping(metadata, "annotations"), defaults))

    async def _unentitled_change(self, request: Request, obj: JSON, old: JSON, found: _Found, plan: Plan) -> list[str]:
        """The rights that are missing to the user who changes what runs, and to the creator of what is to run."""
        user, admits = request.user_info, await self._may_admit(request, obj)
        problems = [] if admits else list(found.passing)
        if not admits and (missing := await self._unentitled(user, obj.get("spec"), request.namespace)):
            problems += [*missing, f"{', '.join(found.deciding)}: takes these rights, since it decides what runs"]
        if mapping(old, "spec").get("suspend") is True and mapping(obj, "spec").get("suspend") is not True:
            if CREATOR not in mapping(mapping(obj, "metadata"), "annotations"):
                plan.warnings.append("spec.suspend: the creator is not known: no rights of a creator are checked")
            problems += await self._unentitled_creator(user, obj, request.namespace, asked=not admits)
        return problems

    async def _unentitled(self, user: UserInfo, spec: Any, namespace: str) -> list[str]:
        if not self._configuration.current.user_rbac_admission_check:
            return []
        return await self._entitlement.problems(user, _components(spec), namespace)

    async def _unentitled_creator(self, user: UserInfo, obj: JSON, namespace: str, *, asked: bool) -> list[str]:
        """Ask again for who created it, as far as that is known: it may be one from before admission was strict.

        A `user` who created it is in the groups that the request says, and need not be asked twice. For all others the
        groups of the creation count: an API server knows the groups of no user but the one who asks.
        """
        text = mapping(mapping(obj, "metadata"), "annotations").get(CREATOR)
        if not isinstance(text, str):
            return []
        try:
            creator = creators.read(text)
        except ValueError as error:
            return [f"metadata.annotations[{CREATOR}]: {error}"]
        if (creator.username, creator.uid) != (user.username, user.uid):
            return await self._unentitled(creator, obj.get("spec"), namespace)
        return [] if asked else await self._unentitled(user, obj.get("spec"), namespace)

    async def _may_admit(self, request: Request, obj: JSON) -> bool:
        name = request.name or str(mapping(obj, "metadata").get("name") or "")
        return await self._entitlement.may_admit(request.user_info, request.namespace, name)


def _unadmitted(user: UserInfo, obj: JSON, old: JSON) -> list[str]:
    """A problem for each field by which one with a queue passes by it, for a user who may not admit AppWrappers."""
    return [
        f"{field}: want the verb admit on {APP_WRAPPERS.plural}.{APP_WRAPPERS.group}, "
        f"which user {user.username} has not: the queue {queue_of(obj) or queue_of(old)} decides it"
        for field in decided_by_queue(obj, old)
    ]


def _components(spec: Any) -> list[JSON]:
    found = spec.get("components") if isinstance(spec, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
