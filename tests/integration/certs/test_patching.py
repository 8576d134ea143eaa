"""A CA bundle gets into webhook configurations, and nothing else in them changes."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta

import pytest

from app.certs.certificate_set import MOST, encode_bundle, parse_bundle
from app.certs.issuing import issue_authority
from app.certs.patching import Patched, ServiceName, merged_bundle, patch_bundle
from app.errors import ApiError, Terminal
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.kube.transport import connect
from tests.support.command_line import berth
from tests.support.waiting import PATIENCE

BERTH = ServiceName("berth", "berth")


def authority(now, age: int = 0):
    return issue_authority(common_name="CA", now=now - timedelta(days=age), days=30).certificate


def configuration(resource, name: str, *webhooks: tuple[str, str]) -> dict:
    """Webhooks given as (service, bundle)."""
    return resource.body(
        {"name": name, "labels": {"kept": "yes"}},
        webhooks=[
            {
                "name": f"w{index}.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 3,
                "clientConfig": {
                    "service": {"namespace": "berth", "name": service, "path": "/x"},
                    **({"caBundle": bundle} if bundle else {}),
                },
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
            }
            for index, (service, bundle) in enumerate(webhooks)
        ],
    )


def encoded(*certificates) -> str:
    return base64.b64encode(encode_bundle(certificates)).decode()


def without_bundles(obj: dict) -> dict:
    metadata = {key: value for key, value in obj["metadata"].items() if key in ("name", "labels", "uid")}
    webhooks = [
        {**webhook, "clientConfig": {k: v for k, v in webhook["clientConfig"].items() if k != "caBundle"}}
        for webhook in obj["webhooks"]
    ]
    return {"metadata": metadata, "webhooks": webhooks}


async def test_only_the_bundle_of_our_webhooks_changes(client, now) -> None:
    old, new = authority(now, 10), authority(now)
    body = configuration(MUTATING_WEBHOOKS, "hooks", ("berth", ""), ("other", ""), ("berth", encoded(old)))
    before = await client.create(MUTATING_WEBHOOKS, body)
    assert await patch_bundle(client, "hooks", authorities=[new], service=BERTH, now=now) == [
        Patched("MutatingWebhookConfiguration", "hooks", webhooks=2, changed=2)
    ]
    after = await client.get(MUTATING_WEBHOOKS, "hooks")
    assert without_bundles(after) == without_bundles(before)
    bundles = [webhook["clientConfig"].get("caBundle") for webhook in after["webhooks"]]
    assert bundles == [encoded(new), None, encoded(new, old)]


async def test_patching_twice_changes_nothing_more(client, now) -> None:
    new = authority(now)
    await client.create(VALIDATING_WEBHOOKS, configuration(VALIDATING_WEBHOOKS, "hooks", ("berth", "")))
    await patch_bundle(client, "hooks", authorities=[new], service=None, now=now)
    version = (await client.get(VALIDATING_WEBHOOKS, "hooks"))["metadata"]["resourceVersion"]
    (again,) = await patch_bundle(client, "hooks", authorities=[new], service=None, now=now)
    assert (again.webhooks, again.changed) == (1, 0)
    assert (await client.get(VALIDATING_WEBHOOKS, "hooks"))["metadata"]["resourceVersion"] == version


async def test_both_kinds_of_one_name_are_patched(client, now) -> None:
    for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
        await client.create(resource, configuration(resource, "hooks", ("berth", "")))
    results = await patch_bundle(client, "hooks", authorities=[authority(now)], service=None, now=now)
    assert [result.kind for result in results] == ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


class Rival:
    """A client between whose reads and writes somebody else writes, `times` times."""

    def __init__(self, client: KubeClient, times: int) -> None:
        self._client = client
        self.times = times

    def __getattr__(self, name: str):
        return getattr(self._client, name)

    async def get(self, resource, name, *, namespace=None):
        found = await self._client.get(resource, name, namespace=namespace)
        if self.times:
            self.times -= 1
            label = {"metadata": {"labels": {f"turn-{self.times}": "yes"}}}
            await self._client.patch(resource, name, label, patch_type="merge")
        return found


async def test_a_conflict_is_tried_again_and_the_rivals_write_stays(client, now) -> None:
    await client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS, "hooks", ("berth", "")))
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    rival = Rival(client, times=3)
    await patch_bundle(rival, "hooks", authorities=[authority(now)], service=None, now=now, sleep=sleep)
    found = await client.get(MUTATING_WEBHOOKS, "hooks")
    assert len(waits) == 3
    assert {"turn-0", "turn-1", "turn-2"} <= found["metadata"]["labels"].keys()
    assert found["webhooks"][0]["clientConfig"]["caBundle"]


async def test_endless_conflicts_end_in_an_error(client, now) -> None:
    await client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS, "hooks", ("berth", "")))
    with pytest.raises(ApiError):
        await patch_bundle(
            Rival(client, times=100),
            "hooks",
            authorities=[authority(now)],
            service=None,
            now=now,
            sleep=lambda _: asyncio.sleep(0),
        )


async def test_absent_configurations_and_webhooks_are_named(client, now) -> None:
    with pytest.raises(Terminal, match="no MutatingWebhookConfiguration or ValidatingWebhookConfiguration named 'x'"):
        await patch_bundle(client, "x", authorities=[authority(now)], service=None, now=now)
    await client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS, "x", ("other", "")))
    with pytest.raises(Terminal, match="has no webhook that calls Service berth/berth"):
        await patch_bundle(client, "x", authorities=[authority(now)], service=BERTH, now=now)


async def test_what_may_not_be_read_is_said(cluster, tmp_path, now) -> None:
    (tmp_path / "nobody").write_text(cluster.kubeconfig("nobody", ()))
    async with await connect(kubeconfig=str(tmp_path / "nobody"), deadline=PATIENCE) as client:
        with pytest.raises(ApiError) as caught:
            await patch_bundle(client, "x", authorities=[authority(now)], service=None, now=now)
    assert caught.value.status == 403


def test_expired_and_unreadable_bundles_are_replaced(now) -> None:
    new, expired = authority(now), authority(now, 60)
    for present in ("", "%%%", base64.b64encode(b"junk").decode(), encoded(expired)):
        assert merged_bundle(present, [new], now=now) == encoded(new)


async def test_the_command_patches(client, kubeconfig, tmp_path, now) -> None:
    """`berth certs patch` in a process of its own."""
    new = authority(now)
    (tmp_path / "ca.crt").write_bytes(encode_bundle([new]))
    await client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS, "hooks", ("berth", ""), ("other", "")))
    command = ["certs", "patch", "--kubeconfig", kubeconfig, "--ca", str(tmp_path / "ca.crt"), "hooks"]
    for arguments, expected in (
        (["--service", "berth/berth"], "MutatingWebhookConfiguration hooks: 1 of 1 webhooks patched\n"),
        ([], "MutatingWebhookConfiguration hooks: 1 of 2 webhooks patched\n"),
        ([], "MutatingWebhookConfiguration hooks: up to date\n"),
    ):
        done = await asyncio.to_thread(berth, *command, *arguments)
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    found = await client.get(MUTATING_WEBHOOKS, "hooks")
    bundle = base64.b64decode(found["webhooks"][1]["clientConfig"]["caBundle"])
    assert parse_bundle(bundle, source="caBundle") == [new]


def test_a_bundle_does_not_grow_without_end(now) -> None:
    """Of CAs that are forced one after the other, the newest stay; those that are asked for stay all."""
    authorities = [authority(now) for _ in range(MOST + 3)]
    bundle = ""
    for one in authorities:
        bundle = merged_bundle(bundle, [one], now=now)
    kept = parse_bundle(base64.b64decode(bundle), source="caBundle")
    assert kept == authorities[:2:-1]
    assert len(parse_bundle(base64.b64decode(merged_bundle("", authorities, now=now)), source="x")) == MOST + 3
