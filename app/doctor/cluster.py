"""What the checks share: the client, where Berth is looked for and found, and reads that are done once for all of them.

Nothing here judges. Reads are kept for the run, errors too: checks run at the same time, and ask for the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from app.doctor.aiming import AIMLESS, Aim
from app.doctor.installed import Installed, read_deployment, roles_in, settings_in_force
from app.doctor.model import or_default
from app.doctor.objects import INSTANCE, PART_OF, contested, labels, spec
from app.doctor.webhooks import Registered, calling_us
from app.errors import ApiError
from app.kube.discovery import Discovery
from app.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, NAMESPACES, PODS, VALIDATING_WEBHOOKS, Resource
from app.kube.retry import every_item, get_or_none
from app.settings.source import S
from app.text import utc_now
from app.wire import JSON
from app.wiring import RELEASE_NAMESPACE

if TYPE_CHECKING:
    from app.kube.client import KubeClient

PAGE = 500
EVERYWHERE = ""
"""As the namespace of a list: the whole cluster, whatever the scope. For what serves all namespaces."""
LIVING = "status.phase!=Succeeded,status.phase!=Failed"
"""The field selector of Pods that have not ended."""
_OURS = f"{PART_OF}=berth"
T = TypeVar("T")


@dataclass
class Cluster:
    """`namespace` and `release` are those of Berth; `roles` those that the user expects here (empty: as installed).

    `aim` is how the user named the cluster, for commands that are printed. With `sought` the user has named the
    namespace of Berth, and Berth has to be there. `scope` is the one namespace whose objects are asked about, "" for
    all: lists of namespaced kinds without a namespace are those of the scope. Addresses that objects name are called
    only where it `calls`. `contested` are the Deployments of the chart in which others than Helm have written, after
    `installed` was asked: an upgrade by Helm 4 meets conflicts there.
    """

    client: KubeClient
    namespace: str
    release: str = "berth"
    roles: frozenset[str] = frozenset()
    now: Callable[[], datetime] = utc_now
    aim: Aim = AIMLESS
    sought: bool = False
    scope: str = ""
    calls: bool = True
    contested: tuple[Installed, ...] = field(default=(), init=False)
    _kept: dict[Hashable, asyncio.Task[Any]] = field(default_factory=dict, init=False)

    def doctor(self, *words: str) -> str:
        """The command that examines the same release."""
        scope = ["--namespace", self.scope] if self.scope else []
        return shlex.join(["berth", "doctor", *scope, "--berth-namespace", self.namespace, *words])

    async def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> JSON | None:
        """The object, None where there is none; asked once. Raises ApiError for every other answer."""
        return await self.once(
            ("get", resource, namespace, name), lambda: get_or_none(self.client, resource, name, namespace=namespace)
        )

    async def listed(self, resource: Resource, *, namespace: str | None = None, label_selector: str = "") -> list[JSON]:
        """All of few objects, none where the API server does not know the kind; asked once.

        Kinds of which there are many (Pods) are read with `paged`.
        """
        place = self._place(resource, namespace)

        async def read() -> list[JSON]:
            return [obj async for obj in self.paged(resource, namespace=place, label_selector=label_selector)]

        return await self.once(("list", resource, place, label_selector), read)

    async def paged(
        self, resource: Resource, *, namespace: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[JSON]:
        """One object after the other, none of a kind that is not known; a page in memory at a time, and not kept."""
        place = self._place(resource, namespace) or None
        chosen: dict[str, Any] = {"label_selector": label_selector, "field_selector": field_selector}
        page = partial(self.client.list_page, resource, namespace=place, limit=PAGE, **chosen)
        try:
            async for obj in every_item(lambda token: page(continue_token=token)):
                yield obj
        except ApiError as refusal:
            if not (refusal.not_found or await self._undefined(resource, refusal)):
                raise

    def pods(self, *, label_selector: str = "", field_selector: str = "") -> AsyncIterator[JSON]:
        return self.paged(PODS, label_selector=label_selector, field_selector=field_selector)

    async def serves(self, resource: Resource) -> bool:
        """Whether the API server knows the kind, asked once. Raises ApiError where it may not be listed."""

        async def ask() -> bool:
            try:
                await self.client.list_page(resource, namespace=self._place(resource, None) or None, limit=1)
            except ApiError as refusal:
                if not (refusal.not_found or await self._undefined(resource, refusal)):
                    raise
                return False
            return True

        return await self.once(("serves", resource), ask)

    async def refusal(self, resource: Resource, body: JSON, *, namespace: str) -> ApiError | None:
        """What the API server answers to the creation of an object, in a dry run; None where it admits the object."""
        try:
            await self.client.post(f"{resource.path(namespace=namespace)}?dryRun=All", body)
        except ApiError as refusal:
            return refusal
        return None

    async def namespaces(self) -> list[JSON]:
        return await self.listed(NAMESPACES)

    async def installed(self) -> list[Installed]:
        """The roles that run in the namespace of Berth, but for those of another release.

        Raises ApiError where Deployments may not be listed.
        """
        roles = roles_in(await self.listed(DEPLOYMENTS, namespace=self.namespace), release=self.release)
        self.contested = tuple(role for role in roles if role.by_chart and contested(role.object))
        return roles

    async def running(self, role: str) -> list[Installed]:
        """The Deployments of a role; none where Deployments may not be listed."""
        return [deployment for deployment in await self._listable() or () if deployment.role == role]

    async def controllers(self) -> frozenset[str]:
        """The controllers that Deployments of the role `controller` choose."""
        return frozenset(
            name for deployment in await self.running("controller") for name in deployment.setting("controllers")
        )

    async def peer(self, namespace: str, name: str) -> JSON | None:
        """The Deployment of another controller; None where it is not there, is scaled to 0, or may not be read."""
        deployment = await or_default(self.get(DEPLOYMENTS, name, namespace=namespace), None)
        return None if spec(deployment).get("replicas") == 0 else deployment

    async def expected_roles(self) -> frozenset[str]:
        """The roles that the user named, else those that are installed; none where these may not be listed."""
        return self.roles or frozenset(deployment.role for deployment in await self._listable() or ())

    async def by_chart(self, *, unknown: bool) -> bool:
        """Whether the chart installed what is here; `unknown` where Deployments may not be listed."""
        deployments = await self._listable()
        return unknown if deployments is None else any(deployment.by_chart for deployment in deployments)

    async def _listable(self) -> list[Installed] | None:
        """As `installed`; None where Deployments may not be listed, which the check `deployments` reports."""
        try:
            return await self.installed()
        except ApiError:
            return None

    async def settings(self, kind: type[S], *, role: str = "webhook", otherwise: str = "") -> S:
        """The settings of a wing as the role has them, or the other one where that role does not run here.

        The defaults where none is found or it may not be read.
        """
        running = await self.running(role) or await self.running(otherwise)
        return settings_in_force(running, kind, namespace=self.namespace)

    async def registered(self) -> list[Registered]:
        """The webhooks that call this release. Raises ApiError where configurations may not be listed."""
        return [
            webhook
            for webhook in await self.of_all_releases()
            if webhook.release in ("", self.release) and webhook.home in ("", self.namespace)
        ]

    async def of_all_releases(self) -> list[Registered]:
        """The webhooks that call Berth, whichever release. Raises ApiError where configurations may not be listed."""
        return [
            webhook
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
            for configuration in await self.listed(resource)
            for webhook in calling_us(resource, configuration, release=self.release, namespace=self.namespace)
        ]

    async def skew(self) -> timedelta | None:
        """How far the API server's clock is ahead of ours at least, asked once; None where it does not say."""

        async def ask() -> timedelta | None:
            before = self.now()
            there = await self.client.server_time()
            # The header is cut to whole seconds: on the average the time is half a second later.
            doubt = (self.now() - before) / 2
            ahead = timedelta() if there is None else there + timedelta(seconds=0.5) - (before + doubt)
            # The header may name any moment of the request: what one of them explains is no difference.
            return None if there is None else ahead - min(max(ahead, -doubt), doubt)

        return await self.once("clock", ask)

    async def once(self, key: Hashable, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `work`, or its error. All callers with the same key share it."""
        if key not in self._kept:
            self._kept[key] = asyncio.create_task(work())
        kept: Awaitable[T] = asyncio.shield(self._kept[key])
        return await kept

    async def close(self) -> None:
        for task in self._kept.values():
            task.cancel()
        await asyncio.gather(*self._kept.values(), return_exceptions=True)

    async def _undefined(self, resource: Resource, refusal: ApiError) -> bool:
        """Whether the kind is not there that was refused: who has no right to it gets the same answer in both cases."""
        if refusal.status != 403 or not resource.group:
            return False
        ask = partial(Discovery(self.client).resource_of, resource.api_version, resource.kind)
        try:
            return await self.once(("defined", resource), ask) is None
        except ApiError:
            return False

    def _place(self, resource: Resource, namespace: str | None) -> str | None:
        """The namespace of a list: that which is given, EVERYWHERE for the whole cluster, else the scope."""
        return namespace if namespace is not None or not resource.namespaced else self.scope


async def locate(cluster: Cluster) -> None:
    """Set namespace and release to those of the assumed release, else to those of any Deployment that runs Berth.

    Where the cluster has a namespace already, only that one counts.

    Commands that upgrade name the release that is there, whatever was assumed. Where nothing runs any more, the
    registrations that were left say both. Raises ApiError where the API server does not answer at all.
    """
    namespace, candidates = cluster.namespace or EVERYWHERE, list[tuple[str, str]]()
    try:
        deployments = await cluster.listed(DEPLOYMENTS, namespace=namespace, label_selector=_OURS)
        if not deployments:
            deployments = list(filter(read_deployment, await cluster.listed(DEPLOYMENTS, namespace=namespace)))
        homes = [
            (deployment["metadata"].get("namespace"), labels(deployment).get(INSTANCE)) for deployment in deployments
        ]
        candidates = [(home, release or cluster.release) for home, release in homes if home]
        if not candidates:
            left = await cluster.listed(MUTATING_WEBHOOKS, label_selector=_OURS)
            calling = [
                Registered(MUTATING_WEBHOOKS, configuration, 0, (configuration.get("webhooks") or [{}])[0])
                for configuration in left
            ]
            candidates = [(webhook.home, webhook.release) for webhook in calling if webhook.home and webhook.release]
    except ApiError as error:
        if not error.status:
            raise
        # The checks meet the same refusal, and report it.
    candidates = [candidate for candidate in candidates if namespace in (EVERYWHERE, candidate[0])]
    first = next(iter(candidates), (namespace or RELEASE_NAMESPACE, cluster.release))
    cluster.namespace, cluster.release = next(
        (candidate for candidate in candidates if candidate[1] == cluster.release), first
    )
    with contextlib.suppress(ApiError):
        await cluster.installed()  # commands go by what others have written there
