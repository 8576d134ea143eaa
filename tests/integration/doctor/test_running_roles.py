"""Deployments, Leases and clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web

from app.devtools.sandbox.processes import PodLog
from app.doctor.model import Severity, follow_from, roots
from app.kube.resources import DEPLOYMENTS, LEASES, PODS
from app.workloads.model import ADMIN_RULES
from tests.integration.doctor.installation import ENDPOINTS, SERVICE, Place
from tests.integration.doctor.patient import HOME, Patient
from tests.integration.doctor.test_rules import rule

DEPLOYMENT = f"Deployment {HOME}/berth-webhook"
SCALE = f"kubectl --namespace {HOME} scale deployment/berth-webhook --replicas=2"


async def scale(place: Place, replicas: int) -> None:
    await place.change(DEPLOYMENTS, "berth-webhook", {"op": "replace", "path": "/spec/replicas", "value": replicas})
    await place.report("webhook", replicas=replicas, ready=replicas)


@pytest.mark.parametrize(
    ("replicas", "severity", "message"),
    [(0, Severity.error, "is scaled to 0"), (1, Severity.warning, "has one replica")],
)
async def test_too_few_replicas_are_wanted(place: Place, replicas: int, severity: Severity, message: str) -> None:
    await scale(place, replicas)
    finding = await place.only_complaint("deployments")
    assert (finding.severity, finding.subject, finding.message) == (severity, DEPLOYMENT, message)
    assert finding.command == SCALE
    await scale(place, 2)  # as the command does; the sandbox has no /scale
    assert await place.complaints() == []


async def test_replicas_that_are_not_ready_and_why(place: Place) -> None:
    """The reasons are those of the Pods; with none ready it is an error."""
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    await place.pod("berth-webhook-1", "webhook", containerStatuses=[{"name": "webhook", "state": waiting}])
    await place.report("webhook", replicas=2, ready=1)
    finding = await place.only_complaint("deployments")
    assert finding.severity is Severity.warning
    assert finding.message == (
        "1 of 2 replicas are ready, 2 of the current template: container webhook: ImagePullBackOff (no such image)"
    )
    assert "app.kubernetes.io/component=webhook" in finding.command
    await place.report("webhook", replicas=2, ready=0)
    assert (await place.only_complaint("deployments")).severity is Severity.error


async def test_replicas_that_are_refused_follow_from_nothing(place: Place) -> None:
    """They have asked for nothing yet: a missing right is another problem."""
    refused = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: q"}
    status = {"replicas": 2, "updatedReplicas": 0, "readyReplicas": 0, "conditions": [refused]}
    await place.patient.report(DEPLOYMENTS, "berth-webhook", status, namespace=HOME)
    found = {one.code: one for one in roots(await place.complaints("deployments", "permissions"))}
    assert found.keys() == {"BERTH0306", "BERTH0801"}
    assert found["BERTH0306"].message.endswith(": its Pods cannot be created: exceeded quota: q")


@pytest.mark.parametrize(("ready", "accepted"), [(2, 1), (1, 0), (0, 0)])
async def test_an_agent_is_accepted_where_all_replicas_are_ready(place: Place, ready: int, accepted: int) -> None:
    """The one that stands by is ready whatever the gateway says to the one that leads."""
    await place.deploy("agent")
    await place.report("agent", replicas=2, ready=ready)
    found = await place.examine("agent")
    assert [one.message for one in found if one.severity is Severity.ok] == ["the gateway accepts the agent"] * accepted


async def test_roles_of_different_images(place: Place) -> None:
    path = "/spec/template/spec/containers/0/image"
    await place.change(DEPLOYMENTS, "berth-controller", {"op": "replace", "path": path, "value": "berth:0.0.9"})
    finding = await place.only_complaint("deployments")
    assert finding.message == "run different images (certificates, webhook: berth:0.1.0; controller: berth:0.0.9)"
    assert finding.command == f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values"


RESTART = f"kubectl --namespace {HOME} rollout restart deployment/berth-controller"


async def test_a_lease_that_nobody_renews(place: Place) -> None:
    await place.lead("berth-controller", ago=timedelta(minutes=5), good_for=15)
    finding = await place.only_complaint("leases")
    assert (finding.severity, finding.subject) == (Severity.error, f"Lease {HOME}/berth-controller")
    # The API server says its time in whole seconds.
    assert 290 <= int(finding.message.split()[3]) <= 330
    assert finding.message.endswith(" s ago by berth-controller-1_ab, and is good for 15 s")
    assert finding.command == RESTART
    await place.type(RESTART)
    await place.lead("berth-controller")
    assert await place.complaints("leases") == []


async def test_a_lease_that_nobody_holds(place: Place) -> None:
    await place.lead("berth-controller", holder="")
    assert (await place.only_complaint("leases")).message == "has no holder"
    await place.client.delete(LEASES, "berth-controller", namespace=HOME)
    assert (await place.only_complaint("leases")).message == "is not there: no replica ever worked"


async def test_a_lease_whose_holder_never_said_when(place: Place) -> None:
    """No replica takes it over: it has to go."""
    await place.lead("berth-controller", holder="ghost")
    await place.change(LEASES, "berth-controller", {"op": "remove", "path": "/spec/renewTime"})
    finding = await place.only_complaint("leases")
    assert finding.message.startswith("is held by ghost, which does not say when it renewed it")
    assert finding.command == f"kubectl --namespace {HOME} delete lease berth-controller"
    await place.type(finding.command)


async def test_without_election_there_is_no_lease(place: Place) -> None:
    await place.client.delete(LEASES, "berth-controller", namespace=HOME)
    path = "/spec/template/spec/containers/0/args/-"
    await place.change(DEPLOYMENTS, "berth-controller", {"op": "add", "path": path, "value": "--no-leader-elect"})
    assert await place.complaints("leases") == []


async def test_the_lease_of_an_agent_is_where_its_rules_are(place: Place) -> None:
    await place.deploy("agent", "--namespace=universe")
    finding = await place.only_complaint("leases")
    assert finding.subject == "Lease universe/berth-agent"


async def test_a_holder_whose_clock_is_ahead(place: Place) -> None:
    """Its node is found by the Pod that holds the Lease."""
    await place.pod("berth-controller-1", "controller")
    await place.lead("berth-controller", ago=timedelta(minutes=-2))
    finding = await place.only_complaint("leases")
    assert finding.severity is Severity.warning
    assert finding.command.startswith("kubectl debug node/node-1 ")


async def test_a_holder_whose_node_is_not_known(place: Place) -> None:
    """Nothing to fill in: the command shows which nodes there are."""
    await place.lead("berth-controller", ago=timedelta(minutes=-2), holder="gone_ab")
    finding = await place.only_complaint("leases")
    selector = "app.kubernetes.io/component=controller,app.kubernetes.io/instance=berth"
    assert finding.command == f"kubectl --namespace {HOME} get pods --selector {selector} --output wide"
    await place.type(finding.command)


async def test_ages_are_told_by_the_clock_of_the_api_server(place: Place) -> None:
    """A doctor whose own clock is wrong complains of that alone."""
    place.patient.later = timedelta(minutes=2)
    finding = await place.only_complaint("leases", "clock")
    assert (finding.check, finding.severity) == ("clock", Severity.warning)


@pytest.mark.parametrize(
    ("seconds", "severity", "message"),
    [
        (-60, Severity.warning, "its clock is 60 s behind the API server's"),
        (3600, Severity.error, "its clock is 3600 s ahead of the API server's"),
    ],
)
async def test_a_clock_that_is_wrong(patient: Patient, seconds: int, severity: Severity, message: str) -> None:
    """The API server's is in each of its answers."""
    place = Place(patient, patient.kubeconfig.parent)
    patient.later = timedelta(seconds=seconds)
    finding = await place.only_complaint("clock")
    assert (finding.subject, finding.severity) == ("this machine", severity)
    assert abs(int(finding.message.split()[3]) - abs(seconds)) <= 2
    assert finding.message.split()[4:] == message.split()[4:]
    assert finding.command == "timedatectl set-ntp true"


async def test_a_node_of_berth_whose_clock_is_ahead(place: Place) -> None:
    """Its kubelet's Lease comes from the future."""
    await place.pod("berth-webhook-1", "webhook")
    renewed = (datetime.now(UTC) + timedelta(minutes=10)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "node-1", "leaseDurationSeconds": 40, "renewTime": renewed}
    await place.patient.create(LEASES, "node-1", namespace="kube-node-lease", spec=spec)
    finding = await place.only_complaint("clock")
    assert (finding.subject, finding.severity) == ("Node node-1", Severity.error)
    assert finding.command.startswith("kubectl debug node/node-1 ")


async def test_a_role_of_a_release_that_is_not_there_is_installed(patient: Patient) -> None:
    place = Place(patient, patient.kubeconfig.parent)
    (finding,) = await place.complaints("deployments", roles=frozenset({"webhook"}))
    assert finding.command == (
        f"helm upgrade --install berth charts/berth --namespace {HOME} --create-namespace --set webhook.enabled=true"
    )


async def test_what_a_stopped_role_leaves_undone_is_below_it(place: Place) -> None:
    """One error: the Lease and the change of a rule follow from it, and are started again, not restarted."""
    await rule(place.patient, ADMIN_RULES, None)
    await place.change(DEPLOYMENTS, "berth-controller", {"op": "replace", "path": "/spec/replicas", "value": 0})
    await place.lead("berth-controller", ago=timedelta(minutes=5), good_for=15)
    place.patient.later = timedelta(minutes=6)
    found = [one for one in await place.examine("deployments", "leases", "rules") if one.severity is Severity.error]
    (cause,) = roots(found)
    assert cause.code == "BERTH0305"
    assert {one.code for one in follow_from(cause, found)} == {"BERTH0403", "BERTH3002"}
    assert {one.command for one in found} == {cause.command}
    assert cause.command == f"kubectl --namespace {HOME} scale deployment/berth-controller --replicas=2"


async def test_what_follows_without_a_controller_goes_by_those_that_it_runs(place: Place) -> None:
    """One without companions makes and removes none."""
    args = {
        "op": "add",
        "path": "/spec/template/spec/containers/0/args",
        "value": ["controller", "--controllers=claims"],
    }
    await place.change(DEPLOYMENTS, "berth-controller", {"op": "replace", "path": "/spec/replicas", "value": 0}, args)
    (stopped,) = [finding for finding in await place.examine("deployments") if finding.code == "BERTH0305"]
    assert stopped.consequence == "its controllers do nothing: claims"
    every = args | {"value": ["controller", "--controllers=claims,workloads"]}
    await place.change(DEPLOYMENTS, "berth-controller", every)
    (stopped,) = [finding for finding in await place.examine("deployments") if finding.code == "BERTH0305"]
    assert stopped.consequence == "no companion is created or removed"


async def test_calls_that_fail_because_the_webhook_is_stopped_are_below_it(place: Place) -> None:
    await place.change(DEPLOYMENTS, "berth-webhook", {"op": "replace", "path": "/spec/replicas", "value": 0})
    await place.change(ENDPOINTS, SERVICE, {"op": "remove", "path": "/subsets"})
    place.patient.cluster.services.clear()
    found = [one for one in await place.examine() if one.severity is Severity.error]
    (cause,) = roots(found)
    assert (cause.code, cause.subject) == ("BERTH0305", DEPLOYMENT)
    (service,) = follow_from(cause, found)
    assert service.code == "BERTH0701"
    assert [one.code for one in follow_from(service, found)] == ["BERTH0704", "BERTH0704"]


async def test_an_agent_is_not_accepted_because_its_other_replica_waits(place: Place) -> None:
    """One of two is ready, because it does not hold the Lease and calls no gateway."""

    async def answer(_request: web.Request) -> web.Response:
        reason = "gateway rules: unavailable: connection refused"
        return web.json_response({"ready": False, "waitingFor": [reason]}, status=503)

    runner = web.AppRunner(web.Application())
    runner.app.router.add_get("/readyz", answer)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    await place.deploy("agent", "--gateway=127.0.0.1:1", f"--health-check-port={port}")
    await place.report("agent", replicas=2, ready=1)
    unready = {"type": "Ready", "status": "False"}
    await place.pod("berth-agent-1", "agent", phase="Running", podIP="10.0.0.9", conditions=[unready])
    pod = await place.client.get(PODS, "berth-agent-1", namespace=HOME)
    place.patient.cluster.state.processes[pod["metadata"]["uid"]] = PodLog("127.0.0.1", Path("none"))
    try:
        (found,) = await place.examine("agent")
    finally:
        await runner.cleanup()
    assert (found.severity, found.code) == (Severity.error, "BERTH2104")
