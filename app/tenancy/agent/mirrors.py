"""Shows the tenant what its rules have created: a UVSPod for each companion, marked as ours.

A mirror that is deleted or edited is restored, one whose companion is gone is removed, and a UVSPod without the mark
is never touched. Nothing is removed before the gateway has sent every companion.
"""

from __future__ import annotations

import structlog

from app.errors import Transient
from app.kube.kit import Kit
from app.tenancy.agent.local import Local
from app.tenancy.agent.remote import Pod, Pods, is_companion, pod_summary
from app.tenancy.agent.syncing import Syncer
from app.tenancy.agent.views import ObjectView
from app.wire import decode_json
from app.workloads.model import MIRROR, RULE_NAME, UVS_PODS

log = structlog.get_logger(__name__)


class MirrorSync(Syncer[Pod]):
    """`local` are the UVSPods, `pods` the tenant's Pods in the infra cluster, their manifests in canonical form."""

    def __init__(self, kit: Kit, local: Local, pods: Pods) -> None:
        super().__init__("mirrors", kit, local, pods)
        self._marked: set[str] = set()
        self._shadowed: dict[str, str] = {}
        local.store.subscribe(lambda _event, _key, old, new: self._remember(old, new))

    def is_mirror(self, view: ObjectView) -> bool:
        """Whether the agent made the Pod: it has the agent's mark, or had it until the mark was removed."""
        return view.mirror or view.uid in self._marked

    def _remember(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._marked.discard(old.uid)
        if new is not None and new.mirror:
            self._marked.add(new.uid)

    async def _reconcile(self, name: str) -> float | None:
        view, pod = self._local.get(name), self._remote.items.get(name)
        if not self._remote.synced:
            # Everything is looked at again once the gateway has sent everything.
            return await self._unreached(view) if view is not None and self.is_mirror(view) else None
        await self._mirror(name, view, pod)
        return None

    async def _mirror(self, name: str, view: ObjectView | None, pod: Pod | None) -> None:
        if pod is None or not is_companion(pod):
            self._shadowed.pop(name, None)
            if view is not None and self.is_mirror(view):
                await self._remove(view)
        elif view is None:
            metadata = {"name": name, "namespace": self._local.namespace, **_marks(pod)}
            body = UVS_PODS.body(metadata, spec={"object": decode_json(pod.manifest)})
            await self._local.client.create(UVS_PODS, body, namespace=self._local.namespace)
            log.info("mirror created", name=name, rule=pod.rule)
        elif not self.is_mirror(view):
            if self._shadowed.get(name) != view.uid:
                self._shadowed[name] = view.uid
                log.warning("no mirror: a UVSPod of that name is not ours", name=name)
        elif view.mirror and view.rule == pod.rule and view.spec == b'{"object":%b}' % pod.manifest:
            await self._local.report(view, "success", "Mirrored", extra=pod_summary(pod))
        else:
            await self._restore(view, pod)

    async def _restore(self, view: ObjectView, companion: Pod) -> None:
        """Make it what it was made as; labels and annotations of others stay."""
        found = await self._local.client.get(UVS_PODS, view.name, namespace=self._local.namespace)
        metadata = found["metadata"]
        if metadata.get("uid") != view.uid:
            raise Transient(f"{view.name}: replaced meanwhile")
        for part, marks in _marks(companion).items():
            metadata[part] = {**(metadata.get(part) or {}), **marks}
        found["spec"] = {"object": decode_json(companion.manifest)}
        await self._local.client.replace(UVS_PODS, view.name, found, namespace=self._local.namespace)
        log.info("mirror updated", name=view.name, rule=companion.rule)

    async def _remove(self, view: ObjectView) -> None:
        await self._local.delete(view)
        log.info("mirror removed", name=view.name, rule=view.rule)


def _marks(companion: Pod) -> dict[str, dict[str, str]]:
    return {"labels": {MIRROR: "true"}, "annotations": {RULE_NAME: companion.rule}}
