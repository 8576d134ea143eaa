"""Objects that are nested more deeply than this process can decode or compare: an API server takes 10,000 levels."""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.store import Store
from app.wire import decode_list

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
