"""Objects that are nested more deeply than this process can decode or compare: an API server takes 10,000 levels."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.reflector import Reflector, Scope
from app.kube.resources import CONFIG_MAPS
from app.kube.store import Store
from app.wire import decode_list
from tests.support.counting import Counted
from tests.support.fake_apiserver import ApiServer
from tests.support.running import running
from tests.support.waiting import eventually

JSON = dict[str, Any]


def item(name: str, levels: int = 1) -> bytes:
    deep = b"[" * levels + b"]" * levels
    return b'{"metadata":{"name":"%s","labels":{"a":"}] \\" {["}},"spec":%s}' % (name.encode(), deep)


def list_of(*items: bytes) -> bytes:
    return b'{"metadata":{"resourceVersion":"7"},"items":[%s],"more":[{}]}' % b",".join(items)


def names(found: JSON) -> list[str | None]:
    return [one and one["metadata"]["name"] for one in found["items"]]


@pytest.mark.parametrize("levels", [1500, 9000])
def test_an_item_that_is_nested_too_deeply_does_not_hide_the_others(levels: int) -> None:
    body = list_of(item("a"), item("deep", levels), item("b", 100), item("deeper", 9999), item("c"))
    found = decode_list(body)
    assert names(found) == ["a", None, "b", None, "c"]
    assert found["metadata"] == {"resourceVersion": "7"}
    assert found["more"] == [{}]
    assert found["items"][0]["metadata"]["labels"] == {"a": '}] " {['}


def test_lists_of_usual_objects_are_decoded_as_they_are() -> None:
    assert names(decode_list(list_of(item("a"), item("b", 300)))) == ["a", "b"]
    assert decode_list(b"[1]") == [1]


def test_what_cannot_be_compared_has_changed() -> None:
    store: Store[JSON] = Store(lambda obj: obj)

    def deep(value: int) -> JSON:
        inner: Any = value
        for _ in range(5000):
            inner = [inner]
        return {"metadata": {"name": "a"}, "spec": inner}

    store.upsert(deep(1))
    store.upsert(deep(1))
    replacement = store.replacement()
    replacement.add(deep(2))
    assert replacement.differs()
    assert [event for event, _ in replacement.commit()] == ["MODIFIED"]


async def test_a_cache_is_filled_without_such_an_object(server: ApiServer, client: KubeClient) -> None:
    async def fault(_server: ApiServer, request: web.Request) -> web.Response | None:
        if "watch=true" in request.query_string:
            return None
        return web.Response(body=list_of(item("a"), item("deep", 5000), item("b")), content_type="application/json")

    server.fault = fault
    poisoned, store = Counted("watch_poison_objects_total", "kind"), Store(lambda obj: obj["metadata"]["name"])
    async with running(Reflector(client, Scope(CONFIG_MAPS), store).run()):
        await eventually(lambda: store.synced)
        assert sorted(store.values()) == ["a", "b"]
        assert poisoned() == {"ConfigMap": 1}


async def test_an_object_alone_that_is_nested_too_deeply_is_an_answer_that_cannot_be_read(
    server: ApiServer, client: KubeClient
) -> None:
    async def fault(_server: ApiServer, _request: web.Request) -> web.Response:
        return web.Response(body=item("deep", 5000), content_type="application/json")

    server.fault = fault
    with pytest.raises(ApiError, match="nested too deeply"):
        await client.get(CONFIG_MAPS, "deep", namespace="default")
