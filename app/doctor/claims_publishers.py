"""Who publishes network data of Pods: the controller `claims`, or the node agents `claims-node`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from app.claims.settings import PublishingSettings
from app.doctor import acting, commands
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed, roles_in
from app.doctor.model import Finding, or_default, warning
from app.errors import UsageError
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
    return Publishers(tuple(controllers), tuple(agents), _settings(controllers or agents))


def _settings(running: Sequence[Installed]) -> PublishingSettings:
    """Those of the first. A value that Berth would refuse makes them the defaults: another check reports it."""
    deployed = running[0].deployed if running else {}
    given = {name: deployed[name] for name in PublishingSettings.model_fields if deployed.get(name, "") != ""}
    try:
        return PublishingSettings.load(given, environment=False)
    except UsageError:
        return PublishingSettings.load({}, environment=False)


async def is_installed(cluster: Cluster) -> bool:
    """Whether Deployments of Berth are seen. Without any the roles may run elsewhere."""
    return bool(await or_default(cluster.installed(), []))


async def publishers(cluster: Cluster) -> AsyncIterator[Finding]:
    """One of the two has to run, with replicas."""
    found = await publishers_of(cluster)
    for one in found.agents if found.controllers else ():
        text = "runs beside the controller claims, and both write the same network data"
        command = commands.kubectl("delete", "daemonset", one.name, namespace=one.namespace)
        if one.by_chart:
            command = commands.helm_upgrade(cluster, "claims-node.enabled=false")
        yield warning("BERTH5001", f"DaemonSet {one.namespace}/{one.name}", text, command=command)
    async for finding in acting.without_replica(cluster, CONTROLLER, "BERTH5002"):
        yield finding
