"""Checks AppWrappers when they are written: what could only fail later, and what their users may not have.

An update may not change some fields; changes of others decide what runs, and where. Facts: the rules, and what may not
change, are those of AppWrapper v1.2. `strict` adds to them: docs/appwrappers.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, NamedTuple

from app.admission.chain import MutationPlan, refuse
from app.admission.review import Request, UserInfo, old_object, written_object
from app.appwrappers.admission import rights
from app.appwrappers.admission.components import component_problems
from app.appwrappers.admission.entitlement import Entitlement
from app.appwrappers.admission.names import (
    MAX_EXEC_TIME,
    PREBUILT,
    annotation_warnings,
    label_problems,
    mapping,
    name_problems,
)
from app.appwrappers.admission.templates import misplaced_keys, uncounted
from app.appwrappers.model import APP_WRAPPERS, CREATOR, QUEUE_NAME, USER, USER_ID, queue_of
from app.appwrappers.options import OperatorConfig
from app.appwrappers.podsets.inference import counted
from app.appwrappers.sizes import count_problems
from app.kube.configuration import Configuration
from app.kube.resources import controller_of
from app.pace import step
from app.wire import JSON, encode_json, encode_sorted

_REASON = "InvalidAppWrapper"
_IMMUTABLE = "attempt to change immutable field"
_KUEUE = "kueue.x-k8s.io"
SUSPEND, POD_SETS, POD_SET_INFOS = "spec.suspend", "spec.components[].podSets", "spec.components[].podSetInfos"
OWNER = "metadata.ownerReferences"


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

    def check(self, request: Request, plan: MutationPlan) -> Awaitable[None] | None:
        """Raises Denied with every problem, Transient where the API server cannot be asked for rights."""
        if (request.kind.group, request.kind.kind) != (APP_WRAPPERS.group, APP_WRAPPERS.kind):
            return None
        request.check_proven()
        obj = written_object(request, reason=_REASON)
        if obj is None:
            return None
        old = old_object(request, reason=_REASON)
        return self._created(request, obj, plan) if old is None else self._changed(request, obj, old, plan)

    def _created(self, request: Request, obj: JSON, plan: MutationPlan) -> Awaitable[None]:
        """What the object itself says; the rest has to be asked."""
        metadata, spec = mapping(obj, "metadata"), obj.get("spec")
        refuse(list(count_problems(_components(spec))), reason=_REASON)  # before it asks for rights to each of them
        name = str(metadata.get("name") or request.name or "")
        fields: list[str] = []
        faults = component_problems(spec, name=name, namespace=request.namespace, most=self._most(), warnings=fields)
        problems = list(faults)
        readable = not problems
        problems += name_problems(metadata, sum(map(counted, _components(spec))))
        problems += label_problems(mapping(metadata, "labels"))
        creator = mapping(metadata, "annotations").get(CREATOR)
        defaulted = self._strict and request.namespace not in self._without_defaults
        if (defaulted or creator is not None) and creator != rights.text_of(request.user_info):
            problems.append(f"metadata.annotations[{CREATOR}]: Berth alone writes it")
        warnings = self._annotation_warnings(metadata)
        if readable and isinstance(spec, dict):
            warnings += [*uncounted(spec), *fields, *misplaced_keys(obj)]
        components = _components(spec) if readable else []
        passing = _unadmitted(request.user_info, obj, {}) if self._strict else []
        return self._ask_created(request, obj, _Found(problems, warnings, passing, (), components), plan)

    async def _ask_created(self, request: Request, obj: JSON, findings: _Found, plan: MutationPlan) -> None:
        problems = [*findings.problems, *await self._unentitled(request.user_info, obj.get("spec"), request.namespace)]
        if findings.passing:
            problems += [] if await self._may_admit(request, obj) else findings.passing
        refuse(list(dict.fromkeys(problems)), reason=_REASON)
        plan.warnings += findings.warnings
        if findings.components:
            plan.warnings += await self._entitlement.warnings(findings.components, request.namespace)

    def _changed(self, request: Request, obj: JSON, old: JSON, plan: MutationPlan) -> Awaitable[None]:
        metadata = mapping(obj, "metadata")
        # What was wrong before must not keep the controller, or its user, from changing anything else.
        earlier = set(label_problems(mapping(mapping(old, "metadata"), "labels")))
        problems = list(update_problems(obj, old))
        problems += [problem for problem in label_problems(mapping(metadata, "labels")) if problem not in earlier]
        before = mapping(mapping(old, "metadata"), "annotations")
        warnings = [] if same(mapping(metadata, "annotations"), before) else self._annotation_warnings(metadata)
        deciding = list(decides_what_runs(obj, old)) if self._strict else []
        passing = _unadmitted(request.user_info, obj, old) if deciding else []
        return self._ask_changed(request, obj, old, _Found(problems, warnings, passing, deciding), plan)

    async def _ask_changed(self, request: Request, obj: JSON, old: JSON, findings: _Found, plan: MutationPlan) -> None:
        problems = list(findings.problems)
        if findings.deciding:
            problems += await self._unentitled_change(request, obj, old, findings, plan)
        refuse(list(dict.fromkeys(problems)), reason=_REASON)
        plan.warnings += findings.warnings

    def _annotation_warnings(self, metadata: JSON) -> list[str]:
        defaults = self._configuration.current.fault_tolerance
        return list(annotation_warnings(mapping(metadata, "annotations"), defaults))

    async def _unentitled_change(
        self, request: Request, obj: JSON, old: JSON, findings: _Found, plan: MutationPlan
    ) -> list[str]:
        """The rights that are missing to the user who changes what runs, and to the creator of what is to run."""
        user, admits = request.user_info, await self._may_admit(request, obj)
        problems = [] if admits else list(findings.passing)
        if not admits and (missing := await self._unentitled(user, obj.get("spec"), request.namespace)):
            problems += [*missing, f"{', '.join(findings.deciding)}: takes these rights, since it decides what runs"]
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
            creator = rights.read(text)
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
    components = spec.get("components") if isinstance(spec, dict) else None
    return (
        [component for component in components if isinstance(component, dict)] if isinstance(components, list) else []
    )


def update_problems(new: JSON, old: JSON) -> Iterator[str]:
    """All immutable fields that differ, each with what it is to stay."""
    after, before = mapping(new, "spec"), mapping(old, "spec")
    if (after.get("managedBy") or None) != (before.get("managedBy") or None):
        yield f"spec.managedBy: {_IMMUTABLE}: want {before.get('managedBy')!r}, got {after.get('managedBy')!r}"
    yield from _labels(mapping(new, "metadata"), mapping(old, "metadata"), running=not after.get("suspend"))
    components, earlier = _objects(after.get("components")), _objects(before.get("components"))
    if len(components) != len(earlier):
        yield f"spec.components: {_IMMUTABLE}: want {len(earlier)} components, got {len(components)}"
        return
    for index, (component, was) in enumerate(zip(components, earlier, strict=True)):
        step()
        yield from _component(component, was, f"spec.components[{index}]")


def decided_by_queue(new: JSON, old: JSON) -> Iterator[str]:
    """The fields by which one with a queue passes by the queue; none without a queue.

    An `old` one that is empty stands for one that waits.
    """
    if not (queue_of(new) or queue_of(old)):
        return
    if bool(mapping(new, "spec").get("suspend")) != (bool(mapping(old, "spec").get("suspend")) if old else True):
        yield SUSPEND
    if not same(_of_components(new, "podSetInfos"), _of_components(old, "podSetInfos")):
        yield POD_SET_INFOS
    if queue_of(old) and not queue_of(new):
        yield f"metadata.labels[{QUEUE_NAME}]"
    if old and _gains_owner(new, old):
        yield OWNER


def decides_what_runs(new: JSON, old: JSON) -> Iterator[str]:
    """All fields that differ and decide whether components are created, with what, and where; templates never change.

    What Kueue reads has keys of its domain. Annotations for retries, graces and the like decide nothing of that.
    """
    if bool(mapping(new, "spec").get("suspend")) != bool(mapping(old, "spec").get("suspend")):
        yield SUSPEND
    for path, field in ((POD_SETS, "podSets"), (POD_SET_INFOS, "podSetInfos")):
        if not same(_of_components(new, field), _of_components(old, field)):
            yield path
    for section in ("labels", "annotations"):
        after, before = (mapping(mapping(obj, "metadata"), section) for obj in (new, old))
        for key in sorted({*after, *before}):
            if _is_of_kueue(key) and (after.get(key) or "") != (before.get(key) or ""):
                yield f"metadata.{section}[{key}]"
    if _gains_owner(new, old):
        yield OWNER


def _of_components(obj: JSON, field: str) -> list[Any]:
    """The values of a field, without those that are empty at the end."""
    values = [component.get(field) or None for component in _objects(mapping(obj, "spec").get("components"))]
    while values and values[-1] is None:
        values.pop()
    return values


def _gains_owner(new: JSON, old: JSON) -> bool:
    """Whether it belongs to another object: Kueue may take it for a part of that. One without an owner waits itself."""
    after, before = (controller_of(mapping(obj, "metadata")).get("uid") for obj in (new, old))
    return bool(after) and after != before


def _is_of_kueue(key: str) -> bool:
    domain = key.partition("/")[0]
    return domain == _KUEUE or domain.endswith(f".{_KUEUE}")


def _labels(new: JSON, old: JSON, *, running: bool) -> Iterator[str]:
    after, before = mapping(new, "labels"), mapping(old, "labels")
    fixed = (USER, USER_ID, *((QUEUE_NAME, MAX_EXEC_TIME, PREBUILT) if running else ()))
    for name in fixed:
        # An empty label is none, as Kueue reads its own.
        if (after.get(name) or "") != (before.get(name) or ""):
            why = "" if name in (USER, USER_ID) else "; suspend the AppWrapper first"
            yield f"metadata.labels[{name}]: {_IMMUTABLE}: want {before.get(name)!r}, got {after.get(name)!r}{why}"
    if mapping(new, "annotations").get(CREATOR) != mapping(old, "annotations").get(CREATOR):
        yield f"metadata.annotations[{CREATOR}]: {_IMMUTABLE}: Berth alone writes it"


def _component(new: JSON, old: JSON, path: str) -> Iterator[str]:
    if not same(new.get("template"), old.get("template")):
        yield f"{path}.template: {_IMMUTABLE}: create another AppWrapper instead"
    after, before = _objects(new.get("podSets")), _objects(old.get("podSets"))
    if len(after) != len(before):
        yield f"{path}.podSets: {_IMMUTABLE}: want {len(before)} podSets, got {len(after)}"
        return
    for index, (pod_set, was) in enumerate(zip(after, before, strict=True)):
        step()
        if _replicas(pod_set) != _replicas(was):
            yield f"{path}.podSets[{index}].replicas: {_IMMUTABLE}: want {_replicas(was)}, got {_replicas(pod_set)}"
        if pod_set.get("path") != was.get("path"):
            yield f"{path}.podSets[{index}].path: {_IMMUTABLE}: want {was.get('path')!r}, got {pod_set.get('path')!r}"


def _objects(value: Any) -> list[JSON]:
    """The objects of a list; the schema lets no others be stored."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _replicas(pod_set: JSON) -> Any:
    replicas = pod_set.get("replicas")
    return 1 if replicas is None else replicas


def same(new: Any, old: Any) -> bool:
    """Whether two values mean the same; what is nested hundreds of levels deep has to be written alike.

    The order of members, members that are null, and 1 for 1.0 make no difference. Texts are compared as they are
    written, so quantities as well.
    """
    if encode_json(new) == encode_json(old):
        return True
    try:
        return encode_sorted(_plain(new)) == encode_sorted(_plain(old))
    except RecursionError:
        return False


def _plain(value: Any) -> Any:
    """The value without members that are null, and with 1 for 1.0."""
    if isinstance(value, dict):
        step(1 + len(value))
        return {key: _plain(below) for key, below in value.items() if below is not None}
    if isinstance(value, list):
        step(1 + len(value))
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
