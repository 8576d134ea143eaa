"""The lookup of attachments: cache first, one GET for a miss, and nothing for a name that is none."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from app.errors import ApiError, Denied, Transient
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.model import DEFAULT_NETWORK, NETWORKS
from app.networks.settings import NetworksOptions
from tests.support.waiting import PATIENCE

from .conftest import attachment, lookup_for


class Recording:
    """A client that records each GET and answers from a table; a table entry may be an error, a gate holds answers."""

    def __init__(self, answers: dict[tuple[str, str], Any] | None = None) -> None:
        self.answers = answers or {}
        self.calls: list[tuple[str | None, str]] = []
        self.called = asyncio.Event()
        self.gate: asyncio.Event | None = None

    async def get(self, resource: object, name: str, *, namespace: str | None = None) -> Any:
        assert resource is NETWORK_ATTACHMENTS
        self.calls.append((namespace, name))
        self.called.set()
        if self.gate is not None:
            await self.gate.wait()
        answer = self.answers.get((namespace or "", name), ApiError("not found", status=404, reason="NotFound"))
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_the_cache_answers_without_a_call() -> None:
    """What is cached costs no request."""
    client = Recording()
    found = await lookup_for([attachment("foo", "example.com/foo")], client=client).find("default", "foo")
    assert found is not None
    assert found.resources == ("example.com/foo",)
    assert client.calls == []


async def test_a_miss_is_one_get_shared_by_all_who_wait() -> None:
    """Fifty reviews that need the same attachment at once make one request."""
    client = Recording({("default", "foo"): attachment("foo", "example.com/foo")})
    client.gate = asyncio.Event()
    lookup = lookup_for([], client=client)
    waiters = [asyncio.create_task(lookup.find("default", "foo")) for _ in range(50)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiters[0].cancel()
    client.gate.set()
    results = await asyncio.gather(*waiters, return_exceptions=True)
    assert client.calls == [("default", "foo")]
    assert isinstance(results[0], asyncio.CancelledError)
    assert all(getattr(found, "name", None) == "foo" for found in results[1:])


async def test_after_a_silence_that_all_gave_up_the_next_review_asks_anew() -> None:
    """It must not wait for the end of a request that will have no answer."""
    client = Recording({("default", "foo"): attachment("foo", "example.com/foo")})
    client.gate = asyncio.Event()
    lookup = lookup_for([], client=client)
    waiters = [asyncio.create_task(lookup.find("default", "foo")) for _ in range(2)]
    await client.called.wait()
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
    client.gate = None
    async with asyncio.timeout(PATIENCE):
        assert await lookup.find("default", "foo") is not None
    assert client.calls == [("default", "foo")] * 2


async def test_a_miss_is_not_remembered() -> None:
    """An attachment counts from the moment it exists."""
    client = Recording()
    lookup = lookup_for([], client=client)
    assert await lookup.find("default", "foo") is None
    client.answers["default", "foo"] = attachment("foo")
    assert await lookup.find("default", "foo") is not None
    assert len(client.calls) == 2


@pytest.mark.parametrize("status", [0, 401, 403, 410, 429, 500, 503])
async def test_every_fault_but_not_found_is_transient(injection: Any, status: int) -> None:
    """What cannot be told is no denial: failurePolicy decides."""
    injection.client = Recording({("default", "new"): ApiError("boom", status=status, delay=3)})
    with pytest.raises(Transient, match="could not read network attachment definition 'default/new': boom") as caught:
        await injection.run({"metadata": {"annotations": {NETWORKS: "new"}}, "spec": {"containers": [{"name": "a"}]}})
    assert caught.value.delay == 3
    assert not isinstance(caught.value, Denied)


async def test_no_answer_is_transient() -> None:
    """A GET has a time limit of its own, so that the answer can name what was missing."""
    client = Recording()
    client.gate = asyncio.Event()
    lookup = lookup_for([], client=client, timeout=0.01)
    with pytest.raises(Transient, match=r"'default/foo': no answer within 0\.01 s"):
        await lookup.find("default", "foo")


async def test_a_fault_with_nobody_waiting_is_silent() -> None:
    """The task's outcome is a value: a vanished review leaves no unretrieved exception (warnings are errors here)."""
    client = Recording({("default", "foo"): ApiError("boom", status=500)})
    client.gate = asyncio.Event()
    lookup = lookup_for([], client=client)
    waiter = asyncio.create_task(lookup.find("default", "foo"))
    await asyncio.sleep(0)
    waiter.cancel()
    client.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    for _ in range(5):
        await asyncio.sleep(0)
    with pytest.raises(Transient):
        await lookup.find("default", "foo")
    assert len(client.calls) == 2


HOSTILE = [
    "../../../../../../api/v1/namespaces/kube-system/secrets/x",
    "..",
    ".",
    "a/../b",
    "%2e%2e%2fsecrets",
    "a?x=1",
    "a#b",
    "a b",
    "a\r\nHost: x",
    "A",
    "-a",
    "a..b",
    "",
    "ａ",  # noqa: RUF001  full-width
    "a\u0000",
    "a" * 300,
]


@pytest.mark.parametrize("annotation", [NETWORKS, DEFAULT_NETWORK])
@pytest.mark.parametrize(
    ("field", "text"),
    # An empty namespace is right: it is the Pod's own.
    [("name", text) for text in HOSTILE] + [("namespace", text) for text in HOSTILE if text],
)
async def test_a_crafted_name_reads_nothing(injection: Any, annotation: str, field: str, text: str) -> None:
    """No request at all leaves for a name that is none, in the JSON form and in the text form."""
    client = injection.client = Recording()
    element = {"name": "nad", "namespace": "ns"} | {field: text}
    other = f"{element['namespace']}/{element['name']}"
    for value in (json.dumps([element]), other, json.dumps([{field: text}])):
        pod = {"metadata": {"annotations": {annotation: value}}, "spec": {"containers": [{"name": "a"}]}}
        run = await injection.run(pod)
        assert not run.decision.allowed
        assert run.decision.message.isprintable()
        assert client.calls == []


@pytest.mark.parametrize("namespace", ["..", "a/b", "A", "a" * 64])
async def test_a_crafted_request_namespace_reads_nothing(injection: Any, namespace: str) -> None:
    """Not even the request's own namespace goes into a path unchecked."""
    client = injection.client = Recording()
    for annotation in (NETWORKS, DEFAULT_NETWORK):
        pod = {"metadata": {"annotations": {annotation: "foo"}}, "spec": {"containers": [{"name": "a"}]}}
        run = await injection.run(pod, namespace=namespace)
        assert not run.decision.allowed
    assert client.calls == []


async def test_a_default_network_is_looked_up_where_multus_does_and_then_in_the_namespace_of_the_pod(
    injection: Any,
) -> None:
    """Each place is asked once; a Pod that lives in the first place has no second."""
    pod = {"metadata": {"annotations": {DEFAULT_NETWORK: "new"}}, "spec": {"containers": [{"name": "a"}]}}
    client = injection.client = Recording()
    run = await injection.run(pod)
    assert client.calls == [("kube-system", "new"), ("default", "new")]
    assert "could not find network attachment definition 'kube-system/new'" in run.decision.message
    client.calls.clear()
    injection.options = NetworksOptions(default_network_namespace="default")
    await injection.run(pod)
    assert client.calls == [("default", "new")]


async def test_without_a_client_what_is_not_listed_does_not_exist() -> None:
    """Manifests are the whole truth where they are used."""
    assert await lookup_for([]).find("default", "foo") is None


@pytest.mark.parametrize("annotation", [NETWORKS, DEFAULT_NETWORK])
@pytest.mark.parametrize(("selected", "hint"), [("foo", True), ("third/foo", True), ("bar", False)])
async def test_a_denial_says_that_another_namespace_has_the_attachment(
    injection: Any, annotation: str, selected: str, *, hint: bool
) -> None:
    """Not which one: its author may have no right to see that."""
    injection.attachments = [
        {**attachment("foo", "example.com/foo"), "metadata": {"name": "foo", "namespace": "second"}}
    ]
    pod = {"metadata": {"annotations": {annotation: selected}}, "spec": {"containers": [{"name": "a"}]}}
    message = (await injection.run(pod)).decision.message
    assert message.endswith("another namespace has an attachment of this name: write NAMESPACE/foo") == hint
    assert "second" not in message
