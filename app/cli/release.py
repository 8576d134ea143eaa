"""What of Berth a cluster has, as `berth explain` needs it: its flags, who injects, and which Pods are left out."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from app.admission.decision import Decision
from app.appwrappers.model import APP_WRAPPERS
from app.doctor.cluster import Cluster, locate
from app.doctor.installed import flags_in_force
from app.doctor.model import NOT_ALLOWED, or_default, unchecked
from app.doctor.objects import Object
from app.doctor.policies import Alone, alone_in, served_by
from app.errors import ApiError
from app.explain.answer import Answer
from app.explain.callees import Marks
from app.explain.manifests import Manifests
from app.explain.model import Finding, PodManifest
from app.explain.rendering import Explained
from app.kube.resources import NAMESPACES, NODES, PODS
from app.registry import settings_of
from app.rmd.model import RMD_WORKLOADS
from app.why.calls import unasked
from app.why.inquiry import Inquiry, new
from app.why.model import State

if TYPE_CHECKING:
    from app.kube.client import KubeClient

T = TypeVar("T")


_JUDGED = {resource.kind: resource for resource in (APP_WRAPPERS, RMD_WORKLOADS)}
"""What becomes of these depends on queues and nodes that only a cluster has."""


async def add_verdicts(answer: Answer, inquiry: Inquiry, manifests: Manifests) -> None:
    """Adds what `berth why -f` says of objects that would not go on: warnings, for they would be admitted.

    What may not be read for that is a note. Of an object that would be refused nothing more is said.
    """
    refused = {wrapper.manifest.place for wrapper in answer.wrappers if wrapper.problems}
    refused |= {
        finding.manifest.place for finding in answer.findings if finding.manifest and finding.severity == "error"
    }
    before = set(inquiry.unread)
    for manifest in (*manifests.wrappers, *manifests.others):
        resource = _JUDGED.get(manifest.kind)
        if resource is None or manifest.place in refused:
            continue
        metadata = {"name": manifest.name, **manifest.obj["metadata"], "namespace": manifest.namespace}
        verdict = await inquiry.verdict(new(resource, {**manifest.obj, "metadata": metadata}))
        if verdict.state > State.waits:
            text = "; ".join(filter(None, (f"{verdict.text}: {'; '.join(verdict.because)}", verdict.next)))
            answer.findings.append(Finding("warning", "WouldNotRun", text, manifest))
    answer.notes += [text for text in inquiry.unread if text not in before]


async def examined_in(client: KubeClient, manifests: Manifests, home: str, name: str) -> tuple[Cluster, Inquiry]:
    """The cluster of a release of that name, in namespace `home` if that is given, and an inquiry over the manifests.

    Raises ApiError where the API server fails.
    """
    examined = Cluster(client, home, release=name, sought=bool(home))
    await locate(examined)
    kinds = {resource.kind: resource for resource in (NAMESPACES, NODES)}
    given = [Object(kinds[it.kind], it.obj) for it in manifests.others if it.kind in kinds and it.name]
    return examined, Inquiry(examined, given)


@dataclass(slots=True)
class Release:
    """The Berth of a cluster. `webhooks` are those that call it, `alone` the policies that inject without one.

    `about` is one sentence: whose flags and registrations these are, and which rights to read them are missing.
    """

    cluster: Cluster
    inquiry: Inquiry
    about: str
    flags: dict[str, Any]
    webhooks: Marks = frozenset()
    alone: Alone | None = None

    async def server(self, manifest: PodManifest) -> str:
        """Who serves a Pod where there are policies, "" where there are none."""
        served = await or_default(served_by(self.cluster, _pod_of(manifest)), None)
        return served.name if served is not None else ""

    async def left_out(self, result: Explained) -> Decision | None:
        """What becomes of a Pod in place of what Berth would decide; None where Berth is asked, or does nothing."""
        pod, changes = _pod_of(result.manifest), result.denied or result.unread or bool(result.decision.operations)
        # Policies refuse also what the webhook would leave as it is.
        cause = await self.inquiry.ask(unasked(pod)) if changes or self.alone is not None else None
        if cause is not None:
            return _not_asked(cause.cause.replace("Berth was not asked", "Berth is not asked")) if changes else None
        return None if self.alone is None else await self._by_policies(self.alone, pod, changes=changes)

    async def _by_policies(self, alone: Alone, pod: Object, *, changes: bool) -> Decision | None:
        served = await or_default(served_by(self.cluster, pod), None)
        if served is not None:
            return Decision(allowed=False, reason="LeftByPolicies", message=served.refused) if served.refused else None
        cause = f"{alone.name} leaves the Pod to the webhook of Berth, which is not installed"
        return _not_asked(cause) if changes else None


def _not_asked(cause: str) -> Decision:
    return Decision(allowed=True, reason="NotAsked", message=cause)


def _pod_of(manifest: PodManifest) -> Object:
    metadata = {**manifest.pod["metadata"], "namespace": manifest.owner.namespace}
    metadata.setdefault("name", manifest.owner.name)
    return Object(PODS, {**manifest.pod, "metadata": metadata})


async def release_in(examined: Cluster, inquiry: Inquiry, *, sought: bool) -> Release | None:
    """The release of the cluster; None where none is, with `sought` none in its namespace.

    What the user may not read of it are defaults. Raises ApiError where the API server fails.
    """
    unread = dict[str, str]()

    async def read(what: str, reading: Coroutine[Any, Any, list[T]]) -> list[T]:
        try:
            return await reading
        except ApiError as refusal:
            if refusal.status != 403:
                raise
            unread[what] = unchecked(refusal).message.removeprefix(NOT_ALLOWED)
            return []

    installed = await read("flags", examined.installed())
    running = [deployment for deployment in installed if deployment.role == "webhook"]
    registered = await read("registrations", examined.registered())
    alone = await or_default(alone_in(examined), None)
    if alone is not None and (installed or not sought):
        return Release(examined, inquiry, alone.about, dict(alone.flags), alone=alone)
    if not (running or registered or unread):
        return None
    calling = [] if "registrations" in unread else await examined.of_all_releases()
    about = f"flags and registrations are those of release {examined.release} in namespace {examined.namespace}"
    if unread:
        about = (
            f"the release could not be read: {' and '.join(unread)} are defaults; "
            f"that takes the right to {', and to '.join(unread.values())}"
        )
    webhooks = frozenset((webhook.name, str(webhook.webhook.get("name"))) for webhook in calling)
    return Release(examined, inquiry, about, flags_in_force(running, settings_of("webhook")), webhooks)
