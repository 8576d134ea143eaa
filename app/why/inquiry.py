"""Answers the questions of judges from a cluster, and from objects that are not in it yet.

What is read is read once, links are followed until they come back to where they began, and what may not be read is
noted beside the verdict and hides nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, assert_never

from app.doctor.cluster import Cluster
from app.doctor.model import Finding, internal, unchecked, warning
from app.doctor.objects import Object, named, seen_at, waits_for
from app.errors import ApiError
from app.kube.resources import EVENTS, PODS, Resource
from app.registry import WINGS
from app.why import groups, installation, owners, pods
from app.why.model import (
    Asking,
    Events,
    Get,
    Judge,
    Judged,
    List,
    Once,
    Question,
    Read,
    Unread,
    Verdict,
    combined,
    waits,
)
from app.why.standing import by_conditions, describe
from app.wire import JSON
from app.wiring import resolve

T = TypeVar("T")
_Reference = tuple[Resource, str, str]
_Index = dict[tuple[str, str], list[Object]]
_SET = frozenset({"creationTimestamp", "deletionTimestamp", "generation", "managedFields"})
"""Metadata that an API server sets."""
_DEPTH = 8
"""Links that are followed one behind the other; real chains have five."""


def _all_judges() -> dict[Resource, tuple[Judge, ...]]:
    judges: dict[Resource, tuple[Judge, ...]] = {}
    for declared in (
        pods.JUDGES,
        groups.JUDGES,
        owners.JUDGES,
        installation.JUDGES,
        *(resolve(wing.why) for wing in WINGS if wing.why),
    ):
        for resource, judge in declared.items():
            judges[resource] = (*judges.get(resource, ()), judge)
    return judges


JUDGES: Mapping[Resource, tuple[Judge, ...]] = _all_judges()


@dataclass(frozen=True, slots=True)
class Link:
    """An object that a verdict was reached over: the one that asked, and the one asked for, as subjects."""

    source: str
    target: str
    found: bool


class Inquiry:
    """Verdicts on objects of one cluster. `objects` are there too, in place of those of their names.

    With `many`, objects are looked up in lists of the whole cluster: for one who judges all objects of a kind.
    """

    def __init__(self, cluster: Cluster, objects: Iterable[Object] = (), *, many: bool = False) -> None:
        self._cluster, self._many = cluster, many
        self._given = {(it.resource, it.namespace, it.name): it for it in objects}
        self._objects = dict(self._given)
        self._verdicts: dict[_Reference, Verdict | None] = {}
        self._indexes: dict[tuple[Resource, str], _Index | ApiError] = {}
        self._reads: dict[Any, Any] = {}
        self.refusals: dict[str, Finding] = {}
        """What could not be read or judged, each once, as the doctor says it; by its message."""
        self.links: dict[Link, None] = {}

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Object | None:
        """The object, None where there is none. Raises ApiError where it cannot be read."""
        if read := self._objects.get((resource, namespace, name)):
            return read
        obj = await self._cluster.get(resource, name, namespace=namespace or None)
        return None if obj is None else Object(resource, obj)

    async def verdict(self, it: Object, path: tuple[_Reference, ...] = ()) -> Verdict:
        """The verdict on an object: of those who know its kind; of its conditions where no judge does."""
        path, verdicts = (*path, (it.resource, it.namespace, it.name)), list[Verdict]()
        silent = False
        for judge in JUDGES.get(it.resource, ()):
            try:
                judgement = await self._follow(judge(it, self._cluster.now()), it, path)
            except Unread:
                silent = True
                continue
            except Exception as error:  # noqa: BLE001  the wall of a judge: one that fails must not hide what others see
                silent = True
                self._note(warning("BERTH0003", it, f"not judged: {internal(error)}"))
                continue
            if judgement is not None:
                verdicts.append(judgement)
        if not verdicts and silent:
            return waits("not judged", because=("what it rests on could not be read",), more=describe(it))
        return combined(verdicts) if verdicts else by_conditions(it, self._cluster.now())

    async def ask(self, asking: Asking[T]) -> T:
        """The answer to what is asked outside of a verdict. Raises Unread."""
        return await self._follow(asking, None, ())

    async def _follow(self, asking: Asking[T], it: Object | None, path: tuple[_Reference, ...]) -> T:
        try:
            question = next(asking)
            while True:
                try:
                    answer = await self._answer(question, it, path)
                except ApiError as error:
                    refusal = unchecked(error)
                    self._note(refusal)
                    question = asking.throw(Unread(refusal.message))
                except Unread as unread:  # of what is asked once for all
                    question = asking.throw(unread)
                else:
                    question = asking.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # what the generator returns is a T

    async def _answer(self, question: Question, it: Object | None, path: tuple[_Reference, ...]) -> Any:
        match question:
            case Get():
                obj = await self.find(question.resource, question.name, question.namespace)
                self._link(it, question.resource, question.name, question.namespace, found=obj is not None)
                return obj
            case List():
                return await self._listed(question)
            case Events():
                return await self._events(question.of)
            case Judged():
                return await self._judged(question, it, path)
            case Read():
                return await self._read(question)
            case Once():
                if question.key not in self._reads:
                    self._reads[question.key] = await self._follow(question.asking(), it, path)
                return self._reads[question.key]
            case _:
                assert_never(question)

    async def _judged(self, question: Judged, it: Object | None, path: tuple[_Reference, ...]) -> Verdict | None:
        reference = (question.resource, question.namespace, question.name)
        if question.obj is not None:
            return await self.verdict(new(question.resource, question.obj), path)
        if reference in path or len(path) >= _DEPTH:
            return None
        if reference not in self._verdicts:
            obj = await self.find(question.resource, question.name, question.namespace)
            self._verdicts[reference] = None if obj is None else await self.verdict(obj, path)
        verdict = self._verdicts[reference]
        self._link(it, question.resource, question.name, question.namespace, found=verdict is not None)
        return verdict

    async def _read(self, question: Read) -> Any:
        if question.key is None:
            return await question.read(self._cluster)
        if question.key not in self._reads:
            self._reads[question.key] = await question.read(self._cluster)
        return self._reads[question.key]

    async def _listed(self, question: List) -> list[Object]:
        resource, namespace = question.resource, question.namespace if question.resource.namespaced else ""
        selector = f"{question.label[0]}={question.label[1]}" if question.label else ""
        if self._many and (question.label or question.owner):
            return await self._looked_up(question)
        bodies = await self._cluster.listed(resource, namespace=namespace or None, label_selector=selector)
        objects = {(it.namespace, it.name): it for it in (Object(resource, body) for body in bodies)}
        for (kind, where, name), given in self._given.items():
            if kind == resource and (not namespace or where == namespace):
                objects[where, name] = given
        return [it for it in objects.values() if _fits(it, question)]

    async def _looked_up(self, question: List) -> list[Object]:
        """By an index over all objects of the kind, which is made once."""
        key = question.label[0] if question.label else ""
        index = self._indexes.get((question.resource, key))
        if index is None:
            index = self._indexes[question.resource, key] = await self._indexed(question.resource, key)
        if isinstance(index, ApiError):
            raise index
        value = question.label[1] if question.label else question.owner
        return [it for it in index.get((question.namespace, value), ()) if _fits(it, question)]

    async def _indexed(self, resource: Resource, key: str) -> _Index | ApiError:
        """All objects of the kind by their owners, or by the value of a label; a refusal is kept as one."""
        index: _Index = {}
        try:
            async for body in self._cluster.paged(resource, label_selector=key):
                if resource == PODS and waits_for(body) is None:
                    continue  # Pods that are well have nothing to say, and there are many
                it = Object(resource, body)
                self._objects.setdefault((it.resource, it.namespace, it.name), it)
                for value in [_labels(it).get(key, "")] if key else _owners(it):
                    index.setdefault((it.namespace, value), []).append(it)
        except ApiError as refusal:
            return refusal
        return index

    async def _events(self, it: Object) -> list[JSON]:
        uid = it.json["metadata"].get("uid")
        if not uid:
            return []
        bodies = self._cluster.paged(EVENTS, namespace=it.namespace or None, field_selector=f"involvedObject.uid={uid}")
        return sorted([body async for body in bodies], key=seen_at, reverse=True)

    def _link(self, it: Object | None, resource: Resource, name: str, namespace: str, *, found: bool) -> None:
        if it is not None:
            self.links[Link(it.subject, named(resource, name, namespace).subject, found)] = None

    @property
    def unread(self) -> tuple[str, ...]:
        """The same in words."""
        return tuple(
            f"{finding.subject}: {finding.message}" if finding.code == "BERTH0003" else finding.message
            for finding in self.refusals.values()
        )

    def _note(self, finding: Finding) -> None:
        self.refusals.setdefault(f"{finding.subject}: {finding.message}", finding)


def new(resource: Resource, obj: JSON) -> Object:
    """An object that does not exist yet, with empty texts where an API server would have set some."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _SET}
    body = {key: value for key, value in obj.items() if key != "status"}
    return Object(resource, {**body, "metadata": {**metadata, "uid": "", "resourceVersion": "0"}})


def _labels(it: Object) -> dict[str, str]:
    return it.json["metadata"].get("labels") or {}


def _owners(it: Object) -> list[str]:
    return [str(owner.get("uid")) for owner in it.json["metadata"].get("ownerReferences") or ()]


def _fits(it: Object, question: List) -> bool:
    if question.label and _labels(it).get(question.label[0]) != question.label[1]:
        return False
    return not question.owner or question.owner in _owners(it)
