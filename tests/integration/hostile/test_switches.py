"""The ConfigMap of control switches with anything in it: the webhook goes on, and says what it did not use."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.integration.hostile.conftest import UNSEEN
from tests.integration.hostile.generators import JSON, anything, cases, changed, networks, texts
from tests.support.fake_apiserver import ApiServer, config_map, write_kubeconfig
from tests.support.waiting import PATIENCE
from tests.support.webhook_process import Pki, Webhook, flags_for, load_review

SWITCHES: JSON = {
    "features": {"enableHugePageDownApi": True, "enableHonorExistingResources": False},
    "user-defined-injections": {
        "evil.example/net": {"k8s.v1.cni.cncf.io/networks": "foo-network"},
        "other": {"k8s.v1.cni.cncf.io/networks": '[{"name": "foo-network"}]', "mode": "append"},
    },
}


@pytest_asyncio.fixture
async def api() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    await server.start()
    yield server
    await server.stop()


@pytest_asyncio.fixture
async def steered(api: ApiServer, tmp_path: Path) -> AsyncIterator[Webhook]:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", api.url)
    pki = Pki(tmp_path / "pki")
    webhook = Webhook(pki, *flags_for(pki, None), "--insecure", "--no-events", f"--kubeconfig={kubeconfig}")
    yield await asyncio.to_thread(webhook.until_ready)
    await asyncio.to_thread(webhook.stop)


configurations = (
    changed(SWITCHES).map(json.dumps)
    | anything.map(json.dumps)
    | st.builds(
        lambda label, value: json.dumps({"user-defined-injections": {label: {"k8s.v1.cni.cncf.io/networks": value}}}),
        texts | st.just("evil.example/net"),
        networks,
    )
    | st.sampled_from(
        [
            "[" * 100_000,
            '{"features":' * 50_000,
            json.dumps({"user-defined-injections": {f"l{n}": 1 for n in range(20_000)}}),
        ]
    )
    | st.text(max_size=40)
)


def told(steered: Webhook, before: int) -> bool:
    return any('"control switches loaded"' in line for line in steered.lines[before:])


async def test_any_text(api: ApiServer, steered: Webhook) -> None:
    asked = load_review("webhook-demo")
    asked["request"]["object"]["metadata"] |= {"labels": {"evil.example/net": "true", "other": "TRUE"}}

    async def put(text: str) -> None:
        before = len(steered.lines)
        api.put(config_map("nri-control-switches", namespace="kube-system", **{"config.json": text}))
        async with asyncio.timeout(PATIENCE):
            while not told(steered, before):  # noqa: ASYNC110  what is waited for is written by another process
                await asyncio.sleep(0.005)
        status, answer = await asyncio.to_thread(steered.post, asked)
        assert status == 200, answer
        assert answer["response"]["allowed"] or answer["response"]["status"]["reason"] != "InternalError"

    seen: list[str] = []

    @cases(60)
    @given(text=configurations)
    def gather(text: str) -> None:
        seen.append(text)

    gather()
    previous = None
    for text in seen:
        if text != previous:
            await put(text)
            previous = text
    await put(json.dumps(SWITCHES))
    assert len(steered.lines) < 1500
    for line in steered.lines:
        assert not UNSEEN.search(line[:-1]), ascii(line)
        assert len(line) < 8192
        assert json.loads(line)["level"] != "error"
