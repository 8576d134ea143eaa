"""Nothing is issued by a clock that the API server's does not agree with."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.certs.controller import Keeper, Subject, WebhookCertificates
from app.errors import ApiError, Transient
from app.kube.kit import Kit
from app.kube.resources import MUTATING_WEBHOOKS, NAMESPACES, SECRETS
from app.kube.retry import get_or_none
from app.kube.secrets import check_clock
from app.registration import Installation, install
from app.tenancy.authority import AuthorityOptions, ensure_authority
from tests.integration.certs.registered import (
    NAME,
    NAMESPACE,
    SECRET,
    SETTINGS,
    bundles,
    configuration,
    register,
)
from tests.support.running import running
from tests.support.waiting import eventually

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
AHEAD = r"the clock of this machine is 720\d s ahead of the API server's: no certificate is issued"


class Elsewhere:
    """A client of an API server whose clock is so far behind ours."""

    def __init__(self, client: Any, behind: timedelta) -> None:
        self._client, self.behind = client, behind

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def server_time(self) -> datetime | None:
        found: datetime | None = await self._client.server_time()
        return found and found - self.behind


class Says:
    def __init__(self, answer: datetime | ApiError | None) -> None:
        self._answer = answer

    async def server_time(self) -> datetime | None:
        if isinstance(self._answer, ApiError):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("seconds", "told"), [(60, ""), (-60, ""), (61, "61 s behind"), (-61, "61 s ahead of"), (-7200, "7200 s ahead of")]
)
async def test_a_minute_is_the_most_that_clocks_may_differ(seconds, told) -> None:
    client = Says(NOON + timedelta(seconds=seconds))
    if not told:
        return await check_clock(client, now=lambda: NOON)
    with pytest.raises(Transient, match=f"the clock of this machine is {told} the API server's"):
        await check_clock(client, now=lambda: NOON)
    return None


@pytest.mark.parametrize("client", [Says(None), Says(ApiError("forbidden", status=403)), object()])
async def test_where_nothing_is_told_nothing_is_compared(client) -> None:
    await check_clock(client)


async def test_an_api_server_that_does_not_answer_is_no_agreement() -> None:
    with pytest.raises(ApiError):
        await check_clock(Says(ApiError("refused", status=0)))


async def test_a_real_answer_agrees(client) -> None:
    await check_clock(client)


async def test_nobody_issues_by_a_wrong_clock(client, now) -> None:
    """Not the webhook's keeper, nor the gateway's, nor an init container."""
    wrong = Elsewhere(client, timedelta(hours=2))
    for issue in (
        lambda: WebhookCertificates(wrong, SETTINGS).keep(now),
        lambda: ensure_authority(wrong, now=now, options=AuthorityOptions(namespace=NAMESPACE)),
        lambda: install(wrong, Installation(), now=now),
    ):
        with pytest.raises(Transient, match=AHEAD):
            await issue()
    assert (await client.list_page(SECRETS)).items == []


async def test_a_keeper_with_a_wrong_clock_is_not_ready_and_waits_with_renewals(client, now) -> None:
    """What needs no clock goes on: a caBundle is mended. When the clocks agree, it renews."""
    await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await register(client)
    first = await WebhookCertificates(client, SETTINGS).keep(now)
    before = await get_or_none(client, SECRETS, SECRET, namespace=NAMESPACE)
    await client.delete(MUTATING_WEBHOOKS, NAME)
    await client.create(MUTATING_WEBHOOKS, configuration(MUTATING_WEBHOOKS))
    wrong = Elsewhere(client, timedelta(hours=2))
    subject = Subject("webhook", WebhookCertificates(wrong, SETTINGS).keep, (SECRET,), (NAME,))
    keeper = Kit(client, resync=0.1)
    Keeper(keeper, [subject], namespace=NAMESPACE, now=lambda: first.next_due)
    async with running(keeper.run()):
        await eventually(lambda: any(re.search(AHEAD, line) for line in keeper.waiting()))
        assert all(await bundles(client))
        assert await get_or_none(client, SECRETS, SECRET, namespace=NAMESPACE) == before
    wrong.behind = timedelta(0)
    kept = await WebhookCertificates(wrong, SETTINGS).keep(first.next_due)
    assert kept.renewed == (SECRET,)
