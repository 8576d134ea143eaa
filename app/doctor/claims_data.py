"""Network data that are missing in claims, for the check `claims`: nothing publishes them, or their driver did not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from app.claims.publishing.slices import Pools
from app.claims.stored.claims import Claim, stored_claim
from app.claims.stored.pods import ClaimPod, claim_pod
from app.claims.stored.slices import stored_slice
from app.doctor import acting, commands, objects
from app.doctor.claims_publishers import CONTROLLER, Publishers, is_installed, publishers_of
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, sound, warning
from app.doctor.pods import LIVING
from app.kube.resources import RESOURCE_CLAIMS, RESOURCE_SLICES
from app.text import moment
from app.wire import JSON

PATIENCE = 300.0
"""Seconds after the start of a Pod in which its driver publishes."""
_REPAIR = "claims.repairAfter=60"
_NAMES = 50
"""Pods whose names are kept of each driver."""
_SHOWN = 3


@dataclass(slots=True)
class _Pods:
    """Pods that lack network data; the first of them."""

    count: int = 0
    attached: bool = False
    """Whether one of them has a network status, from which Berth can publish."""
    first: list[ClaimPod] = field(default_factory=list)

    def add(self, pod: ClaimPod) -> None:
        self.count += 1
        self.attached = self.attached or pod.network_status is not None
        if len(self.first) < _NAMES:
            self.first.append(pod)

    @property
    def names(self) -> str:
        shown = ["/".join(pod.key) for pod in self.first[:_SHOWN]]
        more = f" and {self.count - len(shown)} more" if self.count > len(shown) else ""
        return ", ".join(shown) + more


async def network_data(cluster: Cluster) -> AsyncIterator[Finding]:
    publishers = await publishers_of(cluster)
    selfish = frozenset(publishers.settings.claims_self_publishing)
    lacking, claims = await _lacking(cluster, selfish)
    unpublished, silent = _Pods(), dict[str, _Pods]()
    async for obj in cluster.pods(field_selector=LIVING):
        drivers = lacking.get(obj["metadata"].get("uid", ""), frozenset())
        pod = claim_pod(obj)
        if not drivers or pod.host_network:
            continue
        if pod.network_status and drivers - selfish:
            unpublished.add(pod)
        if _runs(cluster, obj):
            for driver in drivers & selfish:
                silent.setdefault(driver, _Pods()).add(pod)
    if unpublished.count and not publishers and await is_installed(cluster):
        fix = await acting.choose(cluster, CONTROLLER)
        yield warning("BERTH5003", "", count=unpublished.count, names=unpublished.names, command=fix)
    for driver, pods in sorted(silent.items()):
        yield await _silent(cluster, driver, pods, publishers)
    if claims:
        yield sound(claims, "ResourceClaim")


async def _lacking(cluster: Cluster, selfish: frozenset[str]) -> tuple[dict[str, frozenset[str]], int]:
    """By the UID of a Pod the drivers whose devices lack network data; and how many claims have devices for one Pod."""
    pools = Pools([stored_slice(one) for one in await cluster.listed(RESOURCE_SLICES)])
    found: dict[str, frozenset[str]] = {}
    count = 0
    async for obj in cluster.paged(RESOURCE_CLAIMS):
        claim = stored_claim(obj)
        if [one.resource for one in claim.consumers] != ["pods"] or not claim.results:
            continue
        count += 1
        uid = claim.consumers[0].uid
        if drivers := frozenset(_without_data(claim, pools, selfish)):
            found[uid] = found.get(uid, frozenset()) | drivers
    return found, count


def _without_data(claim: Claim, pools: Pools, selfish: frozenset[str]) -> Iterator[str]:
    for result in claim.results:
        device, entry = result.device, claim.entries.get(result.device)
        known = pools.find(device)
        if result.admin_access or (entry is not None and entry.network_data is not None):
            continue
        if device.driver in selfish:
            # A driver also says of a device without an interface that it is ready.
            if entry is None or not (entry.conditions or entry.data):
                yield device.driver
        elif known is not None and known.attributes.resource_name:
            yield device.driver


def _runs(cluster: Cluster, pod: JSON) -> bool:
    """Whether it runs for longer than a driver needs."""
    status = objects.status(pod)
    began = moment(status.get("startTime")) or objects.created(pod)
    if status.get("phase") != "Running" or began is None:
        return False
    return (cluster.now() - began).total_seconds() > PATIENCE


async def _silent(cluster: Cluster, driver: str, pods: _Pods, publishers: Publishers) -> Finding:
    namespace, name = pods.first[0].key
    if not pods.attached:
        # There is no network status that says what the devices are: the driver writes at the next start of a sandbox.
        names = [pod.key[1] for pod in pods.first if pod.key[0] == namespace]
        fix = commands.kubectl("delete", "pod", *names, namespace=namespace)
    elif publishers and publishers.settings.claims_repair_after:
        fix = commands.kubectl("describe", "pod", name, namespace=namespace)
    elif publishers:
        fix = await commands.helm(cluster, _REPAIR)
    else:
        fix = await acting.choose(cluster, CONTROLLER, values=(_REPAIR,))
    values: dict[str, Any] = {"count": pods.count, "patience": PATIENCE, "names": pods.names}
    return warning("BERTH5004", f"driver {driver}", command=fix, **values)
