"""Check `claims`: who publishes network data and may do so, what is missing, and how devices are served.

It also judges Services on secondary networks and definitions of claims: who keeps them, and mistakes in them. Of an API
server without resource.k8s.io/v1 it says who needs that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from app.claims.checks.roads import roads, served_by_claims
from app.claims.definitions import CLASS_DEFINITION, Definitions, all_definitions, parse_definitions, stored_class
from app.claims.model import RESOURCE_NAME
from app.claims.publishing.reporting import missing_rule
from app.claims.settings import AdmissionSettings, TemplateSettings
from app.claims.slices import Pools, stored_slice
from app.claims.stored import ClaimPod, claim_pod, stored_claim
from app.claims.why.publishers import (
    CONTROLLER,
    NODE,
    PATIENCE,
    Publishers,
    drivers_without_data,
    has_run,
    is_installed,
    publishers_of,
    remedy,
)
from app.doctor import acting, commands, objects
from app.doctor.access import Account, Asking, Question, accounts_of
from app.doctor.cluster import LIVING, Cluster
from app.doctor.model import Check, Finding, Severity, error, more_of, sound, warning
from app.doctor.permissions import grant
from app.kube.resources import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEVICE_CLASSES,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
)
from app.services.caches import stored_service
from app.services.model import NETWORK
from app.why.examined import examine_each, finding_of, judged
from app.why.inquiry import Inquiry
from app.wire import JSON

_CONTROLLERS = ("claims", "claim-templates", "network-services")
_NAMES = 50
"""Pods whose names are kept of each driver."""
_SHOWN = 3
_MOST = 50
_ASKING = "Service on a secondary network"
_JUDGED = 200
"""ResourceClaims that are judged in one examination."""
_OF_CLAIMS = frozenset({"BERTH5016", "BERTH5017", "BERTH5018"})
"""What is found of one claim alone."""
_SERVICES, _TEMPLATES = "network-services", "claim-templates"
_GROUP = RESOURCE_CLAIMS.group
_MULTUS = (Question("get", _GROUP, RESOURCE_CLAIMS.plural), Question("list", _GROUP, RESOURCE_SLICES.plural))
"""What Multus asks the API server for, where a Pod has a claim and an attachment with a resource (multus-cni#1492)."""


async def _unserved(cluster: Cluster) -> AsyncIterator[Finding]:
    """What of Berth is on and needs claims: Kubernetes serves older versions of them before 1.34."""
    asking = [f"controller {name}" for name in _CONTROLLERS if name in await cluster.controllers()]
    if (await cluster.settings(AdmissionSettings)).claims:
        asking.append("the webhook with --claims")
    if asking:
        yield error("BERTH5015", "", names=asking, version=RESOURCE_CLAIMS.api_version)


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


async def _network_data(cluster: Cluster) -> AsyncIterator[Finding]:
    publishers = await publishers_of(cluster)
    selfish = frozenset(publishers.settings.claims_self_publishing)
    lacking, suspects, claims = await _lacking(cluster, selfish)
    unpublished, silent = _Pods(), dict[str, _Pods]()
    async for obj in cluster.pods(field_selector=LIVING):
        drivers = lacking.get(obj["metadata"].get("uid", ""), frozenset())
        pod = claim_pod(obj)
        if not drivers or pod.host_network:
            continue
        if pod.network_status and drivers - selfish:
            unpublished.add(pod)
        if has_run(obj, cluster.now()):
            for driver in drivers & selfish:
                silent.setdefault(driver, _Pods()).add(pod)
    if unpublished.count and not publishers and await is_installed(cluster):
        fix = await acting.choose(cluster, CONTROLLER)
        yield warning("BERTH5003", "", count=unpublished.count, names=unpublished.names, command=fix)
    for driver, pods in sorted(silent.items()):
        yield await _silent(cluster, driver, pods, publishers)
    async for finding in _claims(cluster, suspects):
        yield finding
    if claims:
        yield sound(claims, "ResourceClaim")


async def _lacking(
    cluster: Cluster, selfish: frozenset[str]
) -> tuple[dict[str, frozenset[str]], list[objects.Object], int]:
    """By the UID of a Pod the drivers whose devices lack network data; and how many claims have devices for one Pod.

    Between them the first claims that are to be judged: a verdict on a claim reads its Pod.
    """
    pools = Pools([stored_slice(obj) for obj in await cluster.listed(RESOURCE_SLICES)])
    lacking: dict[str, frozenset[str]] = {}
    suspects, count = list[objects.Object](), 0
    async for obj in cluster.paged(RESOURCE_CLAIMS):
        claim, it = stored_claim(obj), objects.Object(RESOURCE_CLAIMS, obj)
        late = not claim.allocated and objects.age(obj, cluster.now()) > PATIENCE
        single = [consumer.resource for consumer in claim.consumers] == ["pods"] and bool(claim.results)
        drivers = frozenset(drivers_without_data(claim, pools, selfish)) if single else frozenset()
        unused = claim.allocated and not claim.consumers
        if (late or unused or drivers - selfish) and len(suspects) < _JUDGED:
            suspects.append(it)
        count += single
        if drivers:
            uid = claim.consumers[0].uid
            lacking[uid] = lacking.get(uid, frozenset()) | drivers
    return lacking, suspects, count


async def _claims(cluster: Cluster, suspects: list[objects.Object]) -> AsyncIterator[Finding]:
    """What is wrong with each of them, but for what holds for all claims of a driver, or of the cluster."""
    inquiry, count = Inquiry(cluster, many=True), 0
    for it in suspects:
        verdict = await inquiry.verdict(it)
        if _OF_CLAIMS.isdisjoint(verdict.codes[:1]) or count == _MOST:
            continue
        if (finding := finding_of(it, verdict)) is not None:
            count += 1
            yield finding
    if count == _MOST:
        yield more_of(Severity.warning, "there may be more ResourceClaims")


async def _silent(cluster: Cluster, driver: str, pods: _Pods, publishers: Publishers) -> Finding:
    namespace, _ = pods.first[0].key
    names = [pod.key[1] for pod in pods.first if pod.key[0] == namespace]
    fix = await remedy(cluster, publishers, namespace, names, attached=pods.attached)
    values: dict[str, Any] = {"count": pods.count, "patience": PATIENCE, "names": pods.names}
    return warning("BERTH5004", f"driver {driver}", command=fix, **values)


async def _services(cluster: Cluster) -> AsyncIterator[Finding]:
    """Services that ask for endpoints on a network get them."""
    asking = (obj async for obj in cluster.paged(SERVICES) if stored_service(obj) is not None)
    if _SERVICES not in await cluster.controllers():
        names = [f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" async for obj in asking]
        if names and await is_installed(cluster):
            values: dict[str, Any] = {"count": len(names), "names": names, "key": NETWORK, "controller": _SERVICES}
            yield error("BERTH5010", "", command=await acting.choose(cluster, _SERVICES), **values)
        return

    async for finding in examine_each(cluster, SERVICES, most=_MOST, noun=_ASKING, bodies=asking):
        yield finding


async def _definitions(cluster: Cluster) -> AsyncIterator[Finding]:
    """Definitions can be read, are kept by a controller, and have their names for themselves."""
    runs = _TEMPLATES in await cluster.controllers()
    role = "controller" if runs else "webhook"
    name, home = (await cluster.settings(TemplateSettings, role=role)).claim_templates, cluster.namespace
    it, config_map = objects.named(CONFIG_MAPS, name, home), await cluster.get(CONFIG_MAPS, name, namespace=home)
    configured: Definitions = {}
    try:
        configured = parse_definitions(config_map or {})
    except ValueError as wrong:
        yield error("BERTH5012", it, wrong=wrong)
    classes = [stored_class(device_class) for device_class in await cluster.listed(DEVICE_CLASSES)]
    names = all_definitions(configured, classes)
    if names and not runs and await is_installed(cluster):
        source = it.subject if configured else f"annotation {CLASS_DEFINITION} of DeviceClasses"
        values: dict[str, Any] = {"count": len(names), "source": source, "controller": _TEMPLATES}
        yield warning("BERTH5013", "", command=await acting.choose(cluster, _TEMPLATES), **values)
    if names and runs:
        templates = (obj async for obj in cluster.paged(RESOURCE_CLAIM_TEMPLATES) if obj["metadata"]["name"] in names)
        kind, noun = RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIM_TEMPLATES.kind
        async for finding in examine_each(cluster, kind, most=_MOST, noun=noun, bodies=templates):
            yield finding


async def _publishers(cluster: Cluster) -> AsyncIterator[Finding]:
    """One of the two has to run, with replicas."""
    publishers = await publishers_of(cluster)
    for agent in publishers.agents if publishers.controllers else ():
        fix = commands.helm_upgrade(cluster, "claims-node.enabled=false") if agent.by_chart else ""
        yield warning("BERTH5001", objects.named(DAEMON_SETS, agent.name, agent.namespace), command=fix)
    async for finding in acting.without_replica(cluster, CONTROLLER, "BERTH5002"):
        yield finding


async def _drivers(cluster: Cluster) -> AsyncIterator[Finding]:
    """What publishes may write for each driver. Kubernetes asks for this permission since 1.36."""
    publishers = await publishers_of(cluster)
    drivers = sorted(publishers.settings.claims_drivers or await _network_drivers(cluster))
    controllers = (
        [account for account in await accounts_of(cluster) if account.role == "controller"]
        if publishers.controllers
        else []
    )
    accounts = [(account, "arbitrary-node:patch") for account in controllers]
    for agent in publishers.agents:
        account = Account(NODE, agent.namespace, agent.service_account, agent.by_chart)
        accounts.append((account, "associated-node:patch"))
    for account, verb in accounts:
        questions = [Question(verb, _GROUP, f"{RESOURCE_CLAIMS.plural}/driver", name=driver) for driver in drivers]
        for question in await Asking(cluster.client, account).refused(questions):
            rule, fix = missing_rule(question.name, verb), grant(cluster, account, question)
            yield error("BERTH5005", account, driver=question.name, rule=rule, command=fix)


async def _network_drivers(cluster: Cluster) -> set[str]:
    """The drivers with devices that serve attachments."""
    return {
        obj["spec"]["driver"]
        for obj in await cluster.listed(RESOURCE_SLICES)
        if any(RESOURCE_NAME in (device.get("attributes") or {}) for device in obj["spec"].get("devices") or ())
    }


async def _multus(cluster: Cluster) -> AsyncIterator[Finding]:
    """Multus reads claims and slices, where devices of attachments come by these."""
    resources = await served_by_claims(cluster)
    if not resources:
        return
    accounts: dict[str, Account] = {}
    for daemon_set in await cluster.listed(DAEMON_SETS):
        if _is_multus(daemon_set):
            name = objects.spec(daemon_set["spec"]["template"]).get("serviceAccountName") or "default"
            account = Account("multus", daemon_set["metadata"]["namespace"], name)
            accounts.setdefault(account.user, account)
    for account in accounts.values():
        if refused := await Asking(cluster.client, account).refused(_MULTUS):
            what = " and ".join(f"{question.verb} {question.what}" for question in refused)
            fix = " &&\n".join(grant(cluster, account, question) for question in refused)
            yield error("BERTH5006", account, what=what, resources=sorted(resources), command=fix)


def _is_multus(daemon_set: JSON) -> bool:
    containers = objects.spec(daemon_set["spec"].get("template")).get("containers") or ()
    images = (str(container.get("image") or "").rpartition("/")[2] for container in containers)
    return any("multus" in text for text in (daemon_set["metadata"]["name"], *images))


CHECK = Check(
    "claims",
    (_publishers, _network_data, _drivers, _multus, roads, _services, _definitions),
    about=RESOURCE_CLAIMS,
    otherwise=_unserved,
    of_users=(
        judged(RESOURCE_CLAIMS),
        judged(RESOURCE_CLAIM_TEMPLATES),
        judged(SERVICES, noun=_ASKING, chosen=lambda obj: stored_service(obj) is not None),
    ),
)
