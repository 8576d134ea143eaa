"""The RmdConfig and its DaemonSets; daemons that are missing or silent; their certificate; who else sets resctrl."""

from __future__ import annotations

import base64
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from app.devtools.rmd.access import Tls
from app.devtools.sandbox.pki import Authority
from app.devtools.sandbox.standins.gc import GarbageCollector
from app.doctor.model import Finding, Severity
from app.kube.resources import CONFIG_MAPS, DAEMON_SETS, NAMESPACES, PODS, SECRETS
from app.rmd.checks.rmd import CHECK
from app.rmd.model import RMD_CONFIGS, RMD_NODE_STATES, SERVER_NAME
from tests.integration.doctor.patient import HOME, JSON, Patient
from tests.integration.doctor.rmd_patient import acting, change, deploy
from tests.support.rmd_cluster import CERTIFICATE, RmdCluster, StandIn
from tests.support.running import running
from tests.support.waiting import eventually

LABELS = {"matchLabels": {"name": "rmd-pod"}}
DAEMON_SET: JSON = {
    "selector": LABELS,
    "template": {
        "metadata": {"labels": {"name": "rmd-pod"}},
        "spec": {"containers": [{"name": "rmd", "image": "rmd"}]},
    },
}
LATER = timedelta(minutes=10)


async def one_complaint(patient: Patient) -> Finding:
    (found,) = await patient.complaints(CHECK)
    return found


async def configured(rmd: RmdCluster, reason: str) -> None:
    """The controller has said of the RmdConfig that it is so."""
    await eventually(
        lambda: [one.get("reason") for one in rmd.status(RMD_CONFIGS, "rmdconfig").get("conditions") or ()] == [reason]
    )


async def connected(rmd: RmdCluster, node: str, status: str) -> None:
    found = lambda: rmd.status(RMD_NODE_STATES, f"rmd-node-state-{node}").get("conditions") or ()  # noqa: E731
    await eventually(lambda: [one["status"] for one in found()] == [status])


async def test_an_rmdconfig_that_selects_no_node(patient: Patient, rmd: RmdCluster) -> None:
    await patient.create(DAEMON_SETS, "rmd", namespace="default", spec=DAEMON_SET)
    async with acting(rmd):
        await rmd.configure(rdt="true")
        await configured(rmd, "NoNodes")
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.warning, "RmdConfig default/rmdconfig")
    assert found.command.startswith('kubectl label node "$NODE" rdt=true')


async def test_an_rmdconfig_without_templates(patient: Patient, rmd: RmdCluster) -> None:
    async with acting(rmd):
        await rmd.configure(rdt="true")
        await configured(rmd, "NotDeployed")
    found = await one_complaint(patient)
    assert found.severity is Severity.error
    assert found.message.startswith("is not carried out: DaemonSet rmd: there is neither one nor a template")


async def test_a_daemonset_that_no_rmdconfig_owns(patient: Patient, rmd: RmdCluster) -> None:
    """The command takes it away, and the RmdConfig installs its own."""
    text = yaml.safe_dump(
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "rmd"}, "spec": DAEMON_SET}
    )
    body = {**CONFIG_MAPS.body({"name": "berth-rmd-daemon-sets"}), "data": {"rmd-ds.yaml": text}}
    await rmd.add_node("n1", rdt="true")
    await patient.create(DAEMON_SETS, "rmd", namespace="default", spec=DAEMON_SET)
    async with acting(rmd):
        await rmd.configure(rdt="true")
        await configured(rmd, "Deployed")
        said = [one for one in await patient.examine(CHECK) if one.subject == "DaemonSet default/rmd"]
        assert [(one.severity, one.message) for one in said] == [(Severity.info, "belongs to no RmdConfig")]
        await patient.client.create(CONFIG_MAPS, body, namespace=HOME)
        await configured(rmd, "NotDeployed")
        found = await one_complaint(patient)
        assert (found.severity, found.subject) == (Severity.error, "DaemonSet default/rmd")
        assert found.command == "kubectl --namespace default delete daemonset rmd --cascade=orphan"
        async with running(GarbageCollector(patient.client).run()):
            await patient.run(found.command)
            await configured(rmd, "Deployed")
    assert await patient.complaints(CHECK) == []


async def test_an_rmdconfig_beside_the_daemons(patient: Patient, rmd: RmdCluster) -> None:
    await patient.client.create(NAMESPACES, {"metadata": {"name": "team-a"}})
    await patient.create(RMD_CONFIGS, "rmdconfig", namespace="team-a", spec={})
    found = await one_complaint(patient)
    assert (found.severity, found.message) == (
        Severity.warning,
        "is not in namespace default, that of the daemons",
    )
    assert found.command.endswith("--set rmd.namespace=team-a")
    await patient.create(RMD_CONFIGS, "rmdconfig", namespace="default", spec={})
    found = await one_complaint(patient)
    await patient.run(found.command)
    assert await patient.complaints(CHECK) == []


async def test_daemons_in_a_namespace_of_their_own(patient: Patient, rmd: RmdCluster) -> None:
    """That of the controller's flag."""
    await patient.client.create(NAMESPACES, {"metadata": {"name": "team-a"}})
    await patient.create(RMD_CONFIGS, "rmdconfig", namespace="team-a", spec={})
    container = {"name": "c", "image": "i", "args": ["controller", "--controllers=rmd", "--rmd-namespace=team-a"]}
    template = {"metadata": {"labels": {"app": "berth-controller"}}, "spec": {"containers": [container]}}
    await change(patient, "berth-controller", HOME, {"template": template})
    assert await patient.complaints(CHECK) == []


async def test_nodes_without_a_daemon(patient: Patient, rmd: RmdCluster) -> None:
    await rmd.configure(rdt="true")
    for name in ("n1", "n2", "n3"):
        await rmd.add_node(name, rdt="true")
    await rmd.add_node("n4")
    await rmd.add_daemon("n3", 8081)
    spec = {"nodeName": "n2", "containers": [{"name": "rmd", "image": "rmd"}]}
    await patient.pod("rmd-n2", spec=spec, labels={"name": "rmd-pod"})
    waiting = {"state": {"waiting": {"reason": "ImagePullBackOff"}}, "name": "rmd"}
    await patient.report(PODS, "rmd-n2", {"containerStatuses": [waiting]}, namespace="default")
    assert await patient.complaints(CHECK) == []
    patient.later = LATER
    found = await patient.complaints(CHECK)
    assert {one.subject: one.message for one in found} == {
        "Node n1": "no Pod with the label name=rmd-pod is there",
        "Node n2": "the Pod of its daemon does not run: container rmd: ImagePullBackOff",
    }
    await rmd.add_daemon("n1", 8081)
    await patient.report(PODS, "rmd-n2", {"podIP": "127.0.0.1"}, namespace="default")
    assert await patient.complaints(CHECK) == []


async def test_a_daemon_that_does_not_answer(patient: Patient, rmd: RmdCluster) -> None:
    """One finding for the daemon, and none for each RmdWorkload that it has not reserved."""
    async with acting(rmd):
        async with rmd.node("n1", StandIn(), rdt="true"):
            await rmd.show("n1")
            await rmd.reserve("one", "n1")
            await rmd.says("one", "Reserved")
        await connected(rmd, "n1", "False")
        await rmd.says("one", "NotReserved")
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.error, "Node n1")
    assert found.message.startswith("the daemon does not answer: GET http://127.0.0.1:")
    assert found.command == "kubectl --namespace default logs rmd-n1"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority("rmd")


async def store(patient: Patient, files: dict[str, bytes]) -> None:
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    await patient.client.create(SECRETS, {**SECRETS.body({"name": CERTIFICATE}), "data": data}, namespace="default")


async def test_a_client_certificate_that_is_missing(
    patient: Patient, rmd: RmdCluster, authority: Authority, tmp_path: Path
) -> None:
    """The finding is about the Secret, not about each daemon. The command writes the Secret, and all is well."""
    pair = authority.client("berth", ())
    tls = Tls(authority.serving([SERVER_NAME]), authority.pem, admins=(pair.certificate,))
    async with rmd.node("n1", StandIn(), tls=tls), acting(rmd):
        await rmd.show("n1")
        await connected(rmd, "n1", "False")
        found = await one_complaint(patient)
        assert (found.severity, found.subject) == (Severity.error, f"Secret default/{CERTIFICATE}")
        assert found.message.endswith("with tls.crt, tls.key, ca.crt: there is none")
        assert found.consequence == "daemons with TLS are not asked: Node n1"
        for name, content in (("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.pem)):
            (tmp_path / name).write_bytes(content)
        await patient.run(f"cd {tmp_path} && {found.command}")
        await connected(rmd, "n1", "True")
    assert await patient.complaints(CHECK) == []


async def test_a_client_certificate_that_cannot_be_used(
    patient: Patient, rmd: RmdCluster, authority: Authority
) -> None:
    pair = authority.client("berth", ())
    await store(patient, {"tls.crt": pair.certificate, "tls.key": pair.key})
    await rmd.add_daemon("n1", 8443, "https")
    found = await one_complaint(patient)
    assert found.message == "ca.crt missing: want tls.crt, tls.key, ca.crt"


async def test_a_client_certificate_that_ends(patient: Patient, rmd: RmdCluster, authority: Authority) -> None:
    pair = authority.client("berth", ())
    await store(patient, {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.pem})
    await rmd.add_daemon("n1", 8443, "https")
    assert await patient.complaints(CHECK) == []
    patient.later = timedelta(days=3650)
    found = await patient.complaints(CHECK)
    assert [one.severity for one in found] == [Severity.error, Severity.error]
    assert [one.message.partition(" on ")[0] for one in found] == ["its ca.crt expired", "its certificate expired"]


async def test_without_tls_no_certificate_is_wanted(patient: Patient, rmd: RmdCluster) -> None:
    await rmd.add_daemon("n1", 8081)
    assert await patient.complaints(CHECK) == []


@pytest.mark.parametrize(
    "key", ["rdt.resources.beta.kubernetes.io/pod", "rdtclass.resource-policy.nri.io/container.app"]
)
async def test_rdt_classes_of_the_runtime_beside_a_daemon(patient: Patient, rmd: RmdCluster, key: str) -> None:
    await rmd.add_daemon("n1", 8081)
    for node in ("n1", "n2"):
        spec = {"nodeName": node, "containers": [{"name": "app", "image": "app"}]}
        await patient.pod(f"on-{node}", spec=spec, annotations={key: "gold"})
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.error, "Node n1")
    assert found.message == "has a daemon of RMD, and 1 Pod with an RDT class of the runtime: default/on-n1"
    assert found.command == "kubectl get pods --all-namespaces --field-selector=spec.nodeName=n1"
    await deploy(patient, "berth-webhook", HOME, "webhook", "--rmd-backend=runtime")
    assert (await one_complaint(patient)).command.endswith("--set webhook.args.rmdBackend=auto")
