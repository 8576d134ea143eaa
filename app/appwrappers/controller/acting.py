"""Creates, finds and deletes the objects of AppWrappers.

An object belongs to an AppWrapper where its controller is the one of that UID. Others are neither taken over nor
deleted. Absence, also of Pods, counts after a read from the API server, not from a cache.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace

import msgspec
import structlog

from app.appwrappers.admission import rights
from app.appwrappers.controller.caches import AppWrapperCaches, Kind, Kinds, belonging
from app.appwrappers.controller.objects import object_of
from app.appwrappers.controller.observing import Creation, Deletion
from app.appwrappers.controller.outcomes import Outcome, Pod, as_gone, outcome_of_the_gone, stored_pod
from app.appwrappers.controller.stored import AppWrapper, Component, stored_component
from app.appwrappers.model import APP_WRAPPER, CREATOR, DELETED, RESOURCES_DEPLOYED
from app.errors import ApiError, Transient
from app.kube.client import KubeClient, Page
from app.kube.conditions import condition, is_true
from app.kube.credentials import Impersonation
from app.kube.discovery import Discovery
from app.kube.names import check_label_value
from app.kube.resources import PODS
from app.kube.retry import every_item
from app.kube.walls import fault
from app.text import enumerated
from app.wire import JSON

log = structlog.get_logger(__name__)
_decode_extra = msgspec.json.Decoder(dict[str, tuple[str, ...]]).decode
_BEHIND = "the cache of Pods is behind"
_NAMED = 192
"""Characters of the finalizers that a remark names."""


class CacheFillsError(Transient):
    """The cache of a kind fills; the AppWrapper is looked at again when it has."""

    expected = True


class ChangedError(Transient):
    """What is wanted has changed since the step was decided; the AppWrapper is looked at again."""

    expected = True


class Objects:
    """With `impersonate`, objects are created as the users who created the AppWrappers, and all else as ourselves."""

    def __init__(
        self,
        client: KubeClient,
        caches: AppWrapperCaches,
        kinds: Kinds,
        discovery: Discovery,
        *,
        impersonate: bool = False,
    ) -> None:
        self._client, self._caches, self._kinds, self._discovery = client, caches, kinds, discovery
        self._impersonate = impersonate

    async def create(self, wrapper: AppWrapper) -> Creation:
        """Create what does not exist, in order, until one cannot be created. Raises ChangedError."""
        created: dict[int, str] = {}
        try:
            author = self._author(wrapper)
        except ValueError as error:
            return Creation(problem=str(error), unauthored=True)
        for index, status in enumerate(wrapper.component_statuses):
            if is_true(status, RESOURCES_DEPLOYED):
                continue
            present = self._caches.written.get(wrapper.key)
            if present is None or present.deleting or present.suspend:
                raise ChangedError("suspended or deleted while it was created", delay=0.0)
            try:
                created[index] = await self._create(wrapper, index, status, author)
            except ApiError as error:
                return Creation(created, index, str(error), fatal=error.rejected)
            except ValueError as error:
                return Creation(created, index, str(error), fatal=True)
            except (TypeError, AttributeError, KeyError, IndexError) as error:
                fault("appwrappers", "template not read", app_wrapper=wrapper.key, component=index)
                problem = f"spec.components[{index}].template: a field has not the type that its kind has: {error}"
                return Creation(created, index, problem, fatal=True)
        return Creation(created)

    def _author(self, wrapper: AppWrapper) -> Impersonation | None:
        """Who creates its objects, None for ourselves. Raises ValueError where that is not known."""
        if not self._impersonate:
            return None
        if not wrapper.creator:
            raise ValueError(
                f"the annotation {CREATOR} is missing: it was created without strict admission; create it again while "
                "the webhook runs with --appwrapper-strict"
            )
        try:
            return impersonation(wrapper.creator)
        except ValueError as error:
            raise ValueError(f"the annotation {CREATOR} names no user: {error}") from error

    async def _create(self, wrapper: AppWrapper, index: int, status: JSON, author: Impersonation | None) -> str:
        """The name of the object. Raises ValueError where it can never be created, ApiError where it cannot be now."""
        kind = await self._kind(status, filled=False)
        if kind is None:
            raise ValueError(_unserved(status))
        if not kind.resource.namespaced:
            raise ValueError(f"{status['kind']}: want a kind whose objects are in namespaces")
        key = (wrapper.key[0], str(status["name"]))
        component = kind.get(key)
        if component is None or component.owner != wrapper.uid or component.deleting:
            body = object_of(wrapper, index, self._caches.config, blocks=author is None)
            try:
                made = await self._client.create(kind.resource, body, namespace=key[0], acting_as=author)
            except ApiError as error:
                if error.unserved:
                    self._discovery.forget()
                    raise ValueError(_unserved(status)) from error
                if error.reason != "AlreadyExists":
                    raise
                await self._check(wrapper, kind, key[1])
            else:
                kind.written.wrote(key, stored_component(made))
        return key[1]

    async def _check(self, wrapper: AppWrapper, kind: Kind, name: str) -> None:
        """An object has the name: it may be ours, from a pass whose end is not recorded."""
        component = await self._get(kind, (wrapper.key[0], name))
        what = f"{kind.resource.plural} {name}"
        if component is not None and component.owner == wrapper.uid and not component.deleting:
            return
        if component is None or component.deleting or component.owner_name == wrapper.key[1]:
            raise ApiError(f"{what}: one from before is still being deleted", status=409, reason="AlreadyExists")
        raise ValueError(f"{what} exists, and belongs to another owner")

    async def observed(self, wrapper: AppWrapper) -> tuple[list[Outcome], str]:
        """The outcome of the object of each component, and what is wrong with those that are missing; "" if none is.

        What has ended is not missing when it is gone.
        """
        outcomes: list[Outcome] = []
        problems: list[str] = []
        for status in wrapper.component_statuses:
            what, remembered = f"{status['kind']} {status['name']}", outcome_of_the_gone(status)
            kind = await self._kind(status)
            component = await self._present(wrapper, kind, status["name"]) if kind else None
            if component is not None and not component.deleting:
                outcome = component.outcome
                if not outcome.ends and not outcome.ending and remembered.ending == "succeeded":
                    outcome = replace(outcome, ending="succeeded")  # its Pods may be cleaned up before it is
            else:
                last = self._last_seen(wrapper, kind, status["name"]) if component is None else component.outcome
                outcome = as_gone(last) if last is not None and last.ending else remembered
                if not outcome.ending:
                    served = kind is not None and await self._kind(status) is not None
                    state = (
                        "is being deleted" if component else "is gone" if served else f"is gone: {_unserved(status)}"
                    )
                    problems.append(f"{what} {state}")
            outcomes.append(replace(outcome, what=what))
        expected = len(outcomes)
        text = f"Only found {expected - len(problems)} deployed components, but was expecting {expected}"
        return outcomes, f"{text}: {enumerated(problems)}" if problems else ""

    def _last_seen(self, wrapper: AppWrapper, kind: Kind | None, name: str) -> Outcome | None:
        """The outcome of an object that had ended when the watch saw it go."""
        key = (kind.resource, (wrapper.key[0], name)) if kind else None
        return self._kinds.ended.get(wrapper.uid, {}).get(key) if key else None

    def watched(self, wrapper: AppWrapper) -> bool:
        """Whether every kind of the AppWrapper may be watched; else its objects are read now and then."""
        kinds = {(status["apiVersion"], status["kind"]) for status in wrapper.component_statuses}
        return all(kind.known for kind in self._kinds.all() if (kind.resource.api_version, kind.resource.kind) in kinds)

    async def delete(self, wrapper: AppWrapper, pods: list[Pod], *, force: bool) -> Deletion:
        """Delete what is left of the objects; with `force` their Pods at once, and then what is left without grace."""
        gone: dict[int, str] = {}
        left, problem = 0, ""
        pods = [pod for pod in pods if not pod.held]
        for index, status in enumerate(wrapper.component_statuses):
            if condition(status, RESOURCES_DEPLOYED).get("reason") == DELETED or not status["name"]:
                continue
            try:
                remark = await self._delete(wrapper, status, force=force and not pods)
            except ApiError as error:
                log.warning("cannot delete", app_wrapper=wrapper.key, name=status["name"], error=str(error))
                remark, problem = None, str(error)
            if remark is None:
                left += 1
            else:
                gone[index] = remark
        if not left and not pods:
            pods = await self._unseen(wrapper)
            problem = problem or (_BEHIND if pods else "")
        for pod in pods if force else ():
            try:
                await self._client.delete(PODS, pod.key[1], namespace=pod.key[0], uid=pod.uid, grace_period_seconds=0)
            except ApiError as error:
                if not error.not_found and not error.conflict:
                    problem = str(error)
        return Deletion(gone, left, len(pods), problem)

    async def _unseen(self, wrapper: AppWrapper) -> list[Pod]:
        """What the API server has of its Pods. The cache has none: it may lack those that were made a moment ago."""
        namespace, name = wrapper.key
        try:
            selector = f"{APP_WRAPPER}={check_label_value(name)}"
        except ValueError:  # no Pod can have such a label, and an API server refuses the selector
            return []

        def page(token: str) -> Awaitable[Page]:
            return self._client.list_page(PODS, namespace=namespace, label_selector=selector, continue_token=token)

        pods = [stored_pod(obj) async for obj in every_item(page)]
        return [pod for pod in belonging(pods, wrapper) if not pod.held]

    async def _delete(self, wrapper: AppWrapper, status: JSON, *, force: bool) -> str | None:
        """A remark on the object where it is gone, or counts as gone; None where it is left."""
        kind = await self._kind(status)
        if kind is None:
            return _unserved(status)
        component = await self._present(wrapper, kind, status["name"])
        if component is None:
            return ""
        if component.deleting and not force:
            return None
        try:
            answer = await self._client.delete(
                kind.resource,
                component.key[1],
                namespace=component.key[0],
                uid=component.uid,
                grace_period_seconds=0 if force else None,
                propagation_policy="Background",
            )
        except ApiError as error:
            if not error.not_found:
                raise
            answer = {"kind": "Status"}
        if answer.get("kind") == "Status":
            kind.written.deleted(component.key, component.uid)
            return ""
        kind.written.wrote(component.key, stored_component(answer))
        if force and component.finalizers:
            return f"held by its finalizers: {enumerated(component.finalizers, _NAMED)}"
        return None

    async def _kind(self, status: JSON, *, filled: bool = True) -> Kind | None:
        """The cache of the kind of a component; None where the API server does not serve it.

        Raises CacheFillsError where the cache has to be `filled` and soon will be.
        """
        resource = await self._discovery.resource_of(status["apiVersion"], status["kind"])
        if resource is None:
            return None
        kind = self._kinds.of(resource)
        if filled and kind.coming:
            raise CacheFillsError(f"the cache of {resource.plural} fills", delay=1.0)
        return kind

    async def _present(self, wrapper: AppWrapper, kind: Kind, name: str) -> Component | None:
        """The object, if it belongs to the AppWrapper. A cache is believed where it shows one, and not where none."""
        key = (wrapper.key[0], name)
        component = kind.get(key) if kind.known else None
        if component is None or component.owner != wrapper.uid or component.deleting:
            component = await self._get(kind, key)
        return component if component is not None and component.owner == wrapper.uid else None

    async def _get(self, kind: Kind, key: tuple[str, str]) -> Component | None:
        try:
            obj = await self._client.get(kind.resource, key[1], namespace=key[0])
        except ApiError as error:
            if error.unserved:
                self._discovery.forget()  # its definition is gone
            if error.not_found:
                return None
            raise
        component = stored_component(obj)
        if kind.known:
            kind.written.wrote(key, component)
        return component


def _unserved(status: JSON) -> str:
    return f"no kind {status['kind']} in {status['apiVersion']} is served"


def impersonation(text: str) -> Impersonation:
    """The user in an annotation of the creator, to act as: in the groups that the text says and in no others.

    Of a service account the API server knows the rest by its name, and lets a role be bound to that alone. Raises
    ValueError for another text, and for a user whom no request can name.
    """
    user = rights.read(text)
    try:
        extra = _decode_extra(user.extra)
    except msgspec.DecodeError as error:
        raise ValueError(f"extra: {error}") from error
    for key in extra:
        if key != key.lower():
            raise ValueError(f"extra[{key}] cannot be impersonated: want a key in lower case")
    if rights.is_service_account(user) and all(key.startswith(rights.OF_TOKENS) for key in extra):
        return Impersonation(user.username)
    return Impersonation(user.username, tuple(user.groups), user.uid, extra)
