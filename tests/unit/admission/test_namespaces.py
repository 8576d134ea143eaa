"""Whose a namespace is: cache first, one GET for a miss, and never a guess."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from app.admission.parts import Namespaces, ReviewCaches
from app.errors import ApiError, Denied, Transient
from app.kube.client import KubeClient
from app.kube.lookup import Lookup
from app.kube.resources import NAMESPACES
from app.kube.store import Store
from app.placement.model import TENANT_LABEL, tenant_of


def namespace(name: str, labels: Any = None) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


class Recording:
    """A client that records each GET; an answer may be an error, a gate holds answers."""

    def __init__(self, *objects: dict[str, Any], error: Exception | None = None) -> None:
        self.objects = {obj["metadata"]["name"]: obj for obj in objects}
        self.error = error
        self.calls: list[str] = []
        self.called = asyncio.Event()
        self.gate: asyncio.Event | None = None

    async def get(self, resource: object, name: str, *, namespace: str | None = None) -> Any:
        assert resource is NAMESPACES
        self.calls.append(name)
        self.called.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            raise self.error
        if name not in self.objects:
            raise ApiError("not found", status=404, reason="NotFound")
        return self.objects[name]


def lookup(*objects: dict[str, Any], client: Any = None, **options: Any) -> tuple[Namespaces[str], Store[str]]:
    store: Store[str] = Store(tenant_of)
    for obj in objects:
        store.upsert(obj)
    found = Lookup(NAMESPACES, store, tenant_of, client=lambda: client, called="namespace", **options)
    return Namespaces(found), store


@pytest.mark.parametrize(
    ("labels", "tenant"),
    [(None, ""), ({}, ""), ({"a": "b"}, ""), ({TENANT_LABEL: ""}, ""), ({TENANT_LABEL: "t1"}, "t1"), ([], "")],
)
async def test_the_cache_answers_without_a_request(labels: Any, tenant: str) -> None:
    """Also for a namespace that is nobody's: the store keeps that too."""
    client = Recording()
    names, _ = lookup(namespace("ns", labels), client=client)
    assert names.cached("ns") == tenant
    assert await names.find("ns") == tenant
    assert client.calls == []


def test_a_label_that_was_taken_off_frees_nobody() -> None:
    """The name of a tenant's namespace says whose it is, too; a label says it first."""
    assert tenant_of(namespace("tenant-a")) == "a"
    assert tenant_of(namespace("tenant-a", {TENANT_LABEL: "b"})) == "b"
    assert tenant_of(namespace("tenants")) == ""


async def test_a_changed_label_is_followed() -> None:
    names, store = lookup(namespace("ns"))
    store.upsert(namespace("ns", {TENANT_LABEL: "t1"}))
    assert names.cached("ns") == "t1"
    store.upsert(namespace("ns", {TENANT_LABEL: "t2"}))
    assert names.cached("ns") == "t2"
    store.remove("", "ns")
    assert names.cached("ns") is None


async def test_a_miss_is_read_once_for_all_who_wait_and_not_remembered() -> None:
    client = Recording(namespace("new", {TENANT_LABEL: "t1"}))
    client.gate = asyncio.Event()
    names, _ = lookup(client=client)
    waiters = [asyncio.create_task(names.find("new")) for _ in range(3)]
    await client.called.wait()
    waiters.pop().cancel()
    client.gate.set()
    assert await asyncio.gather(*waiters) == ["t1", "t1"]
    assert client.calls == ["new"]
    client.objects["new"] = namespace("new")
    assert await names.find("new") == ""
    assert client.calls == ["new", "new"]


@pytest.mark.parametrize(
    "error",
    [
        ApiError("forbidden", status=403, reason="Forbidden"),
        ApiError("refused", status=0),
        Transient("broken"),
        TimeoutError(),
    ],
)
async def test_what_cannot_be_read_is_transient(error: Exception) -> None:
    names, _ = lookup(client=Recording(error=error))
    with pytest.raises(Transient, match="could not read namespace new: ") as caught:
        await names.find("new")
    assert not isinstance(caught.value, ApiError)


async def test_a_namespace_that_does_not_exist_is_denied_until_it_does() -> None:
    """With HTTP 404, as the plugin NamespaceLifecycle of an API server answers."""
    client = Recording()
    names, _ = lookup(client=client)
    with pytest.raises(Denied, match=r"^metadata\.namespace: namespace new was not found; create it first") as caught:
        await names.find("new")
    assert (caught.value.reason, caught.value.code) == ("NamespaceNotFound", 404)
    client.objects["new"] = namespace("new")
    assert await names.find("new") == ""


async def test_the_delay_that_the_server_asks_for_is_kept() -> None:
    names, _ = lookup(client=Recording(error=ApiError("busy", status=429, delay=7.0)))
    with pytest.raises(Transient) as caught:
        await names.find("new")
    assert caught.value.delay == 7.0


async def test_an_answer_that_does_not_come_is_given_up() -> None:
    client = Recording()
    client.gate = asyncio.Event()
    names, _ = lookup(client=client, timeout=0.01)
    with pytest.raises(Transient, match="no answer within"):
        await names.find("new")


async def test_without_a_connection_nothing_is_guessed() -> None:
    names, _ = lookup()
    with pytest.raises(Transient, match="no connection to the cluster yet"):
        await names.find("new")


async def test_all_who_ask_alike_share_a_cache_and_a_request() -> None:
    """Two wings look for the same namespaces: the API server is watched once, and asked once."""
    caches = ReviewCaches()
    client = Recording(namespace("ns", {TENANT_LABEL: "t1"}))
    client.gate = asyncio.Event()
    caches.client = cast("KubeClient", client)
    asked = [asyncio.create_task(caches.namespaces(tenant_of).find("ns")) for _ in range(2)]
    await client.called.wait()
    client.gate.set()
    assert await asyncio.gather(*asked) == ["t1", "t1"]
    assert client.calls == ["ns"]
    assert len(caches.all) == 1
    caches.namespaces(lambda _: "")
    assert len(caches.all) == 2
