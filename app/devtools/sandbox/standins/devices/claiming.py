"""Finds the claims of Pods, and writes allocations and reservations as the scheduler does."""

from __future__ import annotations

from app.claims.model import EXTENDED_RESOURCE_CLAIM, device_key
from app.devtools.sandbox.standins.devices.allocation import Chosen
from app.devtools.sandbox.standins.devices.fitting import Fit, Stock
from app.devtools.sandbox.standins.devices.results import allocation_of, consumer
from app.devtools.sandbox.standins.reconciling import Watched, write_status
from app.kube.client import KubeClient
from app.kube.own_writes import OwnWrites
from app.kube.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    controller_of,
    controller_reference,
)
from app.kube.store import key_of
from app.text import stamp
from app.wire import JSON

FINALIZER = "resource.kubernetes.io/delete-protection"
"""Keeps a claim that has devices; the claim controller removes it with the allocation."""
_LIFETIME = 30.0


class Claiming:
    """For one scheduler. `stores` are what Pods may wait for; an API server before 1.34 does not serve these kinds."""

    def __init__(self, client: KubeClient, watched: Watched) -> None:
        self._client = client
        kinds = (RESOURCE_CLAIMS, DEVICE_CLASSES, RESOURCE_SLICES)
        self.stores = tuple(watched.store(kind) for kind in kinds)
        self._claims, self._classes, self._slices = self.stores
        # A device that was given must count before the watch shows it.
        self._own: OwnWrites[JSON] = OwnWrites(
            lambda key: self._claims.get(*key),
            lifetime=_LIFETIME,
            reached=lambda shown, written: _version(shown) >= _version(written),
            uid=lambda claim: str(claim["metadata"]["uid"]),
        )
        self._own.follow(self._claims)

    @property
    def synced(self) -> bool:
        return all(store.synced for store in self.stores)

    def fit(self, pod: JSON) -> Fit | None:
        """None for a Pod whose claims are not all there. Raises ClassMissing.

        Before it is known which devices are in use, none is to be had.
        """
        if not self.synced:
            return None if pod["spec"].get("resourceClaims") else Fit(pod, (), None, Stock({}, (), frozenset()))
        metadata, made = pod["metadata"], {}
        self._own.expire()
        known = self._known()
        for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ():
            made[status["name"]] = status.get("resourceClaimName")
        claims = []
        for entry in pod["spec"].get("resourceClaims") or ():
            template = "resourceClaimTemplateName" in entry
            name = made.get(entry["name"], "") if template else entry.get("resourceClaimName")
            if name is None:
                continue  # the Pod needs no claim for it
            claim = known.get((metadata["namespace"], name))
            if claim is None or "deletionTimestamp" in claim["metadata"]:
                return None
            if template and controller_of(claim["metadata"]).get("uid") != metadata["uid"]:
                return None
            claims.append(claim)
        special = next((one for one in known.values() if _is_special(one, pod)), None)
        return Fit(pod, claims, special, self._stock(known))

    def _known(self) -> dict[tuple[str, str], JSON]:
        keys = self._claims.keys()  # not a dict
        shown = ((key, self._own.get(key)) for key in keys)
        written = ((key_of(claim), claim) for claim in self._own.of(None))
        return {key: claim for key, claim in (*shown, *written) if claim is not None}

    def _stock(self, known: dict[tuple[str, str], JSON]) -> Stock:
        results = (
            result
            for claim in known.values()
            for result in (((claim.get("status") or {}).get("allocation") or {}).get("devices") or {}).get("results")
            or ()
        )
        taken = frozenset(device_key(result) for result in results if not result.get("adminAccess"))
        classes = {one["metadata"]["name"]: one for one in self._classes.values()}
        return Stock(classes, list(self._slices.values()), taken)

    async def claim(self, pod: JSON, fit: Fit, node: str) -> None:
        """Allocate what the Pod gets on this node, and reserve all its claims for it."""
        if not fit.needed():
            return
        found, pending = fit.found[node], fit.pending
        special = fit.special
        if special is None and found.special.requests:
            special = await self._make_special(pod, found.special.requests)
            pending = [*pending, special]
        chosen = {key_of(claim): devices for claim, devices in zip(pending, found.devices, strict=True)}
        for claim in (*fit.claims, *([] if special is None else [special])):
            await self._reserve(claim, pod, fit, chosen.get(key_of(claim)), node)
        if special is not None:
            name = special["metadata"]["name"]
            status = {"resourceClaimName": name, "requestMappings": found.special.mappings}
            await write_status(self._client, PODS, pod, {"extendedResourceClaimStatus": status})

    async def _make_special(self, pod: JSON, requests: list[JSON]) -> JSON:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        metadata = {
            "generateName": f"{name}-extended-resources-",
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [controller_reference(PODS, name, pod["metadata"]["uid"])],
            "finalizers": [FINALIZER],
        }
        body = RESOURCE_CLAIMS.body(metadata, spec={"devices": {"requests": requests}})
        claim = await self._client.create(RESOURCE_CLAIMS, body, namespace=namespace)
        self._own.wrote(key_of(claim), claim)
        return claim

    async def _reserve(self, claim: JSON, pod: JSON, fit: Fit, chosen: list[Chosen] | None, node: str) -> None:
        """Allocate it where devices were `chosen` for it. A conflict ends the attempt, which is made again."""
        status: JSON = claim.get("status") or {}
        reserved, mine = status.get("reservedFor") or [], consumer(pod)
        wanted: JSON = {} if mine in reserved else {"reservedFor": [*reserved, mine]}
        if chosen is not None:
            claim = await self._protect(claim)
            allocation = allocation_of(claim["spec"], chosen, fit.stock.classes, node)
            wanted["allocation"] = {**allocation, "allocationTimestamp": stamp()}
        version = claim["metadata"]["resourceVersion"]
        written = await write_status(self._client, RESOURCE_CLAIMS, claim, wanted, version=version)
        if written is not None:
            self._own.wrote(key_of(written), written)

    async def _protect(self, claim: JSON) -> JSON:
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER in finalizers:
            return claim
        return await self._client.patch(
            RESOURCE_CLAIMS,
            metadata["name"],
            {"metadata": {"uid": metadata["uid"], "finalizers": [*finalizers, FINALIZER]}},
            patch_type="merge",
            namespace=metadata["namespace"],
            version=metadata["resourceVersion"],
        )


def _is_special(claim: JSON, pod: JSON) -> bool:
    metadata = claim["metadata"]
    return bool(
        controller_of(metadata).get("uid") == pod["metadata"]["uid"]
        and (metadata.get("annotations") or {}).get(EXTENDED_RESOURCE_CLAIM) == "true"
        and "deletionTimestamp" not in metadata
    )


def _version(obj: JSON) -> int:
    return int(obj["metadata"]["resourceVersion"])
