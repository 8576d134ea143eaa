"""Who publishes network data of Pods: the controller `claims`, or the node agents `claims-node`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.claims.settings import PublishingSettings
from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed, roles_in, settings_in_force
from app.doctor.model import Finding, or_default, warning
from app.kube.resources import DAEMON_SETS

CONTROLLER, NODE = "claims", "claims-node"


@dataclass(frozen=True, slots=True)
class Publishers:
    """The Deployments that run the controller, and the DaemonSets of the node agents; and their settings."""

    controllers: tuple[Installed, ...]
    agents: tuple[Installed, ...]
    settings: PublishingSettings

    def __bool__(self) -> bool:
        return bool(self.controllers or self.agents)


async def publishers_of(cluster: Cluster) -> Publishers:
    """Those in the namespace of Berth that are seen. Without any, the settings are the defaults."""
    controllers = [one for one in await cluster.running("controller") if CONTROLLER in one.setting("controllers")]
    sets = await or_default(cluster.listed(DAEMON_SETS, namespace=cluster.namespace), [])
    agents = [one for one in roles_in(sets, release=cluster.release) if one.role == NODE]
    settings = settings_in_force(controllers or agents, PublishingSettings, namespace=cluster.namespace)
    return Publishers(tuple(controllers), tuple(agents), settings)


async def is_installed(cluster: Cluster) -> bool:
    """Whether Deployments of Berth are seen. Without any the roles may run elsewhere."""
    return bool(await or_default(cluster.installed(), []))


async def publishers(cluster: Cluster) -> AsyncIterator[Finding]:
    """One of the two has to run, with replicas."""
    found = await publishers_of(cluster)
    for one in found.agents if found.controllers else ():
        fix = commands.helm_upgrade(cluster, "claims-node.enabled=false") if one.by_chart else ""
        yield warning("BERTH5001", objects.named(DAEMON_SETS, one.name, one.namespace), command=fix)
    async for finding in acting.without_replica(cluster, CONTROLLER, "BERTH5002"):
        yield finding
