"""Who publishes network data, for which drivers, and which devices have none yet: what verdicts and checks share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.claims.settings import PublishingSettings
from app.claims.slices import Pools
from app.claims.stored import Claim
from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed, roles_in, settings_in_force
from app.doctor.model import or_default
from app.kube.resources import DAEMON_SETS
from app.text import moment
from app.wire import JSON

PATIENCE = 300.0
"""Seconds after the start of a Pod in which its driver publishes."""
CONTROLLER, NODE = "claims", "claims-node"
_REPAIR = "claims.repairAfter=60"
NOT_KEPT, NOT_SERVED = "BERTH5010", "BERTH5011"
WITHOUT_PODS, WITHOUT_ATTACHMENT, WITHOUT_ADDRESS = "BERTH5019", "BERTH5020", "BERTH5021"
"""Codes of the check `claims` for what the wing of Services judges: that check is the one of both wings."""


@dataclass(frozen=True, slots=True)
class Publishers:
    """The Deployments that run the controller `claims`, the DaemonSets of `claims-node`, and their settings."""

    controllers: tuple[Installed, ...]
    agents: tuple[Installed, ...]
    settings: PublishingSettings

    def __bool__(self) -> bool:
        return bool(self.controllers or self.agents)


async def publishers_of(cluster: Cluster) -> Publishers:
    """Those in the namespace of Berth that are seen. Without any, the settings are the defaults."""
    controllers = [
        deployment
        for deployment in await cluster.running("controller")
        if CONTROLLER in deployment.setting("controllers")
    ]
    sets = await or_default(cluster.listed(DAEMON_SETS, namespace=cluster.namespace), [])
    agents = [agent for agent in roles_in(sets, release=cluster.release) if agent.role == NODE]
    settings = settings_in_force(controllers or agents, PublishingSettings, namespace=cluster.namespace)
    return Publishers(tuple(controllers), tuple(agents), settings)


async def is_installed(cluster: Cluster) -> bool:
    """Whether Deployments of Berth are seen. Without any the roles may run elsewhere."""
    return bool(await or_default(cluster.installed(), []))


def drivers_without_data(claim: Claim, pools: Pools, selfish: frozenset[str]) -> Iterator[str]:
    for result in claim.results:
        device, entry = result.device, claim.entries.get(result.device)
        stored = pools.find(device)
        if result.admin_access or (entry is not None and entry.network_data is not None):
            continue
        if device.driver in selfish:
            # A driver also says of a device without an interface that it is ready.
            if entry is None or not (entry.conditions or entry.data):
                yield device.driver
        elif stored is not None and stored.attributes.resource_name:
            yield device.driver


def has_run(pod: JSON, now: datetime) -> bool:
    """Whether it runs for longer than a driver needs."""
    status = objects.status(pod)
    began = moment(status.get("startTime")) or objects.created(pod)
    if status.get("phase") != "Running" or began is None:
        return False
    return (now - began).total_seconds() > PATIENCE


async def remedy(
    cluster: Cluster, publishers: Publishers, namespace: str, names: Sequence[str], *, attached: bool
) -> str:
    """The command that ends the silence of a driver that publishes for itself, for Pods of a namespace."""
    if not attached:
        # There is no network status that says what the devices are: the driver writes at the next start of a sandbox.
        return commands.kubectl("delete", "pod", *names, namespace=namespace)
    if publishers and publishers.settings.claims_repair_after:
        return commands.kubectl("describe", "pod", names[0], namespace=namespace)
    if publishers:
        return await commands.helm(cluster, _REPAIR)
    return await acting.choose(cluster, CONTROLLER, values=(_REPAIR,))


async def unpublishing(cluster: Cluster) -> tuple[str, str, str] | None:
    """Why nothing of ours publishes, with command and code; None where a role does, or may run elsewhere."""
    if not await is_installed(cluster):
        return None
    publishers = await publishers_of(cluster)
    if not publishers:
        cause = "neither controller claims nor claims-node runs"
        return cause, await acting.choose(cluster, CONTROLLER), "BERTH5003"
    roles = [it for it in publishers.controllers if it.stopped or not objects.status(it.object).get("readyReplicas")]
    if publishers.agents or len(roles) < len(publishers.controllers):
        return None
    cause = f"{roles[0].subject}, which publishes, has no ready replica"
    return cause, commands.look_at(cluster, roles[0]), "BERTH5002"
