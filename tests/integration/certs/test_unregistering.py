"""Before an uninstallation: our configurations go, and nobody else's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.certs.patching import ServiceName, unregister
from app.certs.permissions import unregistering
from app.errors import ApiError, Terminal
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.kube.retry import get_or_none
from app.kube.transport import connect
from tests.integration.certs.registered import KINDS, NAME, NAMESPACE, SERVICE, configuration, register
from tests.support.command_line import berth
from tests.support.rbac import allow
from tests.support.waiting import PATIENCE

OURS = {"app.kubernetes.io/part-of": "berth"}
BERTH = ServiceName(NAMESPACE, SERVICE)


async def left(client, name: str = NAME) -> list[str]:
    return [resource.kind for resource in KINDS if await get_or_none(client, resource, name) is not None]


async def test_what_carries_our_label_goes_and_nothing_else(client) -> None:
    await register(client, **OURS)
    await register(client, "other", **OURS)
    lines = await unregister(client, NAME, service=None)
    assert lines == [f"{resource.kind} berth: deleted" for resource in KINDS]
    assert (await left(client), len(await left(client, "other"))) == ([], 2)


async def test_again_it_is_done_already(client) -> None:
    await register(client, **OURS)
    for _ in range(2):
        lines = await unregister(client, NAME, service=None)
    assert lines == [f"{resource.kind} berth: there is none" for resource in KINDS]


async def test_what_calls_our_service_alone_is_ours(client) -> None:
    await register(client)
    await unregister(client, NAME, service=BERTH)
    assert await left(client) == []


async def test_what_calls_others_too_is_refused(client) -> None:
    body = configuration(MUTATING_WEBHOOKS)
    other = configuration(MUTATING_WEBHOOKS, service="other")["webhooks"][0]
    body["webhooks"].append(other | {"name": "other.example.com"})
    await client.create(MUTATING_WEBHOOKS, body)
    with pytest.raises(Terminal, match=r"not ours, not deleted: .* calls others than Service berth/berth-webhook"):
        await unregister(client, NAME, service=BERTH)
    assert await left(client) == ["MutatingWebhookConfiguration"]


async def test_an_empty_configuration_is_nobodys(client) -> None:
    body = configuration(MUTATING_WEBHOOKS) | {"webhooks": []}
    await client.create(MUTATING_WEBHOOKS, body)
    with pytest.raises(Terminal):
        await unregister(client, NAME, service=BERTH)


async def test_a_foreign_one_does_not_save_ours(client) -> None:
    """An uninstallation must not leave what would be called in vain."""
    await client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS))
    await client.create(VALIDATING_WEBHOOKS, configuration(VALIDATING_WEBHOOKS, **OURS))
    with pytest.raises(Terminal, match=r"^MutatingWebhookConfiguration berth: not ours"):
        await unregister(client, NAME, service=None)
    assert await left(client) == ["MutatingWebhookConfiguration"]


class Racing:
    """A client before whom another deletes."""

    def __init__(self, client) -> None:
        self._client = client

    def __getattr__(self, name: str):
        return getattr(self._client, name)

    async def delete(self, resource, name, **options):
        await self._client.delete(resource, name)
        await self._client.delete(resource, name, **options)


async def test_a_rival_that_deletes_first_is_no_fault(client) -> None:
    await register(client, **OURS)
    await unregister(Racing(client), NAME, service=None)
    assert await left(client) == []


async def test_its_permissions_are_enough_and_the_program_says_what_it_did(client, cluster, tmp_path) -> None:
    user = "system:serviceaccount:berth:berth-unregister"
    await allow(client, user, unregistering(), role="unregister", release=NAMESPACE)
    kubeconfig = tmp_path / "unregister.kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig(user=user, groups=()))
    await register(client, **OURS)
    await register(client, "other", **OURS)
    async with await connect(kubeconfig=str(kubeconfig), deadline=PATIENCE) as limited:
        with pytest.raises(ApiError) as refused:
            await unregister(limited, "other", service=None)
    assert refused.value.status == 403
    first, second = [await program(kubeconfig) for _ in range(2)]
    assert first == (0, "".join(f"{resource.kind} berth: deleted\n" for resource in KINDS), "")
    assert second == (0, "".join(f"{resource.kind} berth: there is none\n" for resource in KINDS), "")
    await register(client)
    status, out, err = await program(kubeconfig)
    assert (status, out) == (1, "")
    assert err.startswith("Error: MutatingWebhookConfiguration berth, ValidatingWebhookConfiguration berth: not ours")


async def program(kubeconfig: Path) -> tuple[int | None, str, str]:
    command = ["certs", "unregister", "--name", NAME, "--kubeconfig", str(kubeconfig)]
    done = await asyncio.to_thread(berth, *command)
    return done.returncode, done.stdout, done.stderr
