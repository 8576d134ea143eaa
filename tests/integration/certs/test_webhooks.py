"""One pass over the webhook's Secret and the configurations that call it, against an API server."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta

import pytest

from app.certs.certificate_set import load, parse_bundle, renewal_due
from app.certs.controller import RENEW, WebhookCertificates
from app.certs.folder import make
from app.certs.issuing import serving_names
from app.certs.rotation import SETTLING
from app.errors import ApiError, Terminal, Transient
from app.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS
from app.kube.secrets import MANAGED_BY
from tests.integration.certs.registered import (
    KINDS,
    NAME,
    NAMESPACE,
    SECRET,
    SERVICE,
    SETTINGS,
    bundles,
    change,
    configuration,
    register,
    settled,
    stored,
)


def authority(files: dict[str, bytes]):
    return parse_bundle(files["ca.crt"], source="ca.crt")[0]


async def test_a_first_pass_makes_the_certificate_and_has_it_trusted(berth, now) -> None:
    kept = await WebhookCertificates(berth, SETTINGS).keep(now)
    files = await stored(berth)
    serving = load(files, "tls").certificate
    serving.verify_directly_issued_by(authority(files))
    assert await bundles(berth) == [[authority(files)]] * 2
    assert (kept.ends, kept.renewed) == ({SECRET: serving.not_valid_after_utc}, (SECRET,))
    labels = (await berth.get(SECRETS, SECRET, namespace=NAMESPACE))["metadata"]["labels"]
    assert labels[MANAGED_BY] == "berth"


async def test_a_second_pass_writes_nothing(berth, now) -> None:
    """Nor does that of another replica."""
    await WebhookCertificates(berth, SETTINGS).keep(now)
    before = await versions(berth)
    kept = await WebhookCertificates(berth, SETTINGS).keep(now + timedelta(days=1))
    assert await versions(berth) == before
    assert kept.renewed == ()
    assert kept.next_due == renewal_due(load(await stored(berth), "tls").certificate)


async def versions(client) -> list[str]:
    objects = [await client.get(SECRETS, SECRET, namespace=NAMESPACE)]
    objects += [await client.get(resource, NAME) for resource in KINDS]
    return [obj["metadata"]["resourceVersion"] for obj in objects]


@pytest.mark.parametrize("days", [0, 300, 2600])
async def test_many_at_once_agree_on_one_certificate(berth, now, days) -> None:
    """At the beginning, when the certificate is due, and when the CA is."""
    if days:
        await WebhookCertificates(berth, SETTINGS).keep(now)
    at = now + timedelta(days=days)
    kept = await asyncio.gather(*(WebhookCertificates(berth, SETTINGS).keep(at) for _ in range(5)))
    assert [one.renewed for one in kept].count((SECRET,)) == 1
    assert len({one.ends[SECRET] for one in kept}) == 1
    files = await stored(berth)
    assert all(trusted[0] == authority(files) for trusted in await bundles(berth))


async def test_of_a_configuration_nothing_but_our_bundle_changes(berth, now) -> None:
    foreign = [{"op": "add", "path": "/webhooks/-", "value": await other_webhook(berth)}]
    before = await berth.patch(MUTATING_WEBHOOKS, NAME, foreign, patch_type="json")
    await WebhookCertificates(berth, SETTINGS).keep(now)
    after = await berth.get(MUTATING_WEBHOOKS, NAME)
    assert after["webhooks"][1] == before["webhooks"][1]
    assert after["webhooks"][0]["clientConfig"].pop("caBundle")
    assert after["webhooks"] == before["webhooks"]


async def other_webhook(client) -> dict:
    webhook = (await client.get(MUTATING_WEBHOOKS, NAME))["webhooks"][0]
    called = webhook["clientConfig"]["service"] | {"name": "others"}
    return webhook | {"name": "others.example.com", "clientConfig": {"service": called}}


async def test_what_is_missing_is_waited_for(client, now) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    keeper = WebhookCertificates(client, SETTINGS)
    await keeper.keep(now)
    await register(client)
    await keeper.keep(now)
    assert await bundles(client) == [[authority(await stored(client))]] * 2


async def test_a_due_certificate_is_renewed_long_before_its_end(berth, now) -> None:
    keeper = WebhookCertificates(berth, SETTINGS.model_copy(update={"days": 90}))
    kept = await keeper.keep(now)
    before = await stored(berth)
    assert (await keeper.keep(kept.next_due - timedelta(seconds=1))).renewed == ()
    renewed = await keeper.keep(kept.next_due)
    assert renewed.renewed == (SECRET,)
    assert renewed.ends[SECRET] == kept.next_due + timedelta(days=90)
    assert kept.ends[SECRET] - kept.next_due >= timedelta(days=30)
    assert (await stored(berth))["ca.crt"] == before["ca.crt"]


async def test_a_due_ca_is_renewed_with_overlap_and_bridge(berth, now) -> None:
    keeper = WebhookCertificates(berth, SETTINGS)
    await keeper.keep(now)
    old = authority(await stored(berth))
    await keeper.keep(now + timedelta(days=2600))
    files = await stored(berth)
    assert await bundles(berth) == [[authority(files), old]] * 2
    assert files["ca-bridge.crt"] in files["tls.crt"]


async def test_a_secret_that_is_deleted_comes_back_as_it_was(berth, now) -> None:
    keeper = WebhookCertificates(berth, SETTINGS)
    await keeper.keep(now)
    before = await stored(berth)
    await berth.delete(SECRETS, SECRET, namespace=NAMESPACE)
    assert (await keeper.keep(now)).renewed == (SECRET,)
    assert await stored(berth) == before


async def test_a_deleted_secret_that_nobody_remembers_is_made_anew(berth, now) -> None:
    await WebhookCertificates(berth, SETTINGS).keep(now)
    old = authority(await stored(berth))
    await berth.delete(SECRETS, SECRET, namespace=NAMESPACE)
    await WebhookCertificates(berth, SETTINGS).keep(now)
    new = authority(await stored(berth))
    assert new != old
    assert await bundles(berth) == [[new, old]] * 2


@pytest.mark.parametrize("damage", [{"ca.key": None}, {"ca.crt": "anVuaw=="}, {"tls.key": "anVuaw=="}, {"tls.crt": ""}])
async def test_a_damaged_secret_is_healed_with_the_ca_that_is_known(berth, now, damage) -> None:
    keeper = WebhookCertificates(berth, SETTINGS)
    await keeper.keep(now)
    before = await stored(berth)
    await change(berth, {"data": damage})
    await keeper.keep(now)
    files = await stored(berth)
    assert files["ca.crt"] == before["ca.crt"]
    load(files, "tls").certificate.verify_directly_issued_by(load(files, "ca").certificate)


async def test_without_the_key_of_the_ca_what_is_served_stays_until_the_next_ca_is_known(berth, now) -> None:
    """No bridge can lead to it: first it is trusted, then it signs."""
    await WebhookCertificates(berth, SETTINGS).keep(now)
    before = await stored(berth)
    await change(berth, {"data": {"ca.key": None}})
    later = now + timedelta(hours=1)
    kept = await WebhookCertificates(berth, SETTINGS).keep(later)
    between = await stored(berth)
    assert (between["tls.crt"], between["tls.key"]) == (before["tls.crt"], before["tls.key"])
    assert between["ca.crt"] != before["ca.crt"]
    assert await bundles(berth) == [[authority(between), authority(before)]] * 2
    assert (kept.next_due, kept.renewed) == (settled(between), ())
    assert later < kept.next_due <= later + SETTLING
    assert (await WebhookCertificates(berth, SETTINGS).keep(kept.next_due)).renewed == (SECRET,)
    after = await stored(berth)
    assert after["ca.crt"] == between["ca.crt"]
    load(after, "tls").certificate.verify_directly_issued_by(authority(after))


class Shut:
    """A client that may not patch configurations."""

    def __init__(self, client) -> None:
        self._client = client

    def __getattr__(self, name: str):
        return getattr(self._client, name)

    async def patch(self, *args, **kwargs):
        raise ApiError("forbidden", status=403)


async def test_no_ca_follows_one_that_callers_do_not_trust_yet(berth, now) -> None:
    """A bridge leads one step back, so each step has to be known before the next."""
    keeper = WebhookCertificates(berth, SETTINGS)
    await keeper.keep(now)
    await berth.delete(MUTATING_WEBHOOKS, NAME)
    await berth.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS))
    await change(berth, {"metadata": {"annotations": {RENEW: "ca"}}})
    before = await stored(berth)
    with pytest.raises(ApiError, match="forbidden"):
        await WebhookCertificates(Shut(berth), SETTINGS).keep(now + timedelta(hours=1))
    assert await stored(berth) == before


@pytest.mark.parametrize("wish", ["certificate", "ca"])
async def test_an_annotation_asks_for_a_renewal_and_goes(berth, now, wish) -> None:
    await WebhookCertificates(berth, SETTINGS).keep(now)
    before = await stored(berth)
    await change(berth, {"metadata": {"annotations": {RENEW: wish, "own": "kept"}, "labels": {"own": "kept"}}})
    at = settled(before)
    kept = await asyncio.gather(*(WebhookCertificates(berth, SETTINGS).keep(at) for _ in range(3)))
    assert [one.renewed for one in kept].count((SECRET,)) == 1
    after = await stored(berth)
    assert after["tls.crt"] != before["tls.crt"]
    assert (after["ca.crt"] == before["ca.crt"]) == (wish == "certificate")
    metadata = (await berth.get(SECRETS, SECRET, namespace=NAMESPACE))["metadata"]
    assert metadata["annotations"] == {"own": "kept"}
    assert metadata["labels"]["own"] == "kept"
    assert authority(before) in (await bundles(berth))[0]


async def test_two_new_cas_in_a_row_keep_their_distance(berth, now) -> None:
    """The wish stays until every caller has heard of the CA before."""
    keeper = WebhookCertificates(berth, SETTINGS)
    await keeper.keep(now)
    first = await stored(berth)
    await change(berth, {"metadata": {"annotations": {RENEW: "ca"}}})
    kept = await keeper.keep(now)
    assert await stored(berth) == first
    assert kept.next_due == settled(first)
    assert (await keeper.keep(kept.next_due)).renewed == (SECRET,)


async def test_somebody_elses_secret_is_used_and_never_written(berth, now) -> None:
    theirs = make({}, names=serving_names(service=SERVICE, namespace=NAMESPACE), now=now)
    data = {name: base64.b64encode(theirs[name]).decode() for name in ("tls.crt", "tls.key", "ca.crt")}
    body = {"metadata": {"name": SECRET}, "type": "kubernetes.io/tls", "data": data}
    created = await berth.create(SECRETS, body, namespace=NAMESPACE)
    kept = await WebhookCertificates(berth, SETTINGS).keep(now + timedelta(days=360))
    assert kept.ends == {SECRET: load(theirs, "tls").certificate.not_valid_after_utc}
    assert await berth.get(SECRETS, SECRET, namespace=NAMESPACE) == created
    assert await bundles(berth) == [[authority(theirs)]] * 2


@pytest.mark.parametrize("lacking", ["tls.crt", "ca.crt"])
async def test_somebody_elses_secret_that_cannot_be_used_is_told(berth, now, lacking) -> None:
    theirs = make({}, names=serving_names(service=SERVICE, namespace=NAMESPACE), now=now)
    names = [name for name in ("tls.crt", "tls.key", "ca.crt") if name != lacking]
    data = {name: base64.b64encode(theirs[name]).decode() for name in names}
    body = {"metadata": {"name": SECRET}, "type": "Opaque", "data": data}
    created = await berth.create(SECRETS, body, namespace=NAMESPACE)
    with pytest.raises(Terminal, match=f"not managed by Berth and cannot be used: {lacking} is missing"):
        await WebhookCertificates(berth, SETTINGS).keep(now)
    assert await berth.get(SECRETS, SECRET, namespace=NAMESPACE) == created


class Meddled:
    """A client whose writes to the Secret are spoiled at once by somebody else."""

    def __init__(self, client) -> None:
        self._client = client

    def __getattr__(self, name: str):
        return getattr(self._client, name)

    async def replace(self, *args, **kwargs):
        written = await self._client.replace(*args, **kwargs)
        await change(self._client, {"data": {"tls.crt": ""}})
        return written


async def test_a_tug_of_war_ends_in_a_pause(berth, now) -> None:
    await WebhookCertificates(berth, SETTINGS).keep(now)
    await change(berth, {"data": {"tls.crt": ""}})
    with pytest.raises(Transient, match="another client keeps changing it"):
        await WebhookCertificates(Meddled(berth), SETTINGS).keep(now)
