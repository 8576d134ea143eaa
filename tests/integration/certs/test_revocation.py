"""A CA whose key has leaked is trusted by nobody minutes after an admin says so, and no request fails meanwhile."""

from __future__ import annotations

import asyncio
import base64
from datetime import datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store

from app.certs.certificate_set import encode_bundle, fingerprint, parse_bundle
from app.certs.controller import RENEW, WebhookCertificates
from app.certs.issuing import issue_authority
from app.certs.rotation import HANDOVER, PENDING, REVOKED
from app.kube.resources import MUTATING_WEBHOOKS, SECRETS
from tests.integration.certs.registered import (
    NAME,
    NAMESPACE,
    SECRET,
    SERVICE,
    SETTINGS,
    bundles,
    change,
    configuration,
    settled,
    stored,
)

SLOWEST = timedelta(seconds=130)
"""From the Secret to what a Pod serves: the kubelet, then the reader of the file."""


async def annotations(client: Any) -> dict[str, str]:
    return (await client.get(SECRETS, SECRET, namespace=NAMESPACE))["metadata"].get("annotations") or {}


async def wish(client: Any, value: str) -> None:
    await change(client, {"metadata": {"annotations": {RENEW: value}}})


async def authority(client: Any) -> x509.Certificate:
    return parse_bundle((await stored(client))["ca.crt"], source="x")[0]


def accepted(served: bytes, trusted: list[x509.Certificate], at: datetime) -> bool:
    leaf, *chain = parse_bundle(served, source="tls.crt")
    policy = PolicyBuilder().store(Store(trusted)).time(at)
    try:
        policy.build_server_verifier(x509.DNSName(f"{SERVICE}.{NAMESPACE}.svc")).verify(leaf, chain)
    except x509.verification.VerificationError:
        return False
    return True


async def begun(client: Any, now: datetime) -> tuple[WebhookCertificates, x509.Certificate, datetime]:
    """A keeper, its first CA, and a time at which it is told to revoke that and has begun to."""
    keeper = WebhookCertificates(client, SETTINGS)
    await keeper.keep(now)
    old, at = await authority(client), settled(await stored(client))
    await wish(client, "revoke")
    await keeper.keep(at)
    assert await annotations(client) == {REVOKED: PENDING}
    return keeper, old, at


@pytest.mark.parametrize("key", ["known", "lost"])
async def test_a_revoked_ca_goes_and_no_request_fails(berth, now, key) -> None:
    """Two keepers; Pods that serve what the Secret held up to two minutes ago, or the newest already."""
    keepers = [WebhookCertificates(berth, SETTINGS) for _ in range(2)]
    await keepers[0].keep(now)
    old, at = await authority(berth), settled(await stored(berth))
    if key == "lost":
        await change(berth, {"data": {"ca.key": None}})
        keepers = [WebhookCertificates(berth, SETTINGS) for _ in range(2)]
    await wish(berth, "revoke")
    shown = [(at - timedelta(seconds=1), (await stored(berth))["tls.crt"])]
    for step in range(36):
        moment = at + timedelta(seconds=10 * step)
        await keepers[step % 2].keep(moment)
        shown.append((moment, (await stored(berth))["tls.crt"]))
        served = {content for when, content in shown if when > moment - SLOWEST}
        for trusted in await bundles(berth):
            assert all(accepted(content, trusted, moment) for content in served), step
    assert await bundles(berth) == [[await authority(berth)]] * 2
    files = await stored(berth)
    assert await authority(berth) != old
    assert parse_bundle(files["ca-bundle.crt"], source="x") == [await authority(berth)]
    assert "ca-bridge.crt" not in files
    assert await annotations(berth) == {REVOKED: fingerprint(await authority(berth))}


async def test_replicas_and_restarts_end_it_at_one_time(berth, now) -> None:
    _, old, at = await begun(berth, now)
    new = await authority(berth)
    early = await WebhookCertificates(berth, SETTINGS).keep(at + HANDOVER - timedelta(seconds=1))
    assert early.next_due == at + HANDOVER
    assert await bundles(berth) == [[new, old]] * 2
    await asyncio.gather(*(WebhookCertificates(berth, SETTINGS).keep(at + HANDOVER) for _ in range(3)))
    assert await bundles(berth) == [[new]] * 2
    assert await authority(berth) == new


async def test_only_webhooks_that_call_our_service_are_touched(berth, now) -> None:
    foreign = encode_bundle([issue_authority(common_name="Other", now=now, days=9).certificate])
    other = configuration(MUTATING_WEBHOOKS, service="others")["webhooks"][0] | {"name": "others.example.com"}
    body = [{"op": "add", "path": "/webhooks/-", "value": other}]
    keeper, old, at = await begun(berth, now)
    other["clientConfig"]["caBundle"] = base64.b64encode(foreign + encode_bundle([old])).decode()
    await berth.patch(MUTATING_WEBHOOKS, NAME, body, patch_type="json")
    before = (await berth.get(MUTATING_WEBHOOKS, NAME))["webhooks"][1]
    await keeper.keep(at + HANDOVER)
    after = (await berth.get(MUTATING_WEBHOOKS, NAME))["webhooks"]
    assert after[1] == before
    assert (await bundles(berth))[0] == [await authority(berth)]


async def test_a_replica_that_read_too_early_does_not_bring_it_back(berth, now) -> None:
    """Whatever puts the old CA into a caBundle again, it goes at the next look."""
    keeper, old, at = await begun(berth, now)
    await keeper.keep(at + HANDOVER)
    both = base64.b64encode(encode_bundle([await authority(berth), old])).decode()
    again = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": both}]
    await berth.patch(MUTATING_WEBHOOKS, NAME, again, patch_type="json")
    await WebhookCertificates(berth, SETTINGS).keep(at + HANDOVER)
    assert await bundles(berth) == [[await authority(berth)]] * 2


async def test_a_wish_waits_for_the_renewal_before_it(berth, now) -> None:
    """A CA that is still settling, and a revocation that is under way: each is followed by the next."""
    keeper = WebhookCertificates(berth, SETTINGS)
    await keeper.keep(now)
    first, settling = await authority(berth), settled(await stored(berth))
    await wish(berth, "revoke")
    assert (await keeper.keep(now)).next_due == settling
    assert await annotations(berth) == {RENEW: "revoke"}
    await keeper.keep(settling)
    second = await authority(berth)
    await wish(berth, "revoke")
    kept = await keeper.keep(settling + timedelta(minutes=2))
    assert kept.next_due == settling + HANDOVER
    assert await annotations(berth) == {RENEW: "revoke", REVOKED: PENDING}
    await keeper.keep(kept.next_due)
    third = await authority(berth)
    assert third not in (first, second)
    assert await annotations(berth) == {REVOKED: PENDING}
    await keeper.keep(kept.next_due + HANDOVER)
    assert await bundles(berth) == [[third]] * 2


@pytest.mark.parametrize("stage", ["asked", "begun", "done"])
async def test_with_the_secret_gone_a_revocation_goes_on(berth, now, stage) -> None:
    keeper = WebhookCertificates(berth, SETTINGS)
    await keeper.keep(now)
    old, at = await authority(berth), settled(await stored(berth))
    await wish(berth, "revoke")
    for moment in {"asked": [now], "begun": [now, at], "done": [now, at, at + HANDOVER]}[stage]:
        await keeper.keep(moment)
    before = await stored(berth), await annotations(berth)
    await berth.delete(SECRETS, SECRET, namespace=NAMESPACE)
    await keeper.keep(now)
    assert (await stored(berth), await annotations(berth)) == before
    await keeper.keep(at)
    await keeper.keep(at + HANDOVER)
    assert old not in (await bundles(berth))[0]
    assert (await annotations(berth)).keys() == {REVOKED}


@pytest.mark.parametrize("damage", ["deleted", "without key"])
async def test_a_replica_that_slept_through_it_does_not_restore_the_old_ca(berth, now, damage) -> None:
    sleeper = WebhookCertificates(berth, SETTINGS)
    await sleeper.keep(now)
    keeper, old, at = await begun(berth, now)
    await keeper.keep(at + HANDOVER)
    if damage == "deleted":
        await berth.delete(SECRETS, SECRET, namespace=NAMESPACE)
    else:
        await change(berth, {"data": {"ca.key": None}})
    await sleeper.keep(at + HANDOVER + timedelta(seconds=1))
    assert await authority(berth) != old
    assert old not in (await bundles(berth))[0]


async def test_an_outlived_ca_leaves_secret_and_callers(berth, now) -> None:
    """A year after its successor came, though it would be valid for years."""
    options = SETTINGS.model_copy(update={"days": 90})
    keeper = WebhookCertificates(berth, options)
    await keeper.keep(now)
    old, at = await authority(berth), settled(await stored(berth))
    await wish(berth, "ca")
    await keeper.keep(at)
    await keeper.keep(at + timedelta(days=90))
    assert await bundles(berth) == [[await authority(berth), old]] * 2
    await keeper.keep(at + timedelta(days=90, seconds=1))
    assert await bundles(berth) == [[await authority(berth)]] * 2
    assert parse_bundle((await stored(berth))["ca-bundle.crt"], source="x") == [await authority(berth)]
