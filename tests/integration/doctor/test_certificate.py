"""Trust that does not fit what is served, certificates that end, and the commands that mend both."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

import pytest

from app.certs.folder import make, write_files
from app.certs.issuing import issue_authority, serving_names
from app.doctor.certificate import Keeping
from app.doctor.model import Finding, Severity, roots
from app.doctor.webhooks import Registered
from app.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, SECRETS, SERVICES
from tests.integration.doctor.command_lines import checked
from tests.integration.doctor.installation import SECRET, SERVICE, Place
from tests.integration.doctor.patient import HOME

WEBHOOK = "MutatingWebhookConfiguration berth, webhook pods.berth.dev"
RESTART = f"kubectl --namespace {HOME} rollout restart deployment/berth-certificates"


def issued(
    *, names: tuple[str, str] = (SERVICE, HOME), ago: timedelta = timedelta(), days: int = 90
) -> dict[str, bytes]:
    """The files of another CA."""
    service, namespace = names
    return make({}, names=serving_names(service=service, namespace=namespace), now=datetime.now(UTC) - ago, days=days)


OTHER = issue_authority(common_name="other", now=datetime.now(UTC), days=30)
OLD = issue_authority(common_name="old", now=datetime.now(UTC) - timedelta(days=40), days=30)


def bundle(files: dict[str, bytes]) -> str:
    return base64.b64encode(files["ca.crt"]).decode()


async def test_the_bundle_of_another_ca(place: Place) -> None:
    """Seen in the Secret, and by the API server; the command has the configuration trust the CA of the Secret."""
    await place.register("clientConfig/caBundle", bundle(issued()))
    seen, called = await place.complaints()
    assert (seen.check, seen.severity, seen.subject) == ("certificate", Severity.error, WEBHOOK)
    assert seen.message.startswith(f"its caBundle does not verify the certificate in Secret {HOME}/{SECRET} (issued by")
    assert called.check == "reachability"
    assert "the API server cannot call Berth" in called.message
    assert seen.command == (
        f"kubectl --namespace {HOME} get secret {SECRET} --output "
        "'go-template={{index .data \"ca-bundle.crt\" | base64decode}}' | "
        f"berth certs patch --ca /dev/stdin --service {HOME}/{SERVICE} berth"
    )
    await place.mends(seen)


async def test_a_bundle_that_is_empty(place: Place) -> None:
    """The API server would take the system's CAs, none of which signed what Berth serves."""
    await place.register("clientConfig/caBundle", "")
    seen, *_ = await place.complaints("certificate")
    assert seen.message == "has no caBundle"
    await place.mends(seen)


async def test_a_bundle_that_is_over(place: Place) -> None:
    """The CA itself has expired; so has what it signed."""
    place.patient.later = timedelta(days=20 * 365)
    findings = await place.complaints("certificate")
    assert {one.message.partition(" on ")[0] for one in findings} == {"its caBundle expired", "expired"}
    assert {one.severity for one in findings} == {Severity.error}


@pytest.mark.parametrize(
    ("days", "message"),
    [(-1, "is not valid before"), (50, None), (75, "expires on"), (91, "expired on")],
)
async def test_the_dates_of_the_certificate(place: Place, days: int, message: str | None) -> None:
    """Of 90 days: renewal is due after 60, overdue a week later. Whoever keeps the certificate is started anew."""
    place.patient.later = timedelta(days=days)
    findings = [one for one in await place.complaints("certificate") if "caBundle" not in one.message]
    if message is None:
        assert findings == []
        return
    (finding,) = findings
    assert finding.subject == f"the certificate in Secret {HOME}/{SECRET}"
    assert finding.message.startswith(message)
    assert finding.severity is (Severity.warning if days == 75 else Severity.error)
    assert finding.command == RESTART


@pytest.mark.parametrize("days", [75, 91])
async def test_a_certificate_with_a_fault_is_well_for_no_webhook_that_it_serves(place: Place, days: int) -> None:
    """Two configurations call the same Service: what is wrong is said once, and of neither that all is well."""
    place.patient.later = timedelta(days=days)
    findings = await place.examine("certificate")
    assert [one.code for one in findings] == ["BERTH0606" if days == 91 else "BERTH0608"]
    place.patient.later = timedelta()
    (well,) = await place.examine("certificate")
    assert well.severity is Severity.ok
    assert well.subject == "berth/pods.berth.dev, berth/attachments.berth.dev"


async def test_a_certificate_for_another_service(place: Place) -> None:
    files = make(place.files, names=serving_names(service="other", namespace=HOME), now=datetime.now(UTC))
    await place.store(files)
    finding = await place.only_complaint("certificate")
    assert finding.message.endswith(f"not for {SERVICE}.{HOME}.svc")
    assert finding.severity is Severity.error


async def test_a_secret_of_somebody_else_in_the_place_of_ours(place: Place) -> None:
    """To start the keeper anew would not do: it leaves alone what lacks its label."""
    await place.store(make(place.files, names=serving_names(service="x", namespace=HOME), now=datetime.now(UTC)))
    await place.change(SECRETS, SECRET, {"op": "remove", "path": "/metadata/labels"})
    finding = await place.only_complaint("certificate")
    assert f"Secret {HOME}/{SECRET} is not managed by Berth" in finding.message
    assert f"kubectl --namespace {HOME} label secret {SECRET} app.kubernetes.io/managed-by=berth" in finding.message
    assert "so Berth does not write it: it has ca-bundle.crt, ca.crt, ca.key and 2 more, was written by " in (
        finding.message
    )
    # What it has may be of use to others: nothing deletes it.
    assert finding.command == f"kubectl --namespace {HOME} describe secret {SECRET}"
    await place.patient.run(finding.command)
    broken = {"op": "replace", "path": "/data/tls.crt", "value": base64.b64encode(b"-----BEGIN CERTIFICATE").decode()}
    await place.change(SECRETS, SECRET, broken)
    found = await place.complaints("certificate")
    assert {one.command for one in found} == {finding.command}


async def test_the_secret_has_the_name_that_the_deployments_say(place: Place) -> None:
    """What the webhook mounts, else what the keeper writes; the usual name holds something of old."""
    await place.store(issued(names=("old", HOME)))
    await place.store(place.files, name="prod-webhook-tls")
    path = "/spec/template/spec/volumes/0/secret/secretName"
    await place.change(DEPLOYMENTS, "berth-webhook", {"op": "replace", "path": path, "value": "prod-webhook-tls"})
    assert await place.complaints("certificate") == []
    await place.change(DEPLOYMENTS, "berth-webhook", {"op": "remove", "path": "/spec/template/spec/volumes"})
    argument = {
        "op": "add",
        "path": "/spec/template/spec/containers/0/args/-",
        "value": "--webhook-secret=prod-webhook-tls",
    }
    await place.change(DEPLOYMENTS, "berth-certificates", argument)
    assert await place.complaints("certificate") == []


async def test_a_missing_secret(place: Place) -> None:
    await place.client.delete(SECRETS, SECRET, namespace=HOME)
    findings = await place.complaints("certificate")
    assert findings[0].message == f"no Secret in {HOME} holds a certificate for Service {SERVICE}"
    assert findings[0].command == RESTART
    await place.change(DEPLOYMENTS, "berth-certificates", {"op": "remove", "path": "/metadata/labels"})
    await place.client.delete(DEPLOYMENTS, "berth-certificates", namespace=HOME)
    finding, *_ = await place.complaints("certificate")
    assert finding.command.startswith("helm upgrade berth charts/berth ")
    assert finding.command.endswith("--set certificates.mode=self-managed")


async def test_a_broken_secret(place: Place) -> None:
    await place.store({"tls.crt": b"-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----\n"})
    finding, *_ = await place.complaints("certificate")
    assert finding.severity is Severity.error
    assert "cannot be read" in finding.message


async def test_the_certificate_of_cert_manager_is_renewed_there(place: Place) -> None:
    note = {"op": "add", "path": "/metadata/annotations", "value": {"cert-manager.io/certificate-name": "berth-tls"}}
    await place.change(SECRETS, SECRET, note)
    place.patient.later = timedelta(days=75)
    finding = await place.only_complaint("certificate")
    assert finding.command == f"cmctl renew berth-tls --namespace {HOME}"


async def test_the_secret_of_a_gateway_that_cert_manager_keeps(place: Place) -> None:
    """What a command of Berth would write there, cert-manager would replace, or the Secret is not Berth's."""
    await place.deploy("gateway", volumes=[{"name": "tls", "secret": {"secretName": "gateway-tls"}}])
    await place.store(issued(), name="gateway-tls")
    note = {"op": "add", "path": "/metadata/annotations", "value": {"cert-manager.io/certificate-name": "of-gateway"}}
    await place.change(SECRETS, "gateway-tls", note)
    place.patient.later = timedelta(days=75)
    finding = next(one for one in await place.complaints("certificate") if "gateway-tls" in one.subject)
    assert finding.command == f"cmctl renew of-gateway --namespace {HOME}"


@pytest.mark.parametrize(
    ("days", "severity", "word"), [(50, None, ""), (75, Severity.warning, "expires"), (91, Severity.error, "expired")]
)
async def test_the_certificates_of_gateway_and_agent(
    place: Place, days: int, severity: Severity | None, word: str
) -> None:
    """The one is kept by the role of the certificates, the other by whoever enrolled the tenant."""
    for role, name in (("gateway", "berth-gateway-tls"), ("agent", "berth-agent")):
        await place.deploy(role, "--tenant=blue", volumes=[{"name": "tls", "secret": {"secretName": name}}])
        await place.store(place.files, name=name)
    place.patient.later = timedelta(days=days)
    found = {one.subject: one for one in await place.complaints("certificate")}
    gateway, agent = found.get(f"Secret {HOME}/berth-gateway-tls"), found.get(f"Secret {HOME}/berth-agent")
    if severity is None or gateway is None or agent is None:
        assert (severity, gateway, agent) == (None, None, None)
        return
    assert {gateway.severity, agent.severity} == {severity}
    assert gateway.message.startswith(f"its certificate {word} on ")
    assert gateway.command == RESTART
    assert agent.command == RENEW


RENEW = (
    f"berth tenant rotate blue --kubeconfig INFRA --agent-namespace {HOME} && kubectl apply -f tenant-blue/secret.yaml"
    "  # INFRA: the kubeconfig of the infra cluster"
)


@pytest.mark.parametrize(
    ("code", "files", "message"),
    [
        ("BERTH0603", {"tls.crt": b"garbage"}, "its files cannot be used: tls.crt: no PEM certificate: "),
        ("BERTH0603", {"tls.key": b"garbage"}, "its files cannot be used: tls.key: no PEM private key "),
        ("BERTH0603", {"ca.crt": b"garbage"}, "its files cannot be used: ca.crt: no PEM certificate: "),
        ("BERTH0603", {"tls.key": OTHER.key_pem}, "its files cannot be used: tls.key is not the key of tls.crt"),
        ("BERTH0606", {"ca.crt": OLD.certificate_pem}, "its ca.crt expired on "),
        ("BERTH0610", {"tls.key": b"", "ca.crt": b""}, "has no tls.key, ca.crt"),
    ],
)
async def test_a_secret_whose_files_cannot_be_used(
    place: Place, code: str, files: dict[str, bytes], message: str
) -> None:
    """That of the agent; what is not ready follows from it. No part of a key is shown."""
    volume = {"name": "tls", "secret": {"secretName": "berth-agent"}}
    await place.deploy("agent", "--tenant=blue", volumes=[volume])
    await place.store({**place.files, **files}, name="berth-agent")
    await place.report("agent", replicas=2, ready=0)
    found = {one.code: one for one in await place.complaints("certificate", "deployments")}
    assert set(found) == {code, "BERTH0306"}
    assert found[code].message.startswith(message)
    assert found[code].command == RENEW
    assert found["BERTH0306"].cause == found[code]
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    await place.pod("berth-agent-1", "agent", containerStatuses=[{"name": "agent", "state": waiting}])
    assert {one.code for one in roots(await place.complaints("certificate", "deployments"))} == {code, "BERTH0306"}
    await place.store(place.files, name="berth-agent")
    assert await place.complaints("certificate") == []


@pytest.mark.parametrize("files", [None, {"tls.crt": b"garbage"}])
async def test_the_secret_of_a_gateway_without_the_role_that_keeps_it(
    place: Place, files: dict[str, bytes] | None
) -> None:
    await place.client.delete(DEPLOYMENTS, "berth-certificates", namespace=HOME)
    await place.deploy("gateway", volumes=[{"name": "tls", "secret": {"secretName": "berth-gateway-tls"}}])
    if files is not None:
        await place.store({**place.files, **files}, name="berth-gateway-tls")
    finding = await place.only_complaint("certificate")
    assert (finding.subject, finding.severity) == (f"Secret {HOME}/berth-gateway-tls", Severity.error)
    assert finding.command == f"berth tenant authority --berth-namespace {HOME}"
    await place.type(finding.command)
    assert await place.complaints("certificate") == []


async def test_a_secret_that_is_mounted_under_another_name(place: Place) -> None:
    """It is found by where the flag says that the certificate is, and written by kubectl: no bundle has its name."""
    volumes = [{"name": name, "secret": {"secretName": name}} for name in ("metrics-ca", "own")]
    await place.deploy("agent", "--tenant=blue", "--tls-cert-file=/tls/tls.crt", volumes=volumes)
    mounts = [{"name": "metrics-ca", "mountPath": "/ca"}, {"name": "own", "mountPath": "/tls"}]
    path = "/spec/template/spec/containers/0/volumeMounts"
    await place.change(DEPLOYMENTS, "berth-agent", {"op": "add", "path": path, "value": mounts})
    finding = await place.only_complaint("certificate")
    assert (finding.subject, finding.message) == (f"Secret {HOME}/own", "is missing")
    folder = place.folder / "tenant-blue"
    folder.mkdir()
    write_files(folder, place.files)
    _, _, writes = finding.command.partition(" && ")
    await place.patient.run(writes, cwd=place.folder)
    assert await place.complaints("certificate") == []


PAGE_SECRET = f"Secret {HOME}/berth-ui-tls"
MOUNTED = [{"name": "tls", "secret": {"secretName": "berth-ui-tls"}}]


async def test_the_secret_of_the_page(place: Place) -> None:
    """The role of the certificates keeps it; it needs no ca.crt. One that is foreign is shown, and not written."""
    await place.deploy("ui", volumes=MOUNTED)
    await place.client.delete(DEPLOYMENTS, "berth-certificates", namespace=HOME)
    await place.deploy("certificates", "--ui-service=berth-ui")
    missing = await place.only_complaint("certificate")
    assert (missing.code, missing.subject, missing.command) == ("BERTH0610", PAGE_SECRET, RESTART)
    await place.store({**place.files, "ca.crt": b""}, name="berth-ui-tls")
    assert await place.complaints("certificate") == []
    await place.store({**place.files, "tls.key": OTHER.key_pem}, name="berth-ui-tls")
    await place.change(SECRETS, "berth-ui-tls", {"op": "remove", "path": "/metadata/labels"})
    broken = await place.only_complaint("certificate")
    assert (broken.code, broken.subject) == ("BERTH0603", PAGE_SECRET)
    assert broken.command == f"kubectl --namespace {HOME} describe secret berth-ui-tls"


async def test_the_secret_of_the_page_that_the_user_provides(place: Place) -> None:
    await place.deploy("ui", volumes=MOUNTED)
    missing = await place.only_complaint("certificate")
    write_files(place.folder, place.files)
    await place.patient.run(missing.command, cwd=place.folder)
    assert await place.complaints("certificate") == []


async def test_what_is_served_counts_more_than_the_secret(place: Place) -> None:
    """A webhook at a URL is asked itself; another certificate than the configuration trusts is found at once."""
    host, port = place.address
    files = make({}, names=serving_names(addresses=("127.0.0.1",)), now=datetime.now(UTC))
    calling = {"url": f"https://{host}:{port}/mutate", "caBundle": bundle(place.files)}
    await place.register("clientConfig", calling)

    async def seen() -> str:
        found = await place.complaints("certificate")
        return next((one.message for one in found if one.subject == WEBHOOK), "")

    async with place.serving(files):
        assert (await seen()).startswith(f"its caBundle does not verify the certificate served at {host}:{port}")
        await place.register("clientConfig/caBundle", bundle(files))
        assert await seen() == ""


async def test_inside_the_cluster_a_service_is_asked_itself(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its address answers there: what it serves is looked at, not what the Secret holds."""
    host, port = place.address
    place.patient.cluster.services[HOME, SERVICE, port] = (host, port)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    service = await place.client.get(SERVICES, SERVICE, namespace=HOME)
    await place.client.delete(SERVICES, SERVICE, namespace=HOME)
    spec = service["spec"] | {"clusterIP": host, "clusterIPs": [host], "ports": [{"name": "https", "port": port}]}
    await place.patient.create(SERVICES, SERVICE, namespace=HOME, spec=spec)
    await place.register("clientConfig/service/port", port)
    await place.store(issued())
    findings = await place.examine("certificate")
    assert f"served at {host}:{port}" in " ".join(one.message for one in findings if one.severity is Severity.ok)


async def test_the_commands_for_a_webhook_that_is_called_by_a_url_exist() -> None:
    """No Secret and no role of Berth has its certificate."""
    url = "https://192.0.2.1:8443/mutate"
    one = Registered(MUTATING_WEBHOOKS, {"metadata": {"name": "berth"}}, 0, {"clientConfig": {"url": url}})
    nowhere = Keeping()
    for work in (nowhere.reissue(None, one, None), nowhere.trust(None, one, None)):  # type: ignore[arg-type]  # neither looks at a cluster
        command = await work
        assert command.startswith("berth certs ")
        checked([Finding("certificate", Severity.ok, "", "", "", command)])
    with pytest.raises(AssertionError, match="there is no command"):
        checked([Finding("certificate", Severity.ok, "", "", "", "berth certs generate")])
