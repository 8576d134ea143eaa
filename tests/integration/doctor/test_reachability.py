"""Services with nobody behind them, and what the API server says when it calls."""

from __future__ import annotations

import asyncio
import json
import ssl
from datetime import UTC, datetime, timedelta

from app.doctor.model import Severity
from app.doctor.reachability import CHECK
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    EVENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NETWORK_ATTACHMENTS,
    PODS,
    ROLE_BINDINGS,
    SERVICES,
)
from tests.integration.doctor.installation import ENDPOINTS, SERVICE, Place
from tests.integration.doctor.patient import HOME, RBAC, Patient

SUBJECT = f"Service {HOME}/{SERVICE}"
UPGRADE = f"helm upgrade berth charts/berth --namespace {HOME} --reset-then-reuse-values --set webhook.enabled=true"
DESCRIBE = (
    f"kubectl --namespace {HOME} describe pods --selector "
    "app.kubernetes.io/component=webhook,app.kubernetes.io/instance=berth"
)


async def test_a_service_that_is_gone(place: Place) -> None:
    await place.client.delete(SERVICES, SERVICE, namespace=HOME)
    finding = await place.only_complaint("reachability")
    assert (finding.severity, finding.subject) == (Severity.error, SUBJECT)
    assert finding.message == "is not there, and MutatingWebhookConfiguration berth calls it"
    assert finding.consequence == "no Pod for which Berth is called can be created"
    assert finding.command == UPGRADE


async def test_a_port_that_is_not_there(place: Place) -> None:
    await place.change(SERVICES, SERVICE, {"op": "replace", "path": "/spec/ports/0/port", "value": 8443})
    finding = await place.only_complaint("reachability")
    assert finding.message == "has no port 443, which is called (it has 8443)"


async def test_nobody_is_ready(place: Place) -> None:
    """The Pods' events say why."""
    await place.change(ENDPOINTS, SERVICE, {"op": "remove", "path": "/subsets"})
    finding = await place.only_complaint("reachability")
    assert (finding.subject, finding.message) == (SUBJECT, "has no Pod behind it that is ready")
    assert finding.command == DESCRIBE
    await place.type(finding.command)


async def test_nobody_is_there_to_be_ready(place: Place) -> None:
    """Scaled to nothing: the command scales."""
    await place.change(ENDPOINTS, SERVICE, {"op": "remove", "path": "/subsets"})
    await place.change(DEPLOYMENTS, "berth-webhook", {"op": "replace", "path": "/spec/replicas", "value": 0})
    finding = await place.only_complaint("reachability")
    assert finding.command == f"kubectl --namespace {HOME} scale deployment/berth-webhook --replicas=2"


async def test_a_service_that_selects_others(place: Place) -> None:
    await place.change(ENDPOINTS, SERVICE, {"op": "remove", "path": "/subsets"})
    await place.change(SERVICES, SERVICE, {"op": "replace", "path": "/spec/selector", "value": {"app": "other"}})
    finding = await place.only_complaint("reachability")
    assert finding.message == f"selects no Pod of Deployment {HOME}/berth-webhook"


async def test_a_webhook_that_is_away(place: Place) -> None:
    """Both kinds of review: the API server itself says that it cannot call."""
    place.patient.cluster.services[HOME, SERVICE, 443] = ("127.0.0.1", 9)
    findings = await place.complaints("reachability")
    assert [one.severity for one in findings] == [Severity.error] * 2
    assert all(one.message.startswith("the API server cannot call Berth: Post ") for one in findings)
    assert {one.command for one in findings} == {DESCRIBE}


async def test_a_webhook_that_is_away_and_ignored(place: Place) -> None:
    """Nobody is told by the API server: the Pod with a network that is none is admitted, and that is the proof."""
    await place.register("failurePolicy", "Ignore")
    place.patient.cluster.services[HOME, SERVICE, 443] = ("127.0.0.1", 9)
    finding, _ = await place.complaints("reachability")
    assert "Berth was not asked, or did not answer (failurePolicy is Ignore)" in finding.message
    assert finding.command.startswith("kubectl get --raw /metrics")


async def test_nothing_is_stored_by_probing(place: Place) -> None:
    await place.client.delete(MUTATING_WEBHOOKS, "berth")
    await place.examine("reachability")
    for resource in (PODS, NETWORK_ATTACHMENTS):
        assert (await place.client.list_page(resource)).items == []


async def test_the_probe_takes_a_namespace_that_is_called_for(place: Place) -> None:
    """Where `default` is left out, another; where all are, that is said."""
    selector = {"matchExpressions": [{"key": "network", "operator": "Exists"}]}
    await place.register("namespaceSelector", selector)
    findings = await place.examine("reachability")
    (told,) = [one for one in findings if one.severity is Severity.info]
    assert told.message.startswith("no namespace is left for a probe")
    await place.client.create(NAMESPACES, {"metadata": {"name": "nets", "labels": {"network": "yes"}}})
    assert {one.severity for one in await place.examine("reachability")} == {Severity.ok}


async def test_a_kind_that_is_not_defined_is_not_probed(place: Place) -> None:
    await place.client.delete(CUSTOM_RESOURCE_DEFINITIONS, "network-attachment-definitions.k8s.cni.cncf.io")
    assert len(await place.examine("reachability")) == 1


async def test_somebody_else_may_refuse_the_probe(place: Place) -> None:
    """Another webhook, that is away: that says nothing about Berth."""
    hook = {
        "name": "aaa.other.example",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:9/no"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "sideEffects": "None",
        "timeoutSeconds": 1,
    }
    await place.patient.create(MUTATING_WEBHOOKS, "aaa", webhooks=[hook])
    findings = await place.examine("reachability")
    (told,) = [one for one in findings if one.severity is Severity.info]
    assert told.message.startswith("not tried: a Pod that Berth refuses was refused for another reason")


async def test_a_registration_by_hand_of_a_service_that_nobody_makes(patient: Patient) -> None:
    """No release owns it, none can be upgraded: it can only go."""
    place = Place(patient, patient.kubeconfig.parent)
    await patient.register(clientConfig={"service": {"namespace": HOME, "name": "gone", "path": "/mutate"}})
    finding, *_ = await place.complaints("reachability")
    assert finding.subject == f"Service {HOME}/gone"
    assert finding.command == (
        "kubectl delete mutatingwebhookconfiguration,validatingwebhookconfiguration berth --ignore-not-found"
    )


async def test_a_port_that_a_registration_has_wrong(place: Place) -> None:
    """The Service has but one: that is set."""
    await place.register("clientConfig/service/port", 8443)
    finding, *_ = await place.complaints("reachability")
    assert finding.message == "has no port 8443, which is called (it has 443)"
    await place.mends(finding)


async def test_what_a_failing_server_says_is_readable(place: Place) -> None:
    """The API server quotes the answer escaped, and cut."""
    said = {"kind": "Status", "apiVersion": "v1", "message": 'no "cache" is left', "details": {"x": "y" * 2000}}
    body = json.dumps(said).encode()
    head = f"HTTP/1.1 500 Internal\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(head + body)
        await writer.drain()
        writer.close()

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(place.folder / "tls" / "tls.crt", place.folder / "tls" / "tls.key")
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        place.patient.cluster.services[HOME, SERVICE, 443] = server.sockets[0].getsockname()
        finding, *_ = await place.complaints("reachability")
    assert finding.message == (
        'the API server cannot call Berth: it answers with an error of the server: no "cache" is left'
    )


async def test_a_namespace_whose_pods_are_refused(place: Place) -> None:
    """The doctor of one namespace says so, and so does why of a Pod that is not there."""
    patient = place.patient
    assert await patient.complaints(CHECK, scope="default") == []
    assert (await patient.why("pod/gone")).verdict.next.startswith("berth why -f FILE")
    patient.cluster.services[HOME, SERVICE, 443] = ("127.0.0.1", 9)
    (finding,) = await patient.complaints(CHECK, scope="default")
    assert (finding.severity, finding.code, finding.subject) == (Severity.error, "BERTH0704", "Namespace default")
    assert finding.message.startswith("the API server cannot call Berth: Post ")
    assert finding.command == f"berth doctor --berth-namespace {HOME}"
    verdict = (await patient.why("pod/gone")).verdict
    assert verdict.so == "new Pods that ask for something are refused: the API server cannot call Berth"
    assert "BERTH0704" in verdict.codes


async def test_a_user_who_may_create_no_pods_learns_it_from_events(place: Place) -> None:
    """The newest that tells how a Pod was created: the call may work again."""
    patient = place.patient
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}
    subjects = [{"kind": "User", "apiGroup": RBAC, "name": "ann"}]
    await patient.create(ROLE_BINDINGS, "ann", namespace="default", roleRef=reference, subjects=subjects)
    ann = patient.kubeconfig_of("ann")
    patient.cluster.services[HOME, SERVICE, 443] = ("127.0.0.1", 9)
    assert await patient.complaints(CHECK, scope="default", kubeconfig=ann) == []

    async def tell(reason: str, message: str, at: timedelta) -> None:
        about = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "namespace": "default"}
        when = (datetime.now(UTC) + at).strftime("%Y-%m-%dT%H:%M:%SZ")
        fields = {"involvedObject": about, "reason": reason, "message": message, "lastTimestamp": when}
        await patient.create(EVENTS, reason.lower(), namespace="default", **fields)

    text = 'Internal error occurred: failed calling webhook "pods.berth.dev": failed to call webhook: no route'
    await tell("FailedCreate", f"Error creating: {text}", timedelta(minutes=-1))
    (finding,) = await patient.complaints(CHECK, scope="default", kubeconfig=ann)
    assert finding.message.startswith("the API server cannot call Berth: no route (an Event of ")
    verdict = (await patient.why("pod/gone", kubeconfig=ann)).verdict
    assert verdict.because[-1].startswith("the API server cannot call Berth: no route")
    patient.later = timedelta(hours=1)
    assert await patient.complaints(CHECK, scope="default", kubeconfig=ann) == []
    patient.later = timedelta()
    await tell("SuccessfulCreate", "Created pod: web-1", timedelta())
    assert await patient.complaints(CHECK, scope="default", kubeconfig=ann) == []
