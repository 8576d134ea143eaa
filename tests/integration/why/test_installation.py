"""Why Berth itself does not work, asked of its Deployments and of its webhook configurations."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from app.kube.resources import DEPLOYMENTS, EVENTS, MUTATING_WEBHOOKS, PODS
from app.permissions import permissions_of
from app.why.model import State
from app.wiring import REGISTRATION_DELETED
from tests.integration.doctor.installation import Place, labels_of
from tests.integration.doctor.patient import HOME

WEBHOOK = "deployment/berth-webhook"


async def test_a_role_that_works_is_fine(place: Place) -> None:
    await place.patient.enroll("webhook", permissions_of("webhook"))
    verdict = (await place.patient.why(WEBHOOK, namespace=HOME)).verdict
    assert "role webhook of Berth works" in verdict.text
    answer = await place.patient.why("mutatingwebhookconfiguration/berth")
    assert (answer.verdict.state, answer.verdict.text) == (State.fine, "calls Berth")


async def test_rights_that_are_missing(place: Place) -> None:
    _, *others = permissions_of("webhook")
    await place.patient.enroll("webhook", others)
    verdict = (await place.patient.why(WEBHOOK, namespace=HOME)).verdict
    assert verdict.state is State.broken
    assert any("may not get, list, watch network-attachment-definitions" in cause for cause in verdict.because)
    assert verdict.codes == ("BERTH0802",)
    assert verdict.fix.startswith("helm upgrade")


async def test_a_configuration_that_was_deleted(place: Place) -> None:
    await place.client.delete(MUTATING_WEBHOOKS, "berth")
    answer = await place.patient.why("mutatingwebhookconfiguration/berth")
    assert (answer.verdict.state, answer.verdict.text) == (State.broken, "does not exist")
    assert answer.verdict.codes[0] == "BERTH0501"
    assert answer.verdict.fix.startswith("helm upgrade")
    assert "BERTH0501" in (await place.patient.why(WEBHOOK, namespace=HOME)).verdict.codes


async def test_an_event_says_when_a_configuration_was_deleted(place: Place) -> None:
    """The object is gone with all that it said; the newest Event of its kind counts."""
    await place.client.delete(MUTATING_WEBHOOKS, "berth")
    for number, (kind, name) in enumerate(
        [("MutatingWebhookConfiguration", "older"), ("MutatingWebhookConfiguration", "berth"), ("Pod", "other")]
    ):
        event = EVENTS.body(
            {"name": f"deleted-{number}", "namespace": "default"},
            involvedObject={"kind": kind, "name": name, "namespace": "default"},
            reason=REGISTRATION_DELETED,
            type="Warning",
            lastTimestamp=f"2026-03-01T10:0{number}:00Z",
        )
        await place.client.create(EVENTS, event, namespace="default")
    answer = await place.patient.why("mutatingwebhookconfiguration/berth")
    assert answer.verdict.because[0].endswith("none calls Berth; berth was deleted at 2026-03-01T10:01:00Z")


async def test_a_bundle_that_trusts_another_authority(place: Place) -> None:
    await place.register("clientConfig/caBundle", "bm90IGEgY2VydGlmaWNhdGU=")
    answer = await place.patient.why("mutatingwebhookconfiguration/berth")
    assert answer.verdict.state is State.broken
    assert answer.verdict.fix


async def test_a_role_that_is_scaled_to_nothing(place: Place) -> None:
    await place.change(DEPLOYMENTS, "berth-webhook", {"op": "replace", "path": "/spec/replicas", "value": 0})
    await place.report("webhook", replicas=0, ready=0)
    verdict = (await place.patient.why(WEBHOOK, namespace=HOME)).verdict
    assert verdict.state is State.broken
    assert any("is scaled to 0" in cause for cause in verdict.because)
    assert verdict.fix == f"kubectl --namespace {HOME} scale deployment/berth-webhook --replicas=2"


async def test_the_doctor_is_asked_once_for_many_objects(place: Place) -> None:
    """Two questions at a time share no state."""
    answers = await asyncio.gather(*(place.patient.why(WEBHOOK, namespace=HOME) for _ in range(2)))
    assert answers[0].verdict == answers[1].verdict


async def test_pods_that_are_refused_because_nobody_answers(place: Place) -> None:
    """No Event of the sandbox says so; the doctor knows it."""
    await place.register("clientConfig", {"url": "https://127.0.0.1:9/mutate", "caBundle": ""})
    await place.register("failurePolicy", "Fail")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await place.patient.create(DEPLOYMENTS, "web", namespace="default", spec=spec)
    verdict = (await place.patient.why("deployment/web")).verdict
    assert verdict.state is State.broken
    assert verdict.because
    assert verdict.fix


async def test_a_certificate_that_has_expired(place: Place) -> None:
    """The registration itself is as it should be, and no call by it succeeds."""
    place.patient.later = timedelta(days=91)
    for asked in ("mutatingwebhookconfiguration/berth", "validatingwebhookconfiguration/berth"):
        verdict = (await place.patient.why(asked)).verdict
        assert verdict.state is State.broken, asked
        assert "BERTH0606" in verdict.codes
        assert verdict.fix


@pytest.mark.parametrize("ready", [0, 2])
@pytest.mark.parametrize("fault", ["certificate", "bundle"])
async def test_deployment_pods_and_configuration_name_one_fault_and_one_fix(
    place: Place, fault: str, ready: int
) -> None:
    """Also where the Pods run well, and where the Deployment says no more than that they do not."""
    await place.patient.enroll("webhook", permissions_of("webhook"))
    await place.report("webhook", replicas=2, ready=ready)
    await place.patient.pod("berth-webhook-1", namespace=HOME, labels=labels_of("webhook"), spec={"nodeName": "node-1"})
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await place.patient.report(PODS, "berth-webhook-1", running, namespace=HOME)
    if fault == "certificate":
        place.patient.later = timedelta(days=91)
    else:
        await place.register("clientConfig/caBundle", "bm90IGEgY2VydGlmaWNhdGU=")
    configuration = (await place.patient.why("mutatingwebhookconfiguration/berth")).verdict
    code = "BERTH0606" if fault == "certificate" else "BERTH0601"
    assert configuration.codes[0] == code
    assert configuration.fix
    deployment = (await place.patient.why(WEBHOOK, namespace=HOME)).verdict
    pod = (await place.patient.why("pod/berth-webhook-1", namespace=HOME)).verdict
    for verdict in (deployment, pod):
        assert (verdict.state, verdict.fix) == (State.broken, configuration.fix)
        assert code in verdict.codes
        assert configuration.because[0] in verdict.because
    assert pod.text == "runs on node-1; its Deployment berth-webhook has a fault as role webhook of Berth"


async def test_a_pod_of_a_role_that_works_is_fine(place: Place) -> None:
    await place.patient.enroll("webhook", permissions_of("webhook"))
    await place.patient.pod("berth-webhook-1", namespace=HOME, labels=labels_of("webhook"), spec={"nodeName": "node-1"})
    running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await place.patient.report(PODS, "berth-webhook-1", running, namespace=HOME)
    verdict = (await place.patient.why("pod/berth-webhook-1", namespace=HOME)).verdict
    assert (verdict.state, verdict.text) == (State.fine, "runs on node-1")


async def test_a_pod_to_be_created_while_berth_cannot_be_called(place: Place) -> None:
    """It asks for what Berth would inject: the API server refuses it."""
    await place.patient.attachment("foo")
    pod = PODS.body(
        {"name": "new", "namespace": "default", "annotations": {"k8s.v1.cni.cncf.io/networks": "foo"}},
        spec={"containers": [{"name": "c", "image": "c"}]},
    )
    assert (await place.patient.why(manifests=[pod])).verdict.text.startswith("would be injected")
    await place.register("clientConfig/caBundle", "bm90IGEgY2VydGlmaWNhdGU=")
    verdict = (await place.patient.why(manifests=[pod])).verdict
    assert verdict.state is State.broken
    assert verdict.text.startswith("would be refused: the API server cannot call Berth")
    assert verdict.fix
