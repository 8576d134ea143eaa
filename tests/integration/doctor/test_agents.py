"""An agent that runs as a Pod, a gateway, and what keeps the two apart, as the doctor of the tenant's cluster says it."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography import x509

from app.certs.certificate_set import fingerprint
from app.certs.issuing import issue_authority
from app.devtools.clusters.certificates import write_gateway_certificates
from app.devtools.clusters.node.node import BerthNode
from app.devtools.clusters.parts import running_parts
from app.devtools.sandbox.standins.kubelet import NodeSpec
from app.devtools.sandbox.standins.standins import StandIns
from app.doctor import certificate, deployments
from app.doctor.model import Finding, Severity
from app.kube.resources import DEPLOYMENTS, NAMESPACES, PODS, SECRETS
from app.serving.listener import free_port
from app.tenancy.checks import AGENT_CHECK, TENANTS_CHECK
from app.tenancy.model import (
    AGENT_CONNECTED,
    AGENT_SILENT,
    CA_SECRET,
    CERTIFICATE_REFUSED,
    CLUSTER,
    CLUSTER_TAKEN,
    CONNECTED,
    GATEWAY_NAME,
    MOVED,
    NO_CONTACT,
    OTHER_CLUSTER,
    SERVING_SECRET,
    SUSPENDED,
)
from app.tenancy.tenants.bundles import Issuing
from app.tenancy.tenants.changes import Adding
from app.tenancy.tenants.enrolling import add, rotate
from app.workloads.model import TENANTS
from tests.integration.doctor.installation import IMAGE, labels_of, selector_of
from tests.integration.doctor.patient import HOME, JSON, Patient, a_patient
from tests.support.waiting import eventually

CHECKS = (deployments.CHECK, certificate.CHECK, AGENT_CHECK)
SECRET = f"Secret {HOME}/berth-agent"
TLS = "/etc/berth/tls"
ISSUE = f"berth tenant rotate {{0}} --agent-namespace {HOME} && kubectl --kubeconfig TENANT apply -f tenant-{{0}}/secret.yaml"


def unconnected(reason: str, message: str, *, status: str = "False") -> JSON:
    """The status of a Tenant whose agent called last from the cluster of tenant red."""
    condition = {"type": CONNECTED, "status": status, "reason": reason, "message": message}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    refused = {"time": "2026-01-01T00:00:00Z", "reason": reason, "message": message, "cluster": "uid-of-red"}
    return {"conditions": [condition], "lastRefusal": refused}


@dataclass(frozen=True, slots=True)
class Linked:
    """Tenant blue: its Tenant, and its cluster with an agent that reads the bundle in `folder`."""

    infra: Patient
    tenant: Patient
    folder: Path

    @property
    def issuing(self) -> Issuing:
        return Issuing(self.folder / "tenant-blue", 30, GATEWAY_NAME, None, HOME)

    async def seen(self, wanted: Callable[[list[Finding]], bool]) -> list[Finding]:
        """The findings, once they are as wanted."""
        return await eventually(lambda: self.tenant.findings(CHECKS), wanted)

    async def says(self, code: str) -> Finding:
        """The finding of this code, once there is one; what it explains is below it."""
        found = await self.seen(lambda them: any(one.code == code for one in them))
        return next(one for one in found if one.code == code)

    async def fixed_by(self, finding: Finding, *, tenant: str = "blue") -> None:
        """Its command, and Pods that begin again, leave nothing to complain of."""
        await self.type(finding, tenant=tenant)
        await self.restart()
        await self.seen(lambda them: max(one.severity for one in them) <= Severity.info)

    async def type(self, finding: Finding, *, tenant: str = "blue") -> None:
        """Its command, with the kubeconfig of the infra cluster, and the name of the tenant where that is asked for."""
        command = finding.command.replace("INFRA", str(self.infra.kubeconfig)).replace("NAME", tenant)
        await self.tenant.run(command, cwd=self.folder)

    async def restart(self) -> None:
        """So that no pause of the agent has to pass."""
        for pod in (await self.tenant.client.list_page(PODS, namespace=HOME)).items:
            await self.tenant.client.delete(PODS, pod["metadata"]["name"], namespace=HOME)

    async def trust(self, ca: bytes) -> None:
        """Has the agent trust this CA alone."""
        data = {"ca.crt": base64.b64encode(ca).decode()}
        await self.tenant.client.patch(SECRETS, "berth-agent", {"data": data}, patch_type="merge", namespace=HOME)


@asynccontextmanager
async def a_link(folder: Path) -> AsyncIterator[Linked]:
    for name in ("infra", "tenant"):
        (folder / name).mkdir()
    async with (
        a_patient(folder / "infra") as infra,
        a_patient(folder / "tenant") as tenant,
        running_parts() as parts,
    ):
        linked = Linked(infra, tenant, folder)
        await write_gateway_certificates(infra.client, folder)
        port, own = free_port("127.0.0.1"), folder / "gateway"
        settings: dict[str, object] = {
            "kubeconfig": str(infra.kubeconfig),
            "log_level": "error",
            "bind_address": "127.0.0.1",
            "port": port,
            "tls_cert_file": str(own / "tls.crt"),
            "tls_private_key_file": str(own / "tls.key"),
            "client_ca": str(own / "ca.crt"),
            "drain_seconds": 0.0,
        }
        await parts.start("gateway", settings, where="infra")
        adding = Adding("blue", hosts=None, names=(), force=False, admin_names=("admin",))
        await add(infra.client, adding, linked.issuing, now=datetime.now(UTC))
        await tenant.run("kubectl apply -f tenant-blue/secret.yaml", cwd=folder)
        await tenant.bind("berth-agent", [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}])
        node = BerthNode(
            tenant.client,
            kubeconfig=tenant.kubeconfig,
            directory=folder / "node",
            found=tenant.cluster.services.__setitem__,
            processes=tenant.cluster.state.processes,
        )
        parts.run(StandIns(tenant.client, [NodeSpec("node")], elsewhere=node.runs))
        parts.run(node)
        await tenant.create(
            DEPLOYMENTS, "berth-agent", namespace=HOME, metadata={"labels": labels_of("agent")}, spec=_spec(port)
        )
        await linked.seen(lambda them: any(one.message == "the gateway accepts the agent" for one in them))
        yield linked


def _spec(port: int) -> JSON:
    container = {
        "name": "berth",
        "image": IMAGE,
        "args": [
            "agent",
            f"--gateway=127.0.0.1:{port}",
            f"--gateway-ca={TLS}/ca.crt",
            f"--tls-cert-file={TLS}/tls.crt",
            f"--tls-private-key-file={TLS}/tls.key",
            "--no-leader-elect",
        ],
        "ports": [{"name": "health", "containerPort": 8444}],
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "health"}},
        "volumeMounts": [{"name": "tls", "mountPath": TLS}],
    }
    spec = {
        "serviceAccountName": "berth-agent",
        "containers": [container],
        "volumes": [{"name": "tls", "secret": {"secretName": "berth-agent"}}],
        "terminationGracePeriodSeconds": 0,
    }
    template = {"metadata": {"labels": selector_of("agent")}, "spec": spec}
    return {"replicas": 1, "selector": {"matchLabels": selector_of("agent")}, "template": template}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def linked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Linked]:
    async with a_link(tmp_path_factory.mktemp("link")) as made:
        yield made


async def test_a_certificate_that_is_refused_and_a_gateway_that_is_not_trusted(linked: Linked) -> None:
    """The doctor of the tenant's cluster names the Secret; that no replica is ready follows from it.

    A user who may not ask Pods reads which permission shows more.
    """
    await rotate(linked.infra.client, "blue", linked.issuing, now=datetime.now(UTC), overlap=timedelta())
    await linked.restart()
    finding = await linked.says("BERTH2101")
    assert (finding.severity, finding.subject) == (Severity.error, SECRET)
    refused = "tenant blue has pinned other certificates than this one"
    assert finding.message == f"the gateway refuses its certificate: {refused}"
    assert finding.command == (
        f"berth tenant rotate blue --kubeconfig INFRA --agent-namespace {HOME} && "
        "kubectl apply -f tenant-blue/secret.yaml  # INFRA: the kubeconfig of the infra cluster"
    )
    (replicas,) = [one for one in await linked.tenant.findings(CHECKS) if one.code == "BERTH0306"]
    assert replicas.message.count(refused) == 1  # it is said of three streams
    assert replicas.cause is not None
    assert replicas.cause.code == "BERTH2101"
    await linked.trust(issue_authority(common_name="other", now=datetime.now(UTC), days=30).certificate_pem)
    await linked.restart()
    trusted = await linked.says("BERTH2103")
    assert trusted.subject == SECRET
    assert trusted.message.startswith("its ca.crt does not verify the certificate of the gateway at 127.0.0.1:")
    assert "issued by CN=Berth Gateway CA " in trusted.message
    assert "; it trusts CN=other " in trusted.message
    reader = linked.tenant.kubeconfig_of("reader")
    rules = [{"apiGroups": ["*"], "resources": ["deployments", "pods"], "verbs": ["get", "list"]}]
    await linked.tenant.bind("reader", rules, user=True)
    # The doctor looks at the gateway itself: the new Pod may not have begun.
    look = partial(linked.tenant.examine, deployments.CHECK, kubeconfig=reader)
    found = await eventually(look, lambda them: [one.code for one in them] == ["BERTH0306", "BERTH0311"])
    assert found[1].message.endswith(f"you have no right to get pods/proxy in namespace {HOME}")
    assert trusted.command == finding.command
    await linked.fixed_by(trusted)


async def test_a_gateway_with_a_new_ca_is_told_on_both_sides_while_the_streams_live_on(linked: Linked) -> None:
    """The gateway accepts the agent until it connects again; the command of the infra cluster is in time."""
    for name in (CA_SECRET, SERVING_SECRET):
        await linked.infra.client.delete(SECRETS, name, namespace="universe")
    await write_gateway_certificates(linked.infra.client, linked.folder)
    finding = await linked.says("BERTH2105")
    assert (finding.severity, finding.subject) == (Severity.warning, SECRET)
    assert "issued by CN=Berth Gateway CA " in finding.message
    (other,) = [one for one in await linked.infra.complaints(TENANTS_CHECK) if one.code == "BERTH2010"]
    assert (other.severity, other.subject) == (Severity.warning, "Tenant blue")
    await linked.infra.run(other.command.replace("TENANT", str(linked.tenant.kubeconfig)), cwd=linked.folder)
    await linked.seen(lambda them: max(one.severity for one in them) <= Severity.info)
    assert "BERTH2010" not in {one.code for one in await linked.infra.examine(TENANTS_CHECK)}


async def test_a_bundle_whose_tenant_is_suspended_and_has_another_cluster(linked: Linked) -> None:
    """Another certificate would not help."""
    await linked.infra.client.patch(TENANTS, "blue", {"spec": {"suspended": True}}, patch_type="merge")
    await linked.restart()
    suspended = await linked.says("BERTH2101")
    assert suspended.message == "the gateway refuses its certificate: tenant blue is suspended"
    await linked.type(suspended)
    uid = (await linked.tenant.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    noted = {"metadata": {"annotations": {CLUSTER: f"not-{uid}"}}}
    await linked.infra.client.patch(TENANTS, "blue", noted, patch_type="merge")
    await linked.restart()
    finding = await linked.says("BERTH2102")
    assert "tenant blue belongs to another cluster" in finding.message
    await linked.fixed_by(finding)


async def test_a_secret_that_is_missing(linked: Linked) -> None:
    await linked.tenant.client.delete(SECRETS, "berth-agent", namespace=HOME)
    finding = await linked.says("BERTH0610")
    assert (finding.subject, finding.message) == (SECRET, "is missing")
    # No flag and no certificate says whose agent it is.
    assert finding.command.startswith("berth tenant rotate NAME ")
    await linked.type(finding)
    assert not await linked.tenant.complaints(certificate.CHECK)


async def test_a_tenant_that_was_removed(linked: Linked) -> None:
    """Its agent has a certificate, and there is nothing to rotate."""
    await linked.infra.client.delete(TENANTS, "blue")
    await linked.restart()
    finding = await linked.says("BERTH2101")
    assert finding.message.endswith("the client certificate is bound to no tenant")
    await linked.type(finding)
    assert await pinned(linked)


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        (CERTIFICATE_REFUSED, ISSUE.format("blue")),
        (CLUSTER_TAKEN, ISSUE.format("red")),
        (OTHER_CLUSTER, f"kubectl annotate tenants.{TENANTS.group} blue {CLUSTER}-"),
        (AGENT_SILENT, "berth doctor --only agent --kubeconfig TENANT"),
    ],
)
async def test_the_infra_cluster_says_which_agent_is_not_connected(linked: Linked, reason: str, command: str) -> None:
    """Of a cluster with the bundles of two Tenants, the agent gets that of the Tenant which the cluster belongs to."""
    if reason == CLUSTER_TAKEN:
        noted = {"annotations": {CLUSTER: "uid-of-red"}}
        await linked.infra.create(TENANTS, "red", metadata=noted, spec={"identity": {"names": ["red.tenant.local"]}})
    await linked.infra.report(TENANTS, "blue", unconnected(reason, "not since noon"))
    (finding,) = [one for one in await linked.infra.complaints(TENANTS_CHECK) if one.code == "BERTH2008"]
    assert (finding.severity, finding.subject) == (Severity.error, "Tenant blue")
    assert finding.message == "its agent is not connected: not since noon"
    assert finding.command.partition("  # ")[0] == command


async def test_a_tenant_whose_cluster_was_moved(linked: Linked) -> None:
    """No call of it was refused since: what is noted says which tenant has the cluster."""
    noted = {"annotations": {CLUSTER: "uid-1"}}
    await linked.infra.client.patch(TENANTS, "blue", {"metadata": noted}, patch_type="merge")
    noted["annotations"][MOVED] = "2026-01-01T00:00:00Z"
    await linked.infra.create(TENANTS, "grey", metadata=noted, spec={"identity": {"names": ["grey.tenant.local"]}})
    status = unconnected(CLUSTER_TAKEN, "it belongs to tenant grey")
    await linked.infra.report(TENANTS, "blue", {"conditions": status["conditions"]})
    (finding,) = [one for one in await linked.infra.complaints(TENANTS_CHECK) if one.code == "BERTH2008"]
    assert finding.command == ISSUE.format("grey")


async def test_the_command_of_the_infra_cluster_gives_the_agent_a_certificate_that_is_pinned(linked: Linked) -> None:
    await linked.infra.report(TENANTS, "blue", unconnected(CERTIFICATE_REFUSED, "the pin has ended"))
    (finding,) = [one for one in await linked.infra.complaints(TENANTS_CHECK) if one.code == "BERTH2008"]
    command = finding.command.replace("TENANT", str(linked.tenant.kubeconfig))
    await linked.infra.run(command, cwd=linked.folder)
    assert await pinned(linked)


async def pinned(linked: Linked) -> bool:
    """Whether the Tenant has pinned the certificate in the Secret of its agent."""
    secret = await linked.tenant.client.get(SECRETS, "berth-agent", namespace=HOME)
    leaf = x509.load_pem_x509_certificate(base64.b64decode(secret["data"]["tls.crt"]))
    pins = (await linked.infra.client.get(TENANTS, "blue"))["spec"]["identity"]["certificates"]
    return fingerprint(leaf) in [pin["sha256"] for pin in pins]


async def test_a_tenant_that_never_called_is_information(linked: Linked) -> None:
    """It may be new."""
    await linked.infra.report(TENANTS, "blue", unconnected(NO_CONTACT, "no call yet", status="Unknown"))
    (finding,) = [one for one in await linked.infra.examine(TENANTS_CHECK) if one.code == "BERTH2008"]
    assert finding.severity is Severity.info
    assert finding.command == ISSUE.format("blue")  # its bundle may never have been written
    for reason, status in ((SUSPENDED, "False"), (AGENT_CONNECTED, "True")):
        await linked.infra.report(TENANTS, "blue", unconnected(reason, "as it should be", status=status))
        assert "BERTH2008" not in {one.code for one in await linked.infra.examine(TENANTS_CHECK)}


async def test_a_bundle_in_the_cluster_of_another_tenant(linked: Linked) -> None:
    """Two Tenants in one cluster: the gateway refuses the newcomer, and the agent gets the bundle of the first."""
    uid = (await linked.tenant.client.get(NAMESPACES, "kube-system"))["metadata"]["uid"]
    adding = Adding("green", hosts=None, names=(), force=False, admin_names=("admin",))
    issuing = replace(linked.issuing, directory=linked.folder / "tenant-green")
    await add(linked.infra.client, adding, issuing, now=datetime.now(UTC))
    for name, noted in (("blue", None), ("green", uid)):
        patch = {"metadata": {"annotations": {CLUSTER: noted}}}
        await linked.infra.client.patch(TENANTS, name, patch, patch_type="merge")
    await linked.restart()
    finding = await linked.says("BERTH2102")
    assert finding.message.startswith(
        f"the gateway refuses this cluster with it: cluster {uid} (UID of namespace kube-"
    )
    assert finding.command.startswith("berth tenant rotate NAME --kubeconfig INFRA ")
    await linked.fixed_by(finding, tenant="green")
