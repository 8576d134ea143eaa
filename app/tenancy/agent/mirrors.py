"""Shows the tenant what its rules have created: a UVSPod for each companion, marked as ours.

A mirror that is deleted or edited is restored, one whose companion is gone is removed, and a UVSPod without the mark
is never touched. Nothing is removed before the gateway has told of every companion.
"""

from __future__ import annotations

from dataclasses import replace

import structlog

from app.errors import ApiError, Transient
from app.kube.controller import Done, Result
from app.kube.store import EventType, Key, Store
from app.tenancy.agent.remote import Remote
from app.tenancy.agent.resource_sync import pod_summary
from app.tenancy.agent.statuses import Report
from app.tenancy.agent.syncing import Context, Syncer
from app.tenancy.agent.views import ObjectView
from app.tenancy.proto import resource_pb
from app.wire import decode_json
from app.workloads.model import MIRROR, RULE_NAME, UVS_PODS

log = structlog.get_logger(__name__)


class MirrorSync(Syncer[resource_pb.PodSummary]):
    """`store` holds the UVSPods, `pods` the tenant's Pods in the infra cluster, their manifests in canonical form."""

    def __init__(self, context: Context, store: Store[ObjectView], pods: Remote[resource_pb.PodSummary]) -> None:
        # A mirror is not the user's object: no Event is made of its status.
        super().__init__("mirrors", replace(context, events=None), UVS_PODS, store, pods)
        self._marked: set[str] = set()
        self._shadowed: dict[str, str] = {}
        store.subscribe(self._changed)
        pods.subscribe(self._controller.enqueue)

    def is_mirror(self, view: ObjectView) -> bool:
        """Whether the agent made the Pod: it has the agent's mark, or had it until the mark was removed."""
        return view.mirror or view.uid in self._marked

    def _changed(self, _event: EventType, _key: Key, old: ObjectView | None, new: ObjectView | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._marked.discard(old.uid)
        if new is not None and new.mirror:
            self._marked.add(new.uid)

    async def _reconcile(self, name: str) -> Result:
        if not self._remote.synced:
            return Done()  # everything is looked at again once the gateway has told everything
        view, pod = self._store.get(self._namespace, name), self._remote.items.get(name)
        companion = pod if pod is not None and pod.origin == resource_pb.ORIGIN_RULE else None
        if companion is None:
            self._shadowed.pop(name, None)
            if view is not None and self.is_mirror(view):
                await self._remove(view)
        elif view is None:
            await self._create(companion)
        elif not self.is_mirror(view):
            self._note_shadowed(view)
        elif not _as_made(view, companion):
            await self._restore(view, companion)
        else:
            await self._writer.report(view, Report("success", "Mirrored", extra=pod_summary(companion)))
        return Done()

    async def _create(self, companion: resource_pb.PodSummary) -> None:
        metadata = {
            "name": companion.name,
            "namespace": self._namespace,
            "labels": {MIRROR: "true"},
            "annotations": {RULE_NAME: companion.rule},
        }
        body = UVS_PODS.body(metadata, spec={"object": decode_json(companion.manifest)})
        await self._client.create(UVS_PODS, body, namespace=self._namespace)
        log.info("mirror created", name=companion.name, rule=companion.rule)

    async def _restore(self, view: ObjectView, companion: resource_pb.PodSummary) -> None:
        """Make it what it was made as; labels and annotations of others stay."""
        found = await self._client.get(UVS_PODS, view.name, namespace=self._namespace)
        metadata = found["metadata"]
        if metadata.get("uid") != view.uid:
            raise Transient(f"{view.name}: replaced meanwhile")
        metadata["labels"] = {**(metadata.get("labels") or {}), MIRROR: "true"}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), RULE_NAME: companion.rule}
        found["spec"] = {"object": decode_json(companion.manifest)}
        await self._client.replace(UVS_PODS, view.name, found, namespace=self._namespace)
        log.info("mirror updated", name=view.name, rule=companion.rule)

    async def _remove(self, view: ObjectView) -> None:
        try:
            await self._client.delete(UVS_PODS, view.name, namespace=self._namespace, uid=view.uid)
        except ApiError as error:
            if not error.not_found:
                raise
        log.info("mirror removed", name=view.name, rule=view.rule)

    def _note_shadowed(self, view: ObjectView) -> None:
        if self._shadowed.get(view.name) != view.uid:
            self._shadowed[view.name] = view.uid
            log.warning("no mirror: a UVSPod of that name is not ours", name=view.name)


def _as_made(view: ObjectView, companion: resource_pb.PodSummary) -> bool:
    wanted = b'{"object":%b}' % companion.manifest
    return view.mirror and view.rule == companion.rule and view.spec == wanted
