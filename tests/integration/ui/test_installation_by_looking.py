"""Defects of an installation that an operator has met are found by looking, each within three clicks.

Overview links to the object, or its name is typed into the search field of every page; its view names cause and command.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest

from app.certs.issuing import issue_authority
from app.kube.resources import CLUSTER_ROLES, MUTATING_WEBHOOKS, NAMESPACES, NODES, PODS, SECRETS
from app.permissions import permissions_of
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.tenancy.authority import ensure_authority
from app.tenancy.model import CA_SECRET, CLUSTER, CLUSTER_TAKEN, GATEWAY_NAME, SERVING_SECRET
from app.text import stamp
from app.workloads.model import TENANT_RULES, TENANTS
from tests.integration.doctor.conftest import installed, patient, place, untouched, ward
from tests.integration.doctor.installation import Place
from tests.integration.doctor.patient import HOME, NETWORKS, Patient
from tests.integration.ui.test_found_by_looking import examined, targets
from tests.integration.why.test_rules import companion, rule, spec, status, workload
from tests.integration.why.test_tenants import a_server, agent, tenant
from tests.support.chart import Server
from tests.support.claims import EXTENDED, ClaimsCluster
from tests.support.page import Page, page_of

__all__ = ["installed", "patient", "place", "untouched", "ward"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
HELM = "helm upgrade berth"
COMPANION = "r-026ad823-27a8-4320-ba50-26f9f0ec6f1f"


async def without_devices(patient: Patient, namespace: str) -> None:
    """A Pod that asks for a network and was not injected."""
    await patient.attachment("net", namespace=namespace)
    await patient.pod("plain", namespace=namespace, annotations={NETWORKS: "net"}, spec={"nodeName": "node-1"})
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await patient.report(PODS, "plain", running, namespace=namespace)


async def deleted_configuration(place: Place) -> None:
    await place.client.delete(MUTATING_WEBHOOKS, "berth")
    await without_devices(place.patient, "default")


async def deleted_role(place: Place) -> None:
    await place.patient.enroll("webhook", permissions_of("webhook"))
    await place.client.delete(CLUSTER_ROLES, "berth-webhook")


async def another_authority(place: Place) -> None:
    other = issue_authority(common_name="Other CA", now=datetime.now(UTC), days=1)
    await place.register("clientConfig/caBundle", base64.b64encode(other.certificate_pem).decode())


async def opted_out(place: Place) -> None:
    out = {"key": "berth.dev/inject", "operator": "NotIn", "values": ["false"]}
    await place.register("namespaceSelector", {"matchExpressions": [out]})
    await place.client.create(NAMESPACES, {"metadata": {"name": "quiet", "labels": {"berth.dev/inject": "false"}}})
    await without_devices(place.patient, "quiet")


async def of_another_tenant(place: Place) -> None:
    """The agent of tenant b has the Secret of tenant a."""
    patient = place.patient
    identity = {"identity": {"names": ["b.tenant.local"]}}
    await patient.create(TENANTS, "b", metadata={"annotations": {CLUSTER: "uid-of-b"}}, spec=identity)
    await tenant(patient, connected=("False", CLUSTER_TAKEN, "the cluster belongs to tenant b"))
    refused = {"time": stamp(), "reason": CLUSTER_TAKEN, "message": "it is that of tenant b", "cluster": "uid-of-b"}
    await patient.report(TENANTS, "a", {"lastRefusal": refused})


async def new_gateway_ca(place: Place) -> None:
    """As the infra cluster sees it: the certificate of the tenant is older than the CA."""
    patient, before = place.patient, datetime.now(UTC) - timedelta(hours=1)
    await ensure_authority(patient.client, now=before)
    patient.cluster.storage.clock = lambda: before + timedelta(minutes=1)
    try:
        await tenant(patient)
    finally:
        patient.cluster.storage.clock = lambda: datetime.now(UTC)
    for name in (CA_SECRET, SERVING_SECRET):
        await patient.client.delete(SECRETS, name, namespace="universe")
    await ensure_authority(patient.client, now=datetime.now(UTC))


async def pending_companion(place: Place) -> None:
    """No DPU has the label that its rule selects."""
    patient, before = place.patient, datetime.now(UTC) - timedelta(hours=1)
    patient.cluster.storage.clock = lambda: before
    try:
        await patient.create(NAMESPACES, "tenant-a", metadata={"labels": {TENANT_LABEL: "a"}})
        await patient.create(
            NODES, "dpu-a", metadata={"labels": {TENANT_LABEL: "a", HOST_LABEL: "host-a", "bf": "two"}}
        )
        await workload(patient, "a", "w")
        assert await companion(patient, nodeSelector={"bf": "three"}) == COMPANION
    finally:
        patient.cluster.storage.clock = lambda: datetime.now(UTC)
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes fit"}
    await patient.report(PODS, COMPANION, {"conditions": [unschedulable]}, namespace="tenant-a")
    shown = status(matched=1, Running=("False", "Unschedulable", "0 of 1 companions run: 1 Unschedulable"))
    await rule(patient, spec(), shown, kind=TENANT_RULES, home="tenant-a")


async def device_too_many(place: Place) -> None:
    """A Pod asks for two devices and selects one network."""
    patient = place.patient
    await ClaimsCluster(Server(patient.kubeconfig, patient.client, patient.cluster)).device_too_many()


WEBHOOK = ("Deployment", HOME, "berth-webhook")


@pytest.mark.parametrize(
    ("make", "target", "words", "fix"),
    [
        (deleted_configuration, WEBHOOK, "none calls Berth", HELM),
        (deleted_configuration, ("Pod", "default", "plain"), "no MutatingWebhookConfiguration calls Berth", HELM),
        (deleted_role, WEBHOOK, "names ClusterRole berth-webhook, which is missing", HELM),
        (
            another_authority,
            ("MutatingWebhookConfiguration", "", "berth"),
            "its caBundle does not verify the certificate",
            "berth certs patch",
        ),
        (opted_out, ("Namespace", "", "quiet"), "has the label berth.dev/inject=false", "kubectl label namespace"),
        (of_another_tenant, ("Tenant", "", "a"), "the cluster belongs to tenant b", "berth tenant rotate b"),
        (new_gateway_ca, ("Tenant", "", "a"), "before the CA was made", "berth tenant rotate a"),
        (pending_companion, ("Pod", "tenant-a", COMPANION), "bf=three matches none of the host's 1 DPU", "kubectl"),
        (
            device_too_many,
            ("ResourceClaim", "default", EXTENDED),
            "asks for 2 example.com/vf and selects 1 network",
            "kubectl replace",
        ),
    ],
)
async def test_overview_leads_to_cause_and_fix(
    place: Place, make: Callable[[Place], Awaitable[None]], target: tuple[str, str, str], words: str, fix: str
) -> None:
    await make(place)
    async with page_of(place.patient.kubeconfig) as page:
        assert target in set(targets(await examined(page)))
        await leads(page, "/overview", target, words, fix)


async def test_a_new_gateway_ca_is_seen_in_the_cluster_of_the_tenant_too(place: Place, tmp_path: Path) -> None:
    """The stream of the agent lives on. Overview has the command, and its role links to the cause."""
    old = issue_authority(common_name="Old CA", now=datetime.now(UTC), days=1)
    async with a_server(tmp_path, GATEWAY_NAME) as (port, _):
        await agent(place.patient, port, old)
        async with page_of(place.patient.kubeconfig) as page:
            problems = (await examined(page))["doctor"]["problems"]
            (problem,) = [problem for problem in problems if problem["code"] == "BERTH2105"]
            assert problem["command"].startswith("berth tenant rotate a ")
            await leads(page, "/overview", ("Deployment", HOME, "berth-agent"), "it trusts CN=Old CA", "BERTH2105")


async def test_a_pod_that_was_not_injected_is_found_by_a_part_of_its_name(place: Place) -> None:
    await opted_out(place)
    async with page_of(place.patient.kubeconfig) as page:
        await leads(
            page,
            "/why?q=plai",
            ("Pod", "quiet", "plain"),
            "Berth was not asked: Namespace quiet has the label berth.dev/inject=false",
            "kubectl label namespace quiet berth.dev/inject-",
        )


async def leads(page: Page, path: str, target: tuple[str, str, str], words: str, fix: str) -> None:
    """The page has a link to the view of the object, which names the cause and the command."""
    kind, namespace, name = target
    query = urlencode({"q": f"{kind.lower()}/{name}"} | ({"namespace": namespace} if namespace else {}))
    assert f'href="/why?{query}"'.replace("&", "&amp;") in (await page.get(path)).text
    shown = html.unescape((await page.get(f"/why?{query}")).text)
    assert words in shown
    assert fix in shown
