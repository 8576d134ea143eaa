"""Replicas install Berth from inside a cluster: one certificate, nothing deleted, everything repaired."""

from __future__ import annotations

import asyncio
import base64
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from app.certs.certificate_set import load, parse_bundle
from app.certs.folder import make
from app.certs.issuing import serving_names
from app.cli.main import run
from app.errors import ApiError, Terminal
from app.kube.resources import MUTATING_WEBHOOKS, SECRETS, SERVICES, VALIDATING_WEBHOOKS
from app.kube.retry import get_or_none
from app.registration import Installation, install
from app.serving.tls import Pair
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE

NAME = "network-resources-injector"
OURS = Installation()
CONFIGURATIONS = ((MUTATING_WEBHOOKS, OURS.mutating), (VALIDATING_WEBHOOKS, OURS.validating))


async def everything(client) -> list[dict]:
    found = [await client.get(SECRETS, NAME, namespace="kube-system")]
    found.append(await client.get(SERVICES, OURS.service, namespace="kube-system"))
    return found + [await client.get(resource, name) for resource, name in CONFIGURATIONS]


def bundle_of(configuration: dict):
    pem = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])
    return parse_bundle(pem, source="caBundle")


def authority_of(secret: dict):
    return parse_bundle(base64.b64decode(secret["data"]["ca.crt"]), source="ca.crt")[0]


async def test_one_replica_sets_everything_up(client, now) -> None:
    result = await install(client, OURS, now=now)
    secret, service, mutating, validating = await everything(client)
    assert result.issued
    assert result.files == {name: base64.b64decode(secret["data"][name]) for name in ("tls.crt", "tls.key")}
    assert (service["spec"]["ports"][0]["port"], service["spec"]["ports"][0]["targetPort"]) == (443, 8443)
    assert service["spec"]["selector"] == {"app": NAME}
    load(result.files, "tls").certificate.verify_directly_issued_by(authority_of(secret))
    for configuration, path in ((mutating, "/mutate"), (validating, "/validate")):
        (webhook,) = configuration["webhooks"]
        assert bundle_of(configuration) == [authority_of(secret)]
        assert webhook["clientConfig"]["service"]["path"] == path
        assert (webhook["failurePolicy"], webhook["sideEffects"], webhook["timeoutSeconds"]) == (
            "Fail",
            "NoneOnDryRun",
            10,
        )
        assert "matchConditions" not in webhook
        (expression,) = webhook["namespaceSelector"]["matchExpressions"]
        assert expression == {
            "key": "kubernetes.io/metadata.name",
            "operator": "NotIn",
            "values": ["kube-system"],
        }
    assert mutating["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"
    assert mutating["webhooks"][0]["name"] == f"{NAME}-mutating-config.k8s.cni.cncf.io"
    assert validating["webhooks"][0]["rules"][0]["resources"] == ["network-attachment-definitions"]


async def test_replicas_at_once_end_with_one_certificate(client, now) -> None:
    results = await asyncio.gather(*(install(client, OURS, now=now) for _ in range(5)))
    secret, _, mutating, validating = await everything(client)
    assert [result.issued for result in results].count(True) == 1
    assert len({result.files["tls.crt"] for result in results}) == 1
    assert bundle_of(mutating) == bundle_of(validating) == [authority_of(secret)]


async def test_installing_again_changes_nothing(client, now) -> None:
    await install(client, OURS, now=now)
    before = await everything(client)
    result = await install(client, OURS, now=now + timedelta(days=1))
    assert not result.issued
    assert [obj["metadata"]["resourceVersion"] for obj in await everything(client)] == [
        obj["metadata"]["resourceVersion"] for obj in before
    ]


class Dying:
    """A client that goes away before its `survived`-th apply."""

    def __init__(self, client, survived: int) -> None:
        self._client = client
        self._left = survived

    def __getattr__(self, name: str):
        return getattr(self._client, name)

    async def apply(self, *args, **kwargs):
        if not self._left:
            raise ApiError("gone", status=0)
        self._left -= 1
        return await self._client.apply(*args, **kwargs)


@pytest.mark.parametrize("survived", [0, 1, 2])
async def test_a_winner_that_died_half_way_is_repaired_by_the_next(client, now, survived) -> None:
    with pytest.raises(ApiError, match="gone"):
        await install(Dying(client, survived), OURS, now=now)
    result = await install(client, OURS, now=now)
    secret, _, mutating, validating = await everything(client)
    assert not result.issued
    assert bundle_of(mutating) == bundle_of(validating) == [authority_of(secret)]


async def test_what_somebody_deleted_or_changed_is_put_back(client, now) -> None:
    await install(client, OURS, now=now)
    await client.delete(MUTATING_WEBHOOKS, OURS.mutating)
    await client.delete(SERVICES, OURS.service, namespace="kube-system")
    change = [{"op": "add", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
    await client.patch(VALIDATING_WEBHOOKS, OURS.validating, change, patch_type="json")
    await install(client, OURS, now=now)
    *_, validating = await everything(client)
    assert validating["webhooks"][0]["failurePolicy"] == "Fail"


@pytest.mark.parametrize(("told", "seconds"), [(None, 3), (10, 10)])
async def test_what_an_admin_has_set_stays_unless_told_otherwise(client, now, told, seconds) -> None:
    """How long the API server waits, and the port that the webhook listens at; each registration has its own."""
    await install(client, OURS, now=now)
    shorter = [{"op": "replace", "path": "/webhooks/0/timeoutSeconds", "value": 3}]
    await client.patch(MUTATING_WEBHOOKS, OURS.mutating, shorter, patch_type="json")
    port = [{"op": "replace", "path": "/spec/ports/0/targetPort", "value": 6443}]
    await client.patch(SERVICES, OURS.service, port, patch_type="json", namespace="kube-system")
    for _ in range(2):
        await install(client, Installation(timeout_seconds=told), now=now)
    _, service, mutating, validating = await everything(client)
    assert mutating["webhooks"][0]["timeoutSeconds"] == seconds
    assert validating["webhooks"][0]["timeoutSeconds"] == 10
    assert [(one["port"], one["targetPort"]) for one in service["spec"]["ports"]] == [(443, 6443)]


async def test_the_command_sets_a_timeout_only_if_told(client, kubeconfig, tmp_path) -> None:
    waits = []
    for flags in ([], ["--timeout-seconds", "5"], []):
        await asyncio.to_thread(run, command(kubeconfig, tmp_path, *flags)[2:])
        (webhook,) = (await client.get(VALIDATING_WEBHOOKS, OURS.validating))["webhooks"]
        waits.append(webhook["timeoutSeconds"])
    assert waits == [10, 5, 5]


async def test_an_outlived_ca_of_ours_is_dropped(client, now) -> None:
    await install(client, OURS, now=now)
    await install(client, OURS, now=now + timedelta(days=2600))
    await install(client, OURS, now=now + timedelta(days=2600 + 366))
    secret, _, mutating, validating = await everything(client)
    assert bundle_of(mutating) == bundle_of(validating) == [authority_of(secret)]


async def test_another_installers_objects_are_taken_over_in_place(client, now) -> None:
    """Its certificate is replaced, its CA stays trusted while old replicas serve with it, its webhook is updated."""
    theirs = make({}, names=serving_names(service=OURS.service, namespace="kube-system"), now=now)
    data = {name: base64.b64encode(theirs[name]).decode() for name in ("tls.crt", "tls.key")}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "type": "Opaque", "data": data}
    await client.create(SECRETS, secret, namespace="kube-system")
    webhook = {
        "name": f"{NAME}-mutating-config.k8s.cni.cncf.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {
            "service": {"namespace": "kube-system", "name": OURS.service, "path": "/mutate"},
            "caBundle": base64.b64encode(theirs["ca.crt"]).decode(),
        },
        "rules": [{"operations": ["CREATE"], "apiGroups": ["apps", ""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }
    body = {"apiVersion": MUTATING_WEBHOOKS.api_version, "kind": MUTATING_WEBHOOKS.kind, "webhooks": [webhook]}
    created = await client.create(MUTATING_WEBHOOKS, body | {"metadata": {"name": OURS.mutating}})
    result = await install(client, OURS, now=now)
    found, _, mutating, _ = await everything(client)
    assert result.issued
    assert mutating["metadata"]["uid"] == created["metadata"]["uid"]
    assert len(mutating["webhooks"]) == 1
    assert mutating["webhooks"][0]["failurePolicy"] == "Fail"
    assert mutating["webhooks"][0]["rules"][0]["apiGroups"] == [""]
    assert bundle_of(mutating) == [authority_of(found), parse_bundle(theirs["ca.crt"], source="x")[0]]


@pytest.mark.parametrize(
    ("data", "annotations", "what"),
    [
        ({"password": "c2VjcmV0", "tls.crt": "eA=="}, {}, "has password"),
        ({"tls.crt": "eA=="}, {"cert-manager.io/certificate-name": "c"}, "is written by cert-manager"),
    ],
)
async def test_a_secret_that_others_use_stays_as_it_is(client, now, data, annotations, what) -> None:
    """Only its name is that of ours. With the label it is handed over."""
    metadata = {"name": NAME, "annotations": annotations}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
    before = await client.create(SECRETS, secret, namespace="kube-system")
    with pytest.raises(Terminal, match=f"Secret kube-system/{NAME} is not managed by Berth and {what}: nothing is "):
        await install(client, OURS, now=now)
    assert await client.get(SECRETS, NAME, namespace="kube-system") == before
    assert await get_or_none(client, SERVICES, OURS.service, namespace="kube-system") is None
    labels = {"metadata": {"labels": {"app.kubernetes.io/managed-by": "berth"}}}
    await client.patch(SECRETS, NAME, labels, patch_type="merge", namespace="kube-system")
    assert (await install(client, OURS, now=now)).issued


async def test_a_due_certificate_is_renewed_by_one_replica_for_all(client, now) -> None:
    first = await install(client, OURS, now=now)
    results = await asyncio.gather(*(install(client, OURS, now=now + timedelta(days=300)) for _ in range(3)))
    secret, _, mutating, _ = await everything(client)
    assert [result.issued for result in results].count(True) == 1
    assert len({result.files["tls.crt"] for result in results}) == 1
    assert results[0].files != first.files
    assert bundle_of(mutating) == [authority_of(secret)]


async def test_a_due_ca_is_renewed_with_overlap(client, now) -> None:
    await install(client, OURS, now=now)
    old = authority_of((await everything(client))[0])
    await install(client, OURS, now=now + timedelta(days=2600))
    secret, _, mutating, validating = await everything(client)
    assert authority_of(secret) != old
    assert bundle_of(mutating) == bundle_of(validating) == [authority_of(secret), old]


@pytest.mark.parametrize(
    "damage", [{"tls.key": "anVuaw=="}, {"tls.crt": ""}, {"ca-bundle.crt": "LS0t"}, {"ca.key": None}]
)
async def test_a_damaged_secret_is_made_whole(client, now, damage) -> None:
    await install(client, OURS, now=now)
    await client.patch(SECRETS, NAME, {"data": damage}, patch_type="merge", namespace="kube-system")
    result = await install(client, OURS, now=now)
    secret, _, mutating, _ = await everything(client)
    load(result.files, "tls").certificate.verify_directly_issued_by(authority_of(secret))
    assert bundle_of(mutating)[0] == authority_of(secret)
    assert not (await install(client, OURS, now=now)).issued


async def test_a_certificate_of_a_foreign_ca_is_replaced(client, now) -> None:
    """A Secret whose halves come from two writers serves nothing that its own CA did not sign."""
    await install(client, OURS, now=now)
    foreign = make({}, names=serving_names(service=OURS.service, namespace="kube-system"), now=now)
    data = {name: base64.b64encode(foreign[name]).decode() for name in ("tls.crt", "tls.key")}
    await client.patch(SECRETS, NAME, {"data": data}, patch_type="merge", namespace="kube-system")
    result = await install(client, OURS, now=now)
    assert result.issued
    authority = authority_of((await everything(client))[0])
    load(result.files, "tls").certificate.verify_directly_issued_by(authority)


class Overtaken:
    """A client that reads a webhook configuration just before a rival makes it trust one more CA."""

    def __init__(self, client, bundle: str) -> None:
        self._client = client
        self._bundle = bundle

    def __getattr__(self, name: str):
        return getattr(self._client, name)

    async def get(self, resource, name, *, namespace=None):
        found = await self._client.get(resource, name, namespace=namespace)
        if resource is MUTATING_WEBHOOKS and self._bundle:
            change = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": self._bundle}]
            self._bundle = ""
            await self._client.patch(resource, name, change, patch_type="json")
        return found


async def test_a_rivals_ca_is_never_lost(client, now) -> None:
    """A rival that renewed the CA between our read and our write keeps its trust: we read again."""
    await install(client, OURS, now=now)
    rival = make({}, names=serving_names(), now=now)["ca.crt"]
    overtaken = Overtaken(client, base64.b64encode(rival).decode())
    await install(overtaken, Installation(failure_policy="Ignore"), now=now, sleep=lambda _: asyncio.sleep(0))
    secret, _, mutating, _ = await everything(client)
    assert mutating["webhooks"][0]["failurePolicy"] == "Ignore"
    assert bundle_of(mutating) == [authority_of(secret), *parse_bundle(rival, source="rival")]


async def test_other_names_get_another_certificate_of_the_same_ca(client, now) -> None:
    await install(client, OURS, now=now)
    before = authority_of((await everything(client))[0])
    result = await install(client, Installation(dns=("berth.example",)), now=now)
    assert result.issued
    assert authority_of((await everything(client))[0]) == before


def command(kubeconfig: str, directory: Path, *arguments: str) -> list[str]:
    return [*["-m", "app", "certs", "install", "--kubeconfig"], kubeconfig, "--dir", str(directory), *arguments]


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=-1, stderr=-1, cwd=ROOT)


async def test_two_processes_install_at_once_with_the_flags_of_the_other_installer(
    client, kubeconfig, tmp_path
) -> None:
    flags = ["-name", "inj", "-namespace=default", "--failure-policy", " ignore ", "-alsologtostderr=true", "-v", "4"]
    directories = [tmp_path / "one", tmp_path / "two"]
    replicas = [await start(*command(kubeconfig, directory, *flags)) for directory in directories]
    outputs = [await replica.communicate() for replica in replicas]
    assert [replica.returncode for replica in replicas] == [0, 0], outputs
    pairs = [Pair.read(directory / "tls.crt", directory / "tls.key") for directory in directories]
    assert pairs[0].certificate == pairs[1].certificate
    origins = sorted(out.decode().partition(",")[0] for out, _ in outputs)
    assert origins == ["certificate issued", "certificate taken from Secret default/inj"]
    found = await client.get(MUTATING_WEBHOOKS, "inj-mutating-config")
    (webhook,) = found["webhooks"]
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["clientConfig"]["service"]["name"] == "inj-service"
    assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["kube-system", "default"]


async def test_a_process_that_stays_repairs_at_every_turn(client, kubeconfig, tmp_path) -> None:
    process = await start(*command(kubeconfig, tmp_path / "tls", "--every", "1"))
    try:
        assert process.stdout is not None
        await process.stdout.readuntil(b"are in place\n")
        await client.delete(MUTATING_WEBHOOKS, OURS.mutating)
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    await client.get(MUTATING_WEBHOOKS, OURS.mutating)
                    break
                except ApiError:
                    await asyncio.sleep(0.1)
    finally:
        process.terminate()
        _, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
