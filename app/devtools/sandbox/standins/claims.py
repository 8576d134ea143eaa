"""What kube-controller-manager does with ResourceClaims: makes those of templates, and frees those of ended Pods."""

from __future__ import annotations

import copy

from app.claims.model import POD_CLAIM_NAME
from app.devtools.sandbox.standins.dependents import owned
from app.devtools.sandbox.standins.devices.claiming import FINALIZER
from app.devtools.sandbox.standins.reconciling import Watched, delete, reconciling, write_status
from app.kube.client import KubeClient
from app.kube.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, controller_of, controller_reference
from app.kube.retry import get_or_none
from app.kube.store import Key, Store
from app.wire import JSON


class ClaimMaker:
    """Makes the claims of Pods that name templates. A Pod waits for a template that is not there."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        kinds = (PODS, RESOURCE_CLAIM_TEMPLATES)
        self._pods, self._templates = (watched.store(kind) for kind in kinds)
        self.controller = reconciling("claims-of-templates", self._reconcile, self._pods, self._templates, wakes=_lacks)
        self._templates.subscribe(lambda _event, key, _old, _new: self._look_again(key[0]))

    def _look_again(self, namespace: str) -> None:
        for key in self._pods.keys():  # noqa: SIM118  # not a dict
            if key[0] == namespace and _lacks(self._pods.get(*key)):
                self.controller.enqueue(key)

    async def _reconcile(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None or not _lacks(pod):
            return
        templates, known = _templates_of(pod), _statuses(pod)
        made = []
        for name in sorted(templates.keys() - {one["name"] for one in known}):
            claim = await self._claim(pod, name, templates[name])
            if claim is not None:
                made.append({"name": name, "resourceClaimName": claim["metadata"]["name"]})
        if made:
            statuses = sorted([*known, *made], key=lambda one: str(one["name"]))
            version = pod["metadata"]["resourceVersion"]
            await write_status(self._client, PODS, pod, {"resourceClaimStatuses": statuses}, version=version)

    async def _claim(self, pod: JSON, name: str, template_name: str) -> JSON | None:
        """The claim for this entry of the Pod; None where its template is not there."""
        for claim in await owned(self._client, RESOURCE_CLAIMS, pod):
            if (claim["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME) == name:
                return claim
        namespace = pod["metadata"]["namespace"]
        template = self._templates.get(namespace, template_name)
        if template is None:
            return None
        return await self._client.create(RESOURCE_CLAIMS, claim_of(template, pod, name), namespace=namespace)


def claim_of(template: JSON, pod: JSON, name: str) -> JSON:
    """The claim to create for an entry of the Pod's `spec.resourceClaims`."""
    spec: JSON = copy.deepcopy(template["spec"])
    given: JSON = spec.get("metadata") or {}
    metadata: JSON = {
        "generateName": f"{pod['metadata']['name']}-{name}-",
        "annotations": {**(given.get("annotations") or {}), POD_CLAIM_NAME: name},
        "ownerReferences": [controller_reference(PODS, pod["metadata"]["name"], pod["metadata"]["uid"])],
    }
    if given.get("labels"):
        metadata["labels"] = given["labels"]
    return RESOURCE_CLAIMS.body(metadata, spec=spec["spec"])


class ClaimReleaser:
    """Removes what ended Pods have reserved, the allocation with the last of them, and the claims made for them."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        self._claims: Store[JSON] = watched.store(RESOURCE_CLAIMS)
        self._pods = watched.store(PODS)
        self.controller = reconciling("claims", self._reconcile, self._claims, self._pods)
        self._pods.subscribe(lambda _event, key, _old, new: self._on_pod(key, new))

    def _on_pod(self, key: Key, pod: JSON | None) -> None:
        if pod is not None and not _is_over(pod):
            return
        for one in self._claims.keys():  # noqa: SIM118  # not a dict
            claim = self._claims.get(*one)
            if claim is not None and one[0] == key[0] and key[1] in _consumers(claim):
                self.controller.enqueue(one)

    async def _reconcile(self, key: Key) -> None:
        claim = self._claims.get(*key)
        if claim is None:
            return
        status: JSON = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        kept = [one for one in reserved if await self._uses(key[0], one)]
        wanted: JSON = {"reservedFor": kept or None} if kept != reserved else {}
        freed = not kept and bool(reserved or "deletionTimestamp" in claim["metadata"])
        if freed:
            wanted |= {"allocation": None, "devices": None}
        version = claim["metadata"]["resourceVersion"]
        claim = await write_status(self._client, RESOURCE_CLAIMS, claim, wanted, version=version) or claim
        if freed:
            claim = await self._unprotect(claim)
        if not kept and await self._is_left(claim):
            await delete(self._client, RESOURCE_CLAIMS, claim)

    async def _is_left(self, claim: JSON) -> bool:
        """Whether it was made for a Pod that has ended."""
        metadata, owner = claim["metadata"], controller_of(claim["metadata"])
        if owner.get("kind") != PODS.kind or "deletionTimestamp" in metadata:
            return False
        return not await self._uses(metadata["namespace"], {"resource": PODS.plural, **owner})

    async def _uses(self, namespace: str, consumer: JSON) -> bool:
        """Whether the consumer, which may be no Pod, is there and has not ended. What the cache lacks is looked up."""
        if consumer.get("resource") != PODS.plural:
            return True
        pod = self._pods.get(namespace, consumer["name"])
        if pod is None or pod["metadata"]["uid"] != consumer["uid"]:
            pod = await get_or_none(self._client, PODS, consumer["name"], namespace=namespace)
        return pod is not None and pod["metadata"]["uid"] == consumer["uid"] and not _is_over(pod)

    async def _unprotect(self, claim: JSON) -> JSON:
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            return claim
        kept = [one for one in finalizers if one != FINALIZER]
        return await self._client.patch(
            RESOURCE_CLAIMS,
            metadata["name"],
            {"metadata": {"uid": metadata["uid"], "finalizers": kept or None}},
            patch_type="merge",
            namespace=metadata["namespace"],
            version=metadata["resourceVersion"],
        )


def _templates_of(pod: JSON) -> dict[str, str]:
    entries = pod["spec"].get("resourceClaims") or ()
    return {one["name"]: one["resourceClaimTemplateName"] for one in entries if one.get("resourceClaimTemplateName")}


def _statuses(pod: JSON) -> list[JSON]:
    return (pod.get("status") or {}).get("resourceClaimStatuses") or []


def _lacks(pod: JSON | None) -> bool:
    """Whether a claim of a template is to be made for the Pod."""
    if pod is None or _is_over(pod) or "deletionTimestamp" in pod["metadata"]:
        return False
    return not _templates_of(pod).keys() <= {one["name"] for one in _statuses(pod)}


def _consumers(claim: JSON) -> set[str]:
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    owner = controller_of(claim["metadata"])
    return {one["name"] for one in reserved} | ({owner["name"]} if owner.get("kind") == PODS.kind else set())


def _is_over(pod: JSON) -> bool:
    """Whether the Pod needs its devices no more: it has ended, or it is deleted and never ran."""
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return True
    return "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName")
