"""Why a tenant is not served, whose a node is, and who answers where a gateway should be."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.certs.issuing import Issued, issue_authority, issue_serving, serving_names
from app.kube.resources import DEPLOYMENTS, NODES, SECRETS
from app.placement.model import HOST_LABEL, TENANT_LABEL
from app.tenancy.authority import ensure_authority
from app.tenancy.checks import AGENT_CHECK, TENANTS_CHECK
from app.tenancy.model import CA_SECRET, CLUSTER, CLUSTER_TAKEN, GATEWAY_NAME, SERVING_SECRET
from app.text import stamp
from app.why.model import State
from app.workloads.model import TENANTS
from tests.integration.doctor.installation import labels_of, selector_of
from tests.integration.doctor.patient import HOME, JSON, Patient

TLS = "/etc/berth/tls"
PIN = "ab" * 32
CONNECTED = ("True", "AgentConnected", "the gateway accepts the agent")
OF_TENANT = "  # TENANT: the kubeconfig of the cluster of the tenant"
RENEWED = f"berth tenant rotate a --agent-namespace {HOME} && kubectl --kubeconfig TENANT apply -f tenant-a/secret.yaml"


def condition(kind: str, status: str, reason: str, message: str = "") -> JSON:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": stamp()}


async def tenant(
    patient: Patient,
    *,
    connected: tuple[str, str, str] = CONNECTED,
    ready: tuple[str, str] = ("True", "AsWanted"),
    days: float = 30,
    **spec: object,
) -> None:
    until = stamp(datetime.now(UTC) + timedelta(days=days))
    identity = {"names": ["a.tenant.local"], "certificates": [{"sha256": PIN, "until": until}]}
    await patient.create(TENANTS, "a", spec={"identity": identity, **spec})
    conditions = [condition("Ready", *ready, "for this reason"), condition("Connected", *connected)]
    result = "success" if ready[0] == "True" else "" if ready[1] == "Suspended" else "error"
    shown = {"namespace": "tenant-a", "result": result, "observedGeneration": 1, "conditions": conditions}
    await patient.report(TENANTS, "a", shown)


async def test_a_tenant_that_is_served_is_fine(patient: Patient) -> None:
    await tenant(patient, hosts=["host-a"])
    await patient.create(NODES, "dpu-a", metadata={"labels": {HOST_LABEL: "host-a", TENANT_LABEL: "a"}})
    verdict = (await patient.why("tenant/a")).verdict
    assert (verdict.state, verdict.text) == (State.fine, "ready, its agent is connected")
    assert verdict.asks == "1 host; 1 DPU, 1 ready"


async def test_a_tenant_that_is_suspended(patient: Patient) -> None:
    message = "the tenant is suspended: the gateway refuses its agent"
    await tenant(patient, connected=("False", "Suspended", message), ready=("False", "Suspended"), suspended=True)
    verdict = (await patient.why("tenant/a")).verdict
    assert (verdict.state, verdict.text) == (State.waits, "suspended")
    assert verdict.because == ("spec.suspended is true",)
    assert "the gateway turns its agents away" in verdict.so
    assert verdict.since is not None
    await patient.run(verdict.fix)
    assert not (await patient.client.get(TENANTS, "a"))["spec"].get("suspended")


async def test_a_tenant_whose_agent_does_not_call(patient: Patient) -> None:
    text = "the agent does not call; last contact 2026-01-01T00:00:00Z"
    await tenant(patient, connected=("False", "AgentSilent", text))
    verdict = (await patient.why("tenant/a")).verdict
    assert (verdict.state, verdict.text) == (State.broken, "ready, its agent is not connected")
    assert verdict.because == (f"its agent is not connected: {text}",)
    assert (verdict.codes, verdict.fix) == (("BERTH2008",), "")
    assert verdict.more == f"berth doctor --only agent --kubeconfig TENANT{OF_TENANT}"


async def test_a_namespace_that_is_not_ready_and_a_certificate_that_ends(patient: Patient) -> None:
    await tenant(patient, ready=("False", "ForeignNamespace"), days=3.5)
    verdict = (await patient.why("tenant/a")).verdict
    assert (verdict.state, verdict.text) == (State.broken, "error, its agent is connected")
    assert verdict.because == (
        "is not ready (ForeignNamespace): for this reason",
        "its last certificate ends in 3 days",
    )
    assert verdict.codes == ("BERTH2001", "BERTH2011")
    assert verdict.fix == "kubectl label namespace tenant-a berth.dev/tenant=a --overwrite"
    (finding,) = [one for one in await patient.complaints(TENANTS_CHECK) if one.code == "BERTH2011"]
    assert finding.command == RENEWED


async def test_a_ca_that_was_made_anew_is_a_time_bomb_that_is_seen(patient: Patient) -> None:
    """The agent is connected, and nothing else says that it will not be for long."""
    storage = patient.cluster.storage
    before = datetime.now(UTC) - timedelta(hours=1)
    await ensure_authority(patient.client, now=before)
    storage.clock = lambda: before + timedelta(minutes=1)
    await tenant(patient)
    storage.clock = lambda: datetime.now(UTC)
    assert "BERTH2010" not in {one.code for one in await patient.examine(TENANTS_CHECK)}
    for name in (CA_SECRET, SERVING_SECRET):
        await patient.client.delete(SECRETS, name, namespace="universe")
    made = datetime.now(UTC)
    await ensure_authority(patient.client, now=made)
    verdict = (await patient.why("tenant/a")).verdict
    assert verdict.state is State.stuck
    assert verdict.text == "ready, connected, and will be cut off when its agent connects again"
    (cause,) = verdict.because
    assert f"in Secret universe/{SERVING_SECRET}, at {stamp(made)}" in cause
    assert "CN=Berth Gateway CA " in cause
    assert (verdict.codes, verdict.fix) == (("BERTH2010",), f"{RENEWED}{OF_TENANT}")
    await patient.run(
        verdict.fix.partition(" && ")[0] + f" --kubeconfig {patient.kubeconfig}", cwd=patient.kubeconfig.parent
    )
    assert "BERTH2010" not in (await patient.why("tenant/a")).verdict.codes


async def test_a_tenant_in_the_cluster_of_another_gets_its_own_bundle_for_its_own_findings(patient: Patient) -> None:
    """Beside BERTH2008, whose command is for the cluster, and so for the Tenant that it belongs to."""
    await ensure_authority(patient.client, now=datetime.now(UTC) + timedelta(minutes=10))
    noted = {"annotations": {CLUSTER: "uid-of-b"}}
    await patient.create(TENANTS, "b", metadata=noted, spec={"identity": {"names": ["b.tenant.local"]}})
    await tenant(patient, connected=("False", CLUSTER_TAKEN, "not since noon"), days=3.5)
    refused = {"time": stamp(), "reason": CLUSTER_TAKEN, "message": "not since noon", "cluster": "uid-of-b"}
    await patient.report(TENANTS, "a", {"lastRefusal": refused})
    found = {one.code: one.command for one in await patient.complaints(TENANTS_CHECK) if one.subject == "Tenant a"}
    own = f"berth tenant rotate a --agent-namespace {HOME}"
    assert found == {
        "BERTH2008": RENEWED.replace(" a ", " b ").replace("-a/", "-b/"),
        "BERTH2010": own,
        "BERTH2011": own,
    }


@pytest.mark.parametrize("reason", ["CertificateRefused", "NoContact"])
async def test_a_tenant_with_certificates_of_its_own_gets_none(patient: Patient, reason: str) -> None:
    """`berth tenant rotate` refuses it: what is wrong is seen in its cluster."""
    await tenant(patient, connected=("False", reason, "the name is another"))
    own = {"spec": {"identity": {"certificates": None}}}
    await patient.client.patch(TENANTS, "a", own, patch_type="merge")
    (finding,) = [one for one in await patient.examine(TENANTS_CHECK) if one.code == "BERTH2008"]
    assert finding.command == "berth doctor --only agent --kubeconfig TENANT"


async def test_a_ca_from_a_backup_is_not_a_new_one(patient: Patient) -> None:
    before = datetime.now(UTC) - timedelta(hours=1)
    await ensure_authority(patient.client, now=before)
    await tenant(patient)
    kept = [await patient.client.get(SECRETS, name, namespace="universe") for name in (CA_SECRET, SERVING_SECRET)]
    await asyncio.sleep(1.1)  # times of objects have whole seconds
    for secret in kept:
        await patient.client.delete(SECRETS, secret["metadata"]["name"], namespace="universe")
        metadata = {name: secret["metadata"][name] for name in ("name", "labels")}
        await patient.client.create(SECRETS, {**secret, "metadata": metadata}, namespace="universe")
    assert (await patient.why("tenant/a")).verdict.state is State.fine


@asynccontextmanager
async def a_server(folder: Path, name: str, *, age: int = 0) -> AsyncIterator[tuple[int, Issued]]:
    """A server of TLS with a certificate of one day for this name, made so many days ago, and its CA."""
    made = datetime.now(UTC) - timedelta(days=age)
    authority = issue_authority(common_name="Other CA", now=made, days=30)
    leaf = issue_serving(authority, names=serving_names(dns=(name,)), now=made, days=1)
    (folder / "pair.pem").write_bytes(leaf.certificate_pem + leaf.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], authority


async def agent(patient: Patient, port: int, authority: Issued) -> None:
    """The Deployment of an agent that is ready, with a bundle of this CA."""
    args = ["agent", f"--gateway=127.0.0.1:{port}", f"--tls-cert-file={TLS}/tls.crt", "--tenant=a"]
    container = {"name": "berth", "image": "berth", "args": args, "volumeMounts": [{"name": "tls", "mountPath": TLS}]}
    volumes = [{"name": "tls", "secret": {"secretName": "berth-agent"}}]
    template = {"metadata": {"labels": selector_of("agent")}, "spec": {"containers": [container], "volumes": volumes}}
    spec = {"replicas": 1, "selector": {"matchLabels": selector_of("agent")}, "template": template}
    metadata = {"labels": labels_of("agent")}
    await patient.create(DEPLOYMENTS, "berth-agent", namespace=HOME, metadata=metadata, spec=spec)
    await patient.report(DEPLOYMENTS, "berth-agent", {"replicas": 1, "readyReplicas": 1}, namespace=HOME)
    own = issue_serving(authority, names=serving_names(dns=("a",)), now=datetime.now(UTC), days=1)
    files = {"ca.crt": authority.certificate_pem, "tls.crt": own.certificate_pem, "tls.key": own.key_pem}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    await patient.create(SECRETS, "berth-agent", namespace=HOME, data=data)


async def test_a_gateway_with_another_ca_is_seen_while_the_streams_live_on(patient: Patient, tmp_path: Path) -> None:
    async with a_server(tmp_path, GATEWAY_NAME) as (port, authority):
        await agent(patient, port, authority)
        (finding,) = await patient.examine(AGENT_CHECK)
        assert finding.message == "the gateway accepts the agent"
        await patient.client.delete(SECRETS, "berth-agent", namespace=HOME)
        await patient.client.delete(DEPLOYMENTS, "berth-agent", namespace=HOME)
        old = issue_authority(common_name="Old CA", now=datetime.now(UTC), days=1)
        await agent(patient, port, old)
        (finding,) = await patient.examine(AGENT_CHECK)
        assert (finding.code, finding.subject) == ("BERTH2105", f"Secret {HOME}/berth-agent")
        served, trusts = authority.certificate.subject.rfc4514_string(), old.certificate.subject.rfc4514_string()
        assert f"issued by {served}; it trusts {trusts}: " in finding.message
        assert finding.command.startswith(f"berth tenant rotate a --kubeconfig INFRA --agent-namespace {HOME} && ")
        verdict = (await patient.why("deployment/berth-agent", namespace=HOME)).verdict
        assert "BERTH2105" in verdict.codes


async def test_another_server_at_the_address_is_no_old_bundle(patient: Patient, tmp_path: Path) -> None:
    """Another certificate would not help: the address is wrong."""
    async with a_server(tmp_path, "proxy.example.com") as (port, _):
        await agent(patient, port, issue_authority(common_name="Old CA", now=datetime.now(UTC), days=1))
        await patient.report(DEPLOYMENTS, "berth-agent", {"replicas": 1, "readyReplicas": 0}, namespace=HOME)
        (finding,) = await patient.examine(AGENT_CHECK)
    assert finding.code == "BERTH2103"
    assert "answered by CN=proxy.example.com, issued by CN=Other CA " in finding.message
    assert finding.message.endswith(f"is for proxy.example.com, not for {GATEWAY_NAME}: another server")
    assert finding.command.endswith(' --set agent.gateway="$GATEWAY"  # GATEWAY: HOST:PORT of the gateway')


async def test_a_gateway_whose_own_certificate_is_over_needs_no_other_bundle(patient: Patient, tmp_path: Path) -> None:
    async with a_server(tmp_path, GATEWAY_NAME, age=2) as (port, authority):
        await agent(patient, port, authority)
        (finding,) = await patient.examine(AGENT_CHECK)
    assert (finding.code, finding.command) == ("BERTH2105", "berth doctor --only certificate --kubeconfig INFRA")
    assert finding.message.endswith(": certificate has expired")


async def test_a_gateway_that_cannot_be_reached_from_here_is_information(patient: Patient) -> None:
    await agent(patient, 9, issue_authority(common_name="CA", now=datetime.now(UTC), days=1))
    findings = await patient.examine(AGENT_CHECK)
    assert [one.code for one in findings] == ["BERTH2106", ""]


async def test_a_node_says_whose_it_is_and_what_it_offers(patient: Patient) -> None:
    await tenant(patient, hosts=["host-a"])
    await patient.create(NODES, "dpu-a", metadata={"labels": {HOST_LABEL: "host-a", TENANT_LABEL: "a"}})
    offered = {"cpu": "8", "hugepages-2Mi": "0", "example.com/foo": "4"}
    await patient.report(NODES, "dpu-a", {"allocatable": offered})
    verdict = (await patient.why("node/dpu-a")).verdict
    assert verdict.state is State.fine
    assert verdict.text == "is ready; DPU of host host-a, of tenant a; offers example.com/foo 4"


@pytest.mark.parametrize("trouble", ["cordoned", "not ready"])
async def test_a_node_that_takes_no_pods_and_its_tenant(patient: Patient, trouble: str) -> None:
    await tenant(patient, hosts=["host-a"])
    labels = {HOST_LABEL: "host-a", TENANT_LABEL: "a"}
    await patient.create(NODES, "dpu-a", metadata={"labels": labels}, spec={"unschedulable": trouble == "cordoned"})
    if trouble == "not ready":
        text = "Kubelet stopped posting node status"
        await patient.report(NODES, "dpu-a", {"conditions": [condition("Ready", "Unknown", "NodeStatusUnknown", text)]})
    verdict = (await patient.why("node/dpu-a")).verdict
    assert verdict.text.startswith(f"is {trouble}; DPU of host host-a, of tenant a")
    of_tenant = (await patient.why("tenant/a")).verdict
    assert of_tenant.because == (f"Node dpu-a: {verdict.text}", *verdict.because)
    assert of_tenant.state is State.waits
    if trouble == "cordoned":
        assert of_tenant.fix == verdict.fix
        await patient.run(verdict.fix)
        assert (await patient.why("node/dpu-a")).verdict.state is State.fine
    else:
        assert (verdict.state, verdict.because) == (State.broken, ("Kubelet stopped posting node status",))


@pytest.mark.parametrize(
    ("labels", "cause"),
    [
        ({TENANT_LABEL: "a"}, f"is a DPU of tenant a, but its label {HOST_LABEL} does not say of which host"),
        ({HOST_LABEL: "host-a"}, f"host host-a is of tenant a, and label {TENANT_LABEL} is missing"),
        ({HOST_LABEL: "host-a", TENANT_LABEL: "b"}, f"its label {TENANT_LABEL} is b: there is no Tenant b; there is a"),
    ],
)
async def test_a_dpu_whose_labels_do_not_fit(patient: Patient, labels: dict[str, str], cause: str) -> None:
    await tenant(patient, hosts=["host-a"])
    await patient.create(NODES, "dpu", metadata={"labels": labels})
    verdict = (await patient.why("node/dpu")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, (cause,))
    await patient.run(f"HOST=host-a; {verdict.fix}")
    assert (await patient.why("node/dpu")).verdict.state is State.fine


async def test_a_host_without_a_dpu(patient: Patient) -> None:
    """Where the hosts are nodes of the same cluster."""
    await tenant(patient, hosts=["host-a"])
    for name in ("host-a", "dpu"):
        await patient.create(NODES, name)
    verdict = (await patient.why("node/host-a")).verdict
    assert (verdict.state, verdict.because) == (State.stuck, (f"no node has label {HOST_LABEL}=host-a",))
    assert "host of tenant a, with no DPU" in verdict.text
    of_tenant = (await patient.why("tenant/a")).verdict
    assert of_tenant.because == (f"no node has label {HOST_LABEL} for its 1 host host-a",)
    await patient.run(f"DPU=dpu; {verdict.fix}")
    assert "with DPU dpu" in (await patient.why("node/host-a")).verdict.text


async def test_a_new_ca_cuts_no_agent_off_that_was_never_there(patient: Patient) -> None:
    """It has no streams that could live on."""
    storage = patient.cluster.storage
    storage.clock = lambda: datetime.now(UTC) - timedelta(hours=1)
    await tenant(patient, connected=("Unknown", "NoContact", "no agent has called yet"))
    storage.clock = lambda: datetime.now(UTC)
    await ensure_authority(patient.client, now=datetime.now(UTC))
    (finding,) = [finding for finding in await patient.complaints(TENANTS_CHECK) if finding.code == "BERTH2010"]
    assert finding.consequence == "the gateway refuses its agent when it connects for the first time"
