"""Network data that are published by no controller or driver, and Berth's and Multus' rights for them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from app.claims.checks.claims import CHECK
from app.claims.publishing.reporting import missing_rule
from app.doctor.model import Finding, Severity
from app.kube.resources import DAEMON_SETS, DEPLOYMENTS, DEVICE_CLASSES, NAMESPACES, RESOURCE_SLICES, SERVICE_ACCOUNTS
from app.permissions import permissions_of
from tests.integration.doctor.patient import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, HOME, JSON, RBAC, Patient
from tests.integration.doctor.rmd_patient import change, deploy
from tests.support.chart import Server
from tests.support.claims import DRANET, RESOURCE, VF, ClaimsCluster, attached, entry

CONTROLLER = "--controllers=claims"
UPGRADE = f"helm upgrade --install berth charts/berth --namespace {HOME} --create-namespace"
PATIENCE = timedelta(minutes=10)


@pytest.fixture
def cluster(patient: Patient) -> ClaimsCluster:
    return ClaimsCluster(Server(patient.kubeconfig, patient.client, patient.cluster))


async def complaints(patient: Patient) -> list[Finding]:
    """Those about network data; of rights there are other tests."""
    return [one for one in await patient.complaints(CHECK) if "may not" not in one.message]


async def one_complaint(patient: Patient) -> Finding:
    (found,) = await complaints(patient)
    return found


async def with_device(cluster: ClaimsCluster, *, driver: str = VF, status: bool = True, name: str = "p") -> None:
    """A Pod with a device of a driver, which Multus has attached with `status`."""
    pod = await cluster.pod(name, f"{name}-claim")
    await cluster.claim(f"{name}-claim", pod, "vf1", driver=driver)
    await cluster.say(name, phase="Running")
    if status:
        await cluster.attach(name, attached("10.0.0.5"))


async def agents(patient: Patient, **labels: str) -> None:
    container = {"name": "c", "image": "berth", "args": ["claims-node", "--node-name=$(NODE_NAME)"]}
    own = {"app": "claims-node"}
    template = {
        "metadata": {"labels": own},
        "spec": {"containers": [container], "serviceAccountName": "berth-claims-node"},
    }
    spec = {"selector": {"matchLabels": own}, "template": template}
    await patient.create(DAEMON_SETS, "agents", namespace=HOME, metadata={"labels": labels}, spec=spec)


async def test_an_api_server_without_the_kinds_gets_no_finding(patient: Patient) -> None:
    """As before Kubernetes 1.34: where a part of Berth needs them, that is a finding."""
    registry = patient.cluster.state.registry
    kinds = {key: row for key, row in registry._rows.items() if row.group == DEVICE_CLASSES.group}
    await patient.attachment("net", resource="example.com/none")
    for key in kinds:
        del registry._rows[key]
    try:
        assert await patient.examine(CHECK) == []
        names = "controller claims, controller network-services, the webhook with --claims"
        await deploy(patient, "berth-controller", HOME, "controller", "--controllers=workloads,network-services,claims")
        await deploy(patient, "berth-webhook", HOME, "webhook", "--claims")
        (found,) = await patient.examine(CHECK)
        text = f"the API server does not serve resource.k8s.io/v1, and {names} need it: want Kubernetes 1.34, or these turned off"
        assert (found.code, found.severity, found.message) == ("BERTH5015", Severity.error, text)
    finally:
        registry._rows.update(kinds)
    assert await patient.examine(CHECK)


async def test_no_controller_publishes(patient: Patient, cluster: ClaimsCluster) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=rmd")
    await cluster.slice("vf1")
    await with_device(cluster)
    found = await one_complaint(patient)
    assert (found.severity, found.message) == (
        Severity.warning,
        (
            "network data of 1 Pod (default/p) are not in their ResourceClaims, and neither controller claims nor "
            "claims-node runs"
        ),
    )
    assert found.command == (
        f"{UPGRADE} --set controller.enabled=true --set 'controller.args.controllers={{claims,rmd}}'"
    )
    await cluster.apply("p-claim", [entry(networkData={"ips": ["10.0.0.5/24"]})])
    assert await complaints(patient) == []


async def test_pods_without_a_network_device_lack_nothing(patient: Patient, cluster: ClaimsCluster) -> None:
    """A device that serves no attachment, a Pod without a network status, and one that has ended."""
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=rmd")
    await with_device(cluster)  # no slice says that it is a network device
    assert await complaints(patient) == []
    await cluster.slice("vf1")
    assert await complaints(patient)
    await cluster.say("p", phase="Succeeded")
    await with_device(cluster, status=False, name="q")
    assert await complaints(patient) == []


async def test_devices_of_no_single_pod_are_left_out(patient: Patient, cluster: ClaimsCluster) -> None:
    """A claim that two Pods share, a device with admin access, and a Pod on the network of its node."""
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=rmd")
    await cluster.slice("vf1")
    first, second = await cluster.pod("p", "shared"), await cluster.pod("q", "shared")
    claim = await cluster.claim("shared", first, "vf1")
    consumer = {"resource": "pods", "name": "q", "uid": second["metadata"]["uid"]}
    await cluster.put(
        claim | {"status": claim["status"] | {"reservedFor": [*claim["status"]["reservedFor"], consumer]}}
    )
    await cluster.attach("p", attached("10.0.0.5"))
    labels = {"resource.kubernetes.io/admin-access": "true"}
    await patient.client.patch(NAMESPACES, "default", {"metadata": {"labels": labels}}, patch_type="merge")
    monitor = await cluster.claim("monitor")
    pod = await cluster.pod("m", "monitor")
    result = {"request": "r", **entry(), "adminAccess": True}
    reserved = {"resource": "pods", "name": "m", "uid": pod["metadata"]["uid"]}
    await cluster.put(
        monitor | {"status": {"allocation": {"devices": {"results": [result]}}, "reservedFor": [reserved]}}
    )
    await cluster.attach("m", attached("10.0.0.6"))
    spec = {"hostNetwork": True, "nodeName": "n1", "resourceClaims": [{"name": "r", "resourceClaimName": "own"}]}
    await cluster.claim("own", await patient.pod("h", spec=spec), "vf1")
    await cluster.attach("h", attached("10.0.0.7"))
    assert await complaints(patient) == []


async def test_claims_with_a_problem_of_their_own_have_the_verdict_of_why(
    patient: Patient, cluster: ClaimsCluster
) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER)
    await cluster.attachment()
    await cluster.slice("vf0", "vf1")
    pod = await cluster.pod("p", "c")
    await cluster.claim("c", pod, "vf0", "vf1")
    await cluster.attach("p", attached("10.0.0.5", pci="0000:03:00.0"))
    await cluster.apply("c", [entry("vf0", networkData={"ips": ["10.0.0.5/24"]})])
    found = await one_complaint(patient)
    assert (found.code, found.subject) == ("BERTH5016", "ResourceClaim default/c")
    cause = f"vf1: none: Pod p asks for 2 {RESOURCE} and selects 1 network"
    assert found.message == f"1 of 2 devices has network data: {cause}"
    made = await cluster.claim("held", await cluster.pod("q", "held"), "vf0")
    await cluster.put(made | {"status": made["status"] | {"reservedFor": []}})
    await cluster.claim("waits")
    assert {one.code for one in await complaints(patient)} == {"BERTH5016", "BERTH5018"}
    patient.later = PATIENCE
    assert {one.code for one in await complaints(patient)} == {"BERTH5016", "BERTH5018"}, "no Pod uses it"
    await cluster.pod("r", "waits", node="")
    codes = {one.code for one in await complaints(patient)}
    assert codes == {"BERTH5016", "BERTH5017", "BERTH5018"}


async def test_of_many_claims_only_so_many_are_judged(
    patient: Patient, cluster: ClaimsCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each verdict reads a Pod."""
    monkeypatch.setattr("app.claims.checks.claims._JUDGED", 2)
    await cluster.attachment()
    await cluster.slice(*(f"vf{number}" for number in range(8)))
    for number in range(4):
        pod = await cluster.pod(f"p{number}", f"c{number}")
        await cluster.claim(f"c{number}", pod, f"vf{2 * number}", f"vf{2 * number + 1}")
        await cluster.attach(f"p{number}", attached("10.0.0.5", pci=f"0000:03:00.{2 * number}"))
    assert [one.subject for one in await complaints(patient)] == [
        "ResourceClaim default/c0",
        "ResourceClaim default/c1",
    ]


@pytest.mark.parametrize("runs", ["controller", "agents", "elsewhere"])
async def test_where_it_is_published_or_berth_is_not_seen(patient: Patient, cluster: ClaimsCluster, runs: str) -> None:
    await cluster.slice("vf1")
    await with_device(cluster)
    if runs == "controller":
        await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER)
    if runs == "agents":
        await deploy(patient, "berth-webhook", HOME, "webhook")
        await agents(patient)
    assert await complaints(patient) == []


async def test_both_publish(patient: Patient) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER)
    await agents(patient)
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.warning, f"DaemonSet {HOME}/agents")
    assert found.message == "runs beside the controller claims, and both write the same network data"
    await patient.run(found.command)
    assert await complaints(patient) == []
    await agents(patient, **{"helm.sh/chart": "berth-0.1.0"})
    assert (await one_complaint(patient)).command.endswith("--set claims-node.enabled=false")


async def test_the_controller_has_no_replica(patient: Patient) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER)
    await change(patient, "berth-controller", HOME, {"replicas": 0})
    await patient.report(DEPLOYMENTS, "berth-controller", {"readyReplicas": 0}, namespace=HOME)
    found = await one_complaint(patient)
    assert (found.severity, found.message) == (Severity.error, "has the controller claims, and no ready replica")
    assert found.command == f"kubectl --namespace {HOME} scale deployment/berth-controller --replicas=2"


async def test_a_driver_that_publishes_for_itself_wrote_nothing(patient: Patient, cluster: ClaimsCluster) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER)
    await with_device(cluster, driver=DRANET)
    assert await complaints(patient) == []
    patient.later = PATIENCE
    found = await one_complaint(patient)
    assert (found.severity, found.subject) == (Severity.warning, f"driver {DRANET}")
    assert found.message == (
        "publishes network data for itself, and has written nothing for 1 Pod that run for more than 5 minutes: "
        "default/p"
    )
    assert found.command == f"{UPGRADE} --set claims.repairAfter=60"
    ready = {"type": "Ready", "status": "True", "reason": "RDMAOnlyDeviceReady", "message": ""}
    ready["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    await cluster.apply("p-claim", [entry(driver=DRANET, conditions=[ready])], manager=DRANET)
    assert await complaints(patient) == []


async def test_a_repair_that_did_not_help_is_looked_at(patient: Patient, cluster: ClaimsCluster) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER, "--claims-repair-after=60")
    await with_device(cluster, driver=DRANET)
    patient.later = PATIENCE
    found = await one_complaint(patient)
    assert found.command == "kubectl --namespace default describe pod p"
    await patient.run(found.command)


async def test_such_a_pod_without_a_network_status_is_started_again(patient: Patient, cluster: ClaimsCluster) -> None:
    """Nothing says what its devices are, but the driver."""
    await with_device(cluster, driver=DRANET, status=False)
    patient.later = PATIENCE
    found = await one_complaint(patient)
    assert found.command == "kubectl --namespace default delete pod p"
    await patient.run(found.command)
    assert await complaints(patient) == []


async def test_the_option_decides_which_drivers_these_are(patient: Patient, cluster: ClaimsCluster) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER, f"--claims-self-publishing={VF}")
    await with_device(cluster)
    await with_device(cluster, driver=DRANET, name="q")
    patient.later = PATIENCE
    assert (await one_complaint(patient)).subject == f"driver {VF}"


async def enroll(patient: Patient, role: str, *drivers: str) -> None:
    controllers = {"controllers": ("claims",)} if role == "controller" else {}
    table = permissions_of(role, claims_drivers=drivers, **controllers)
    await patient.enroll(role, table)


async def rights(patient: Patient) -> list[Finding]:
    return [one for one in await patient.complaints(CHECK) if one.subject.startswith("ServiceAccount")]


@pytest.mark.parametrize(
    ("role", "verb"), [("controller", "arbitrary-node:patch"), ("claims-node", "associated-node:patch")]
)
async def test_a_missing_permission_for_a_driver(
    patient: Patient, cluster: ClaimsCluster, role: str, verb: str
) -> None:
    """The rule is that of the Event, and the command gives it."""
    if role == "controller":
        await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER)
    else:
        await agents(patient)
    await enroll(patient, role, "other.example.com")
    await cluster.slice("vf1")
    (found,) = await rights(patient)
    assert (found.severity, found.subject) == (Severity.error, f"ServiceAccount {HOME}/berth-{role}")
    assert found.message == (f"may not publish network data of driver {VF}: it needs the rule {missing_rule(VF, verb)}")
    await patient.run(found.command)
    assert await rights(patient) == []


async def test_drivers_of_the_option_are_asked_for(patient: Patient, cluster: ClaimsCluster) -> None:
    """Those alone; and devices that serve no attachment need nothing."""
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER, "--claims-drivers=a.example.com")
    await enroll(patient, "controller", "b.example.com")
    await cluster.slice("vf1")
    (found,) = await rights(patient)
    assert "driver a.example.com" in found.message


async def test_drivers_without_devices_for_attachments_are_not_asked_for(patient: Patient) -> None:
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER)
    await enroll(patient, "controller", "b.example.com")
    pool = {"name": "n1", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "n1", "pool": pool, "devices": [{"name": "gpu"}]}
    await patient.create(RESOURCE_SLICES, "gpus", spec=spec)
    assert await rights(patient) == []


async def test_who_may_not_ask_learns_that(patient: Patient, cluster: ClaimsCluster) -> None:
    rules: list[JSON] = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    await patient.create(CLUSTER_ROLES, "reader", rules=rules)
    await patient.create(
        CLUSTER_ROLE_BINDINGS,
        "reader",
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "reader"},
        subjects=[{"kind": "User", "name": "reader", "apiGroup": RBAC}],
    )
    await deploy(patient, "berth-controller", HOME, "controller", CONTROLLER)
    await enroll(patient, "controller")
    await multus(patient)
    await served(patient, cluster)
    found = await patient.complaints(CHECK, kubeconfig=patient.kubeconfig_of("reader"))
    assert [(one.severity, one.message) for one in found] == [
        (
            Severity.warning,
            "not checked: you have no right to create subjectaccessreviews.authorization.k8s.io in the whole cluster",
        )
    ]


async def multus(patient: Patient, *, name: str = "kube-multus-ds", image: str = "example.com/multus-cni:v4") -> None:
    await patient.create(SERVICE_ACCOUNTS, "multus", namespace=HOME)
    own = {"app": "multus"}
    spec = {"serviceAccountName": "multus", "containers": [{"name": "c", "image": image}]}
    template = {"metadata": {"labels": own}, "spec": spec}
    body = {"selector": {"matchLabels": own}, "template": template}
    await patient.create(DAEMON_SETS, name, namespace=HOME, spec=body)


async def served(patient: Patient, cluster: ClaimsCluster) -> None:
    """An attachment whose resource a DeviceClass maps."""
    await cluster.attachment()
    await patient.create(DEVICE_CLASSES, "vf", spec={"extendedResourceName": RESOURCE})
    await cluster.slice("vf1")


READS: Sequence[JSON] = (
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims"], "verbs": ["get"]},
    {"apiGroups": ["resource.k8s.io"], "resources": ["resourceslices"], "verbs": ["list"]},
)


@pytest.mark.parametrize(
    ("granted", "lacks"),
    [
        ((), "get resourceclaims.resource.k8s.io and list resourceslices.resource.k8s.io"),
        ((0,), "list resourceslices.resource.k8s.io"),
        ((1,), "get resourceclaims.resource.k8s.io"),
    ],
)
async def test_multus_may_not_read_claims(
    patient: Patient, cluster: ClaimsCluster, granted: tuple[int, ...], lacks: str
) -> None:
    await multus(patient)
    assert await patient.complaints(CHECK) == []
    await served(patient, cluster)
    for one in granted:
        await patient.bind("multus", [READS[one]], name=f"multus-{one}")
    (found,) = await rights(patient)
    assert (found.severity, found.subject) == (Severity.error, f"ServiceAccount {HOME}/multus")
    assert found.message == f"Multus may not {lacks}, and devices of attachments come by claims: {RESOURCE}"
    await patient.run(found.command)
    assert await patient.complaints(CHECK) == []


async def test_multus_is_known_by_its_name_too(patient: Patient, cluster: ClaimsCluster) -> None:
    await multus(patient, image="example.com/mirrored@sha256:00")
    await served(patient, cluster)
    assert await rights(patient)


async def test_other_daemons_are_not_multus(patient: Patient, cluster: ClaimsCluster) -> None:
    await multus(patient, name="plugin", image="example.com/plugin:v1")
    await served(patient, cluster)
    assert await patient.complaints(CHECK) == []
    await multus_image(patient)
    assert await rights(patient)


async def multus_image(patient: Patient) -> None:
    container = {"name": "c", "image": "example.com/multus-cni@sha256:00"}
    spec = {"template": {"spec": {"containers": [container]}}}
    await patient.client.patch(DAEMON_SETS, "plugin", {"spec": spec}, patch_type="merge", namespace=HOME)
