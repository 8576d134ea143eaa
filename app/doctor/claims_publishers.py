"""Who publishes network data of Pods, the controller `claims` or the node agents `claims-node`, and may do so.

Also what Multus may read. For the check `claims`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from app.claims.model import RESOURCE_NAME
from app.claims.publishing.refusals import missing_rule
from app.claims.settings import PublishingSettings
from app.doctor import acting, commands, objects
from app.doctor.access import Account, Asking, Question, accounts_of
from app.doctor.claims_roads import served_by_claims
from app.doctor.cluster import Cluster
from app.doctor.installed import Installed, roles_in, settings_in_force
from app.doctor.model import Finding, error, or_default, warning
from app.doctor.permissions import grant
from app.kube.resources import DAEMON_SETS, RESOURCE_CLAIMS, RESOURCE_SLICES
from app.wire import JSON

CONTROLLER, NODE = "claims", "claims-node"
_GROUP = RESOURCE_CLAIMS.group
_MULTUS = (Question("get", _GROUP, RESOURCE_CLAIMS.plural), Question("list", _GROUP, RESOURCE_SLICES.plural))
"""What Multus asks the API server for, where a Pod has a claim and an attachment with a resource (multus-cni#1492)."""


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


async def drivers(cluster: Cluster) -> AsyncIterator[Finding]:
    """What publishes may write for each driver. Kubernetes asks for this permission since 1.36."""
    publishers = await publishers_of(cluster)
    wanted = sorted(publishers.settings.claims_drivers or await _network_drivers(cluster))
    known = [one for one in await accounts_of(cluster) if one.role == "controller"] if publishers.controllers else []
    accounts = [(one, "arbitrary-node:patch") for one in known]
    for one in publishers.agents:
        account = Account(NODE, one.namespace, one.service_account, one.by_chart)
        accounts.append((account, "associated-node:patch"))
    for account, verb in accounts:
        questions = [Question(verb, _GROUP, f"{RESOURCE_CLAIMS.plural}/driver", name=one) for one in wanted]
        for question in await Asking(cluster.client, account).refused(questions):
            rule, fix = missing_rule(question.name, verb), grant(cluster, account, question)
            yield error("BERTH5005", account, driver=question.name, rule=rule, command=fix)


async def _network_drivers(cluster: Cluster) -> set[str]:
    """The drivers with devices that serve attachments."""
    return {
        one["spec"]["driver"]
        for one in await cluster.listed(RESOURCE_SLICES)
        if any(RESOURCE_NAME in (device.get("attributes") or {}) for device in one["spec"].get("devices") or ())
    }


async def multus(cluster: Cluster) -> AsyncIterator[Finding]:
    """Multus reads claims and slices, where devices of attachments come by these."""
    resources = await served_by_claims(cluster)
    if not resources:
        return
    accounts: dict[str, Account] = {}
    for one in await cluster.listed(DAEMON_SETS):
        if _is_multus(one):
            name = objects.spec(one["spec"]["template"]).get("serviceAccountName") or "default"
            account = Account("multus", one["metadata"]["namespace"], name)
            accounts.setdefault(account.user, account)
    for account in accounts.values():
        if refused := await Asking(cluster.client, account).refused(_MULTUS):
            what = " and ".join(f"{one.verb} {one.what}" for one in refused)
            fix = " &&\n".join(grant(cluster, account, one) for one in refused)
            yield error("BERTH5006", account, what=what, resources=sorted(resources), command=fix)


def _is_multus(daemon_set: JSON) -> bool:
    containers = objects.spec(daemon_set["spec"].get("template")).get("containers") or ()
    images = (str(one.get("image") or "").rpartition("/")[2] for one in containers)
    return any("multus" in text for text in (daemon_set["metadata"]["name"], *images))
