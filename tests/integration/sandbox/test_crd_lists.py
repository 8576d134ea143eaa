"""Custom resources across namespaces: selectors, preconditions, nulls in patches, columns for `-o wide` alone."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest

from tests.integration.sandbox.test_crd_rules import GROUP, MERGE, definition, fields
from tests.support.waiting import PATIENCE

BOXES = f"/apis/{GROUP}/v1/boxes"


def path(namespace: str, name: str = "") -> str:
    return f"/apis/{GROUP}/v1/namespaces/{namespace}/boxes" + (f"/{name}" if name else "")


@pytest.fixture
def defined(served: Any) -> Any:
    body = copy.deepcopy(definition(fields(x={"type": "string"}, y={"type": "string", "default": "z"})))
    body["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"name": "Result", "type": "string", "jsonPath": ".spec.x"},
        {"name": "Wide", "type": "string", "jsonPath": ".spec.y", "priority": 1},
    ]
    served.define(body)
    yield
    served.undefine(f"boxes.{GROUP}")


def put(served: Any, namespace: str, name: str, **labels: str) -> Any:
    body = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Box",
        "metadata": {"name": name, "labels": labels},
        "spec": {"x": "1"},
    }
    return served.request("POST", path(namespace), body).body


def test_a_label_selector_spans_namespaces(served: Any, defined: None) -> None:
    one, two = served.namespace(), served.namespace()
    put(served, one, "a", app="x")
    put(served, two, "b", app="x")
    put(served, two, "c", app="y")
    listed = served.request("GET", f"{BOXES}?labelSelector=app%3Dx").body
    assert [item["metadata"]["name"] for item in listed["items"]] == ["a", "b"]
    version = listed["metadata"]["resourceVersion"]
    seen: list[Any] = []
    query = f"{BOXES}?watch=1&labelSelector=app%3Dx&resourceVersion={version}"
    watching = threading.Thread(target=lambda: seen.extend(served.watch(query, count=3)))
    watching.start()
    put(served, one, "d", app="y")
    put(served, one, "e", app="x")
    served.request("PATCH", path(two, "b"), {"metadata": {"labels": {"app": None}}}, content_type=MERGE)
    served.request("DELETE", path(one, "e"))
    watching.join(PATIENCE)
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == [
        ("ADDED", "e"),
        ("DELETED", "b"),
        ("DELETED", "e"),
    ]


def test_a_deletion_of_another_object_of_the_name_is_refused(served: Any, defined: None, namespace: str) -> None:
    made = put(served, namespace, "a")
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}}
    refused = served.request("DELETE", path(namespace, "a"), options)
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    options["preconditions"] = {"uid": made["metadata"]["uid"]}
    assert served.request("DELETE", path(namespace, "a"), options).status == 200


def test_null_removes_in_a_merge_patch_and_the_default_returns(served: Any, defined: None, namespace: str) -> None:
    put(served, namespace, "a")
    patch = {"spec": {"x": None, "y": None}}
    patched = served.request("PATCH", path(namespace, "a"), patch, content_type=MERGE).body
    assert patched["spec"] == {"y": "z"}


def test_wide_columns_carry_their_priority(served: Any, defined: None, namespace: str) -> None:
    put(served, namespace, "a")
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    table = served.request("GET", path(namespace), headers=accept).body
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [("Name", 0), ("Result", 0), ("Wide", 1)]
    assert table["rows"][0]["cells"] == ["a", "1", "z"]


def test_answers_do_not_wait_for_acknowledgments(sandboxed: Any) -> None:
    """Nagle's algorithm is off on every connection, else each answer waits for the client's delayed ACK."""
    listener = sandboxed.cluster._listening._listener
    assert listener.proto == 6  # asyncio turns it off where the protocol is known to be TCP
