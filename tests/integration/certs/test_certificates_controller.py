"""`berth certificates`: processes with the role's own permissions heal, renew and agree for as long as they run."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from app.certs.certificate_set import load, parse_bundle
from app.certs.controller import RENEW, Keeper, Kept, Subject, WebhookCertificates
from app.errors import ApiError, UsageError
from app.kube.kit import Kit
from app.kube.resources import EVENTS, MUTATING_WEBHOOKS, NAMESPACES, SECRETS, VALIDATING_WEBHOOKS
from app.kube.retry import get_or_none
from app.permissions import permissions_of
from app.registry import BY_NAME, settings_of
from app.runtime.composing import compose
from app.tenancy.model import ADMIN_SECRET, CA_SECRET, SERVING_SECRET
from app.text import utc_now
from tests.integration.certs.berthprocess import berth
from tests.integration.certs.registered import (
    NAME,
    NAMESPACE,
    SECRET,
    SETTINGS,
    bundles,
    change,
    configuration,
    register,
    stored,
)
from tests.support.processes import Berth
from tests.support.rbac import allow
from tests.support.waiting import eventually

CertificatesSettings = settings_of("certificates")

USER = "system:serviceaccount:berth:berth-certificates"
FLAGS = ("certificates", "--namespace", NAMESPACE)


@pytest.fixture
def limited(cluster, tmp_path) -> str:
    """The kubeconfig of the role's ServiceAccount, which may do what the table says and no more."""
    path = tmp_path / "limited.kubeconfig"
    path.write_text(cluster.kubeconfig(user=USER, groups=()))
    return str(path)


async def keeps(client: Any) -> bool:
    """Whether every webhook trusts the CA that has signed what the Secret holds."""
    if await get_or_none(client, SECRETS, SECRET, namespace=NAMESPACE) is None:
        return False
    files = await stored(client)
    if not {"ca.crt", "ca.key", "tls.crt", "tls.key"} <= files.keys():
        return False
    with contextlib.suppress(UsageError, ValueError):
        load(files, "tls").certificate.verify_directly_issued_by(load(files, "ca").certificate)
        authority = parse_bundle(files["ca.crt"], source="ca.crt")[0]
        return all(authority in trusted for trusted in await bundles(client))
    return False


async def test_two_at_once_agree_and_heal_what_is_broken(client, limited) -> None:
    """From nothing, with the permissions of the table: each step is made by hand and mended by them."""
    await allow(client, USER, permissions_of("certificates"), role="certificates", release=NAMESPACE)
    await register(client)
    flags = (*FLAGS, "--kubeconfig", limited)
    async with berth(*flags) as one, berth(*flags) as two:
        for process in (one, two):
            await process.until_ready()
        assert await keeps(client)
        first = await stored(client)
        assert await counted(one) + await counted(two) == 1

        await client.delete(SECRETS, SECRET, namespace=NAMESPACE)
        await eventually(lambda: keeps(client))
        assert await stored(client) == first

        await change(client, {"data": {"tls.crt": ""}})
        await eventually(lambda: keeps(client))

        await client.delete(MUTATING_WEBHOOKS, NAME)
        await client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS))
        removed = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        await client.patch(VALIDATING_WEBHOOKS, NAME, removed, patch_type="json")
        await eventually(lambda: keeps(client))
        assert (await stored(client))["ca.crt"] == first["ca.crt"]
        assert [await process.ready() for process in (one, two)] == [True, True]


async def counted(process: Berth) -> float:
    _, text = await process.get("/metrics")
    (line,) = (line for line in text.splitlines() if line.startswith(f'cert_renewals_total{{secret="{SECRET}"}}'))
    return float(line.rpartition(" ")[2])


async def test_a_configuration_that_comes_later_is_filled_and_the_metrics_tell(client, limited) -> None:
    """It is no fault that there is none: the role is ready before."""
    await allow(client, USER, permissions_of("certificates"), role="certificates", release=NAMESPACE)
    async with berth(*FLAGS, "--kubeconfig", limited) as process:
        await process.until_ready()
        await register(client)
        await eventually(lambda: keeps(client))
        _, text = await process.get("/metrics")
        ends = load(await stored(client), "tls").certificate.not_valid_after_utc.timestamp()
        assert f'cert_managed_not_after_seconds{{secret="{SECRET}"}} {ends:g}'.split()[0] in text
        value = next(line for line in text.splitlines() if line.startswith("cert_managed_not_after_seconds{"))
        assert float(value.rpartition(" ")[2]) == ends
        for name in (
            'reconcile_total{controller="certificates",result="done"}',
            'queue_depth{controller="certificates"}',
        ):
            assert name in text
        assert "leader{" not in text


async def test_a_configuration_that_is_deleted_is_told_by_an_event(client, limited) -> None:
    """It cannot be asked any more; a change of it is no news."""
    await allow(client, USER, permissions_of("certificates"), role="certificates", release=NAMESPACE)
    await register(client)

    async def told() -> list[tuple[str, str, str]]:
        events = (await client.list_page(EVENTS)).items
        return [(event["involvedObject"]["kind"], event["reason"], event["message"]) for event in events]

    async with berth(*FLAGS, "--kubeconfig", limited) as process:
        await process.until_ready()
        removed = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        await client.patch(VALIDATING_WEBHOOKS, NAME, removed, patch_type="json")
        await eventually(lambda: keeps(client))
        await client.delete(MUTATING_WEBHOOKS, NAME)
        await eventually(told)
    kind = MUTATING_WEBHOOKS.kind
    text = f"{kind} {NAME} was deleted: Berth is not called any more for what it registered"
    assert await told() == [(kind, "RegistrationDeleted", text)]


async def test_it_is_not_ready_while_it_is_not_allowed_and_recovers(client, limited) -> None:
    await register(client)
    async with berth(*FLAGS, "--kubeconfig", limited) as process:
        await eventually(lambda: process.said("watch restarts", reason="forbidden"))
        _, text = await eventually(lambda: process.get("/readyz"), lambda answer: "forbidden" in answer[1])
        assert '"ready":false' in text
        await allow(client, USER, permissions_of("certificates"), role="certificates", release=NAMESPACE)
        await process.until_ready()
        assert await keeps(client)


async def test_the_gateways_certificates_are_kept_too(client, limited) -> None:
    """In the namespace of the release, with the names it is told; what is lost comes back."""
    permissions = permissions_of("certificates", webhook_service="", gateway=True)
    await allow(client, USER, permissions, role="certificates", release=NAMESPACE)
    flags = ("--webhook-service=", "--gateway", "--gateway-dns", "gw.example", "--gateway-address", "10.133.133.1")
    async with berth(*FLAGS, "--kubeconfig", limited, *flags) as process:
        await process.until_ready()
        files = {name: await stored(client, name) for name in (CA_SECRET, SERVING_SECRET, ADMIN_SECRET)}
        serving = load(files[SERVING_SECRET], "tls").certificate
        serving.verify_directly_issued_by(load(files[CA_SECRET], "tls").certificate)
        _, text = await process.get("/metrics")
        assert all(f'cert_renewals_total{{secret="{name}"}} 1.0' in text for name in files)
        for name in (SERVING_SECRET, ADMIN_SECRET):
            await client.delete(SECRETS, name, namespace=NAMESPACE)
            await eventually(lambda name=name: get_or_none(client, SECRETS, name, namespace=NAMESPACE))
    assert await get_or_none(client, SECRETS, SECRET, namespace=NAMESPACE) is None


async def test_without_any_one_permission_it_does_not_get_ready(client, cluster, tmp_path) -> None:
    """Beside Events the table has nothing that it could do without: each verb is taken away in turn, and missed."""
    await register(client)
    needed = {
        ("secrets", "create"): lambda: client.delete(SECRETS, SECRET, namespace=NAMESPACE),
        ("secrets", "get"): None,
        ("secrets", "list"): None,
        ("secrets", "watch"): None,
        ("secrets", "update"): lambda: change(client, {"data": {"tls.crt": ""}}),
        ("mutatingwebhookconfigurations", "get"): None,
        ("mutatingwebhookconfigurations", "list"): None,
        ("mutatingwebhookconfigurations", "watch"): None,
        ("mutatingwebhookconfigurations", "patch"): lambda: client.patch(
            MUTATING_WEBHOOKS, NAME, [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}], patch_type="json"
        ),
    }
    told = {
        (plural, verb)
        for permission in permissions_of("certificates")
        for plural in permission.resources
        for verb in permission.verbs
        if plural not in (VALIDATING_WEBHOOKS.plural, EVENTS.plural)
    }
    assert set(needed) == told
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for number, ((plural, verb), prepare) in enumerate(needed.items()):
        await WebhookCertificates(client, SETTINGS).keep(datetime.now(UTC))
        if prepare is not None:
            await prepare()
        user = f"lacking-{number}"
        await allow(client, user, list(without(plural, verb)), role=user, release=NAMESPACE)
        path = tmp_path / user
        path.write_text(cluster.kubeconfig(user=user, groups=()))
        await lacks(str(path), plural, verb)


def without(plural: str, verb: str):
    for permission in permissions_of("certificates"):
        for resource in permission.resources:
            verbs = tuple(one for one in permission.verbs if (resource, one) != (plural, verb))
            if verbs:
                yield replace(permission, resources=(resource,), verbs=verbs)


async def lacks(kubeconfig: str, plural: str, verb: str) -> None:
    settings = CertificatesSettings.load({"namespace": NAMESPACE, "kubeconfig": kubeconfig}, environment=False)
    part = compose(BY_NAME["certificates"], settings)
    running = asyncio.create_task(part.run())
    try:
        await eventually(lambda: any("forbidden" in line and plural in line for line in part.waiting()))
    finally:
        running.cancel()
        await asyncio.wait({running})


def kept(client: Any, subject: Subject, *, resync: float, now: Callable[[], datetime] = utc_now) -> Kit:
    kit = Kit(client, resync=resync)
    Keeper(kit, [subject], namespace=NAMESPACE, now=now)
    return kit


class Clock:
    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


@contextlib.asynccontextmanager
async def running(kit: Kit) -> AsyncIterator[None]:
    task = asyncio.create_task(kit.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_years_go_by_and_no_certificate_ever_comes_near_its_end(client, now) -> None:
    """Twelve years in steps of three weeks, with two keepers: leaves and CAs are renewed, trust overlaps."""
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await register(client)
    clock = Clock(now)
    options = SETTINGS.model_copy(update={"days": 365, "ca_days": 1200})

    def end() -> datetime:
        seconds = REGISTRY.get_sample_value("cert_managed_not_after_seconds", {"secret": SECRET})
        return datetime.fromtimestamp(seconds or 0, UTC)

    subject = Subject("webhook", WebhookCertificates(client, options).keep, (SECRET,), (NAME,))
    keepers = [kept(client, subject, resync=0.05, now=clock) for _ in range(2)]
    authorities = set()
    async with running(keepers[0]), running(keepers[1]):
        await eventually(lambda: not any(keeper.waiting() for keeper in keepers))
        for _ in range(12 * 17):
            clock.now += timedelta(weeks=3)
            at = clock.now
            await eventually(lambda at=at: end() - at > timedelta(days=100))
        for keeper in keepers:
            assert keeper.waiting() == []
        authorities.add(parse_bundle((await stored(client))["ca.crt"], source="x")[0])
        assert await keeps(client)
    assert len((await bundles(client))[0]) <= 2
    assert (await stored(client))["ca-bridge.crt"]


@pytest.mark.parametrize("status", [403, 409, 422, 500])
async def test_one_configuration_that_is_refused_keeps_no_other_and_no_certificate(client, now, status: int) -> None:
    """A policy, a webhook or an owner refuses each write of one: the others trust, and certificates are renewed."""
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    for name in ("refused", NAME):
        await register(client, name)
    original = client.patch

    async def patch(resource: Any, name: str, body: Any, **options: Any) -> Any:
        if name == "refused" and resource is MUTATING_WEBHOOKS:
            raise ApiError(f"patch: HTTP {status}: no", status=status)
        return await original(resource, name, body, **options)

    async def at_once(_seconds: float) -> None: ...

    client.patch = patch
    options = SETTINGS.model_copy(update={"days": 30, "ca_days": 3650, "configuration": ("refused", NAME)})
    subject = WebhookCertificates(client, options, sleep=at_once)
    with pytest.raises(ApiError, match="no"):
        await subject.keep(now)
    assert await keeps(client)
    first = load(await stored(client), "tls").certificate
    (unpatched, patched) = await bundles(client, "refused")
    assert (len(unpatched), len(patched)) == (0, 1)
    with pytest.raises(ApiError, match="no"):
        await subject.keep(now + timedelta(days=29))
    assert load(await stored(client), "tls").certificate.not_valid_after_utc > first.not_valid_after_utc
    client.patch = original
    await subject.keep(now + timedelta(days=29))
    assert all(await bundles(client, "refused"))


async def test_a_mistake_is_told_and_a_bug_does_not_end_it(client) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    faults: list[Exception] = [UsageError("Secret x holds rubbish"), RuntimeError("bug")]

    async def keep(at: datetime) -> Kept:
        if faults:
            raise faults[0]
        return Kept({}, (), at + timedelta(days=1))

    kit = kept(client, Subject("gateway", keep, (SECRET,)), resync=0.1)
    assert "gateway: not looked at yet" in kit.waiting()
    async with running(kit):
        await eventually(lambda: kit.waiting() == ["gateway: Secret x holds rubbish"])
        faults.pop(0)
        await eventually(lambda: kit.waiting() == ["gateway: an internal error; the log has it"])
        faults.pop(0)
        await eventually(lambda: kit.waiting() == [])


async def test_what_somebody_else_should_have_renewed_is_looked_at_as_seldom_as_the_rest(client) -> None:
    """A Secret of a person, past a third of its life, would have every replica read all objects each second."""
    passes = 0

    async def keep(at: datetime) -> Kept:
        nonlocal passes
        passes += 1
        return Kept({}, (), at - timedelta(days=1))

    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    kit = kept(client, Subject("webhook", keep, ()), resync=3600)
    async with running(kit):
        await eventually(lambda: kit.waiting() == [])
        before = passes
        await asyncio.sleep(1.5)
        assert passes == before


async def test_a_wish_on_the_secret_is_fulfilled_by_one(client, limited) -> None:
    await allow(client, USER, permissions_of("certificates"), role="certificates", release=NAMESPACE)
    await register(client)
    async with berth(*FLAGS, "--kubeconfig", limited) as process:
        await process.until_ready()
        before = await stored(client)
        aged = {"metadata": {"annotations": {RENEW: "certificate"}}}
        await change(client, aged)

        async def renewed() -> bool:
            return (await stored(client))["tls.crt"] != before["tls.crt"]

        await eventually(renewed)
        assert (await stored(client))["ca.crt"] == before["ca.crt"]
