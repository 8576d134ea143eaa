"""A definition outlives its last object: finalizers hold objects, objects hold their definition."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.waiting import wait_until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/ends.example.com/v1/things"
MERGE = "application/merge-patch+json"
CRD = {
    "metadata": {"name": "things.ends.example.com"},
    "spec": {
        "group": "ends.example.com",
        "scope": "Cluster",
        "names": {"plural": "things", "kind": "Thing"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}},
        ],
    },
}


def thing(name: str, *finalizers: str) -> dict[str, Any]:
    metadata = {"name": name, "finalizers": list(finalizers)}
    return {"apiVersion": "ends.example.com/v1", "kind": "Thing", "metadata": metadata}


@pytest.fixture
def ending(served: Any) -> dict[str, Any]:
    """The answer to the deletion of a definition with one free object and one that is held."""
    served.define(CRD)
    assert served.request("POST", THINGS, thing("free")).status == 201
    assert served.request("POST", THINGS, thing("held", "example.com/hold")).status == 201
    answer = served.request("DELETE", f"{CRDS}/things.ends.example.com")
    assert answer.status == 200
    return answer.body


def release(served: Any) -> Any:
    return served.request("PATCH", f"{THINGS}/held", {"metadata": {"finalizers": None}}, content_type=MERGE)


def gone(served: Any) -> None:
    served.until(f"{CRDS}/things.ends.example.com", 404)
    served.until(THINGS, 404)


def test_objects_with_finalizers_hold_their_definition(served: Any, ending: dict[str, Any]) -> None:
    assert ending["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert ending["metadata"]["deletionTimestamp"]
    assert [entry["type"] for entry in ending["status"]["conditions"]] == [
        "NamesAccepted",
        "Established",
        "Terminating",
    ]
    served.until(f"{THINGS}/free", 404)
    (held,) = served.request("GET", THINGS).body["items"]
    assert held["metadata"]["name"] == "held"
    assert held["metadata"]["deletionTimestamp"]
    refused = served.request("POST", THINGS, thing("late"))
    assert (refused.status, refused.body["message"].partition(": ")[2]) == (
        403,
        "create not allowed while custom resource definition is terminating",
    )
    assert release(served).status == 200
    gone(served)


def test_a_second_deletion_changes_nothing(served: Any, ending: dict[str, Any]) -> None:
    again = served.request("DELETE", f"{CRDS}/things.ends.example.com").body
    assert again["metadata"]["deletionTimestamp"] == ending["metadata"]["deletionTimestamp"]
    assert len(again["status"]["conditions"]) == 3
    assert release(served).status == 200
    gone(served)


def test_a_changed_definition_still_says_that_it_ends(served: Any, ending: dict[str, Any]) -> None:
    patched = served.request(
        "PATCH", f"{CRDS}/{ending['metadata']['name']}", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE
    ).body
    assert "Terminating" in [entry["type"] for entry in patched["status"]["conditions"]]
    assert release(served).status == 200
    gone(served)


def test_other_finalizers_of_a_definition_count_too(served: Any) -> None:
    held = {**CRD, "metadata": {**CRD["metadata"], "finalizers": ["example.com/hold"]}}
    served.define(held)
    assert served.request("POST", THINGS, thing("free")).status == 201
    name = CRD["metadata"]["name"]
    assert served.request("DELETE", f"{CRDS}/{name}").status == 200
    wait_until(lambda: served.request("GET", f"{CRDS}/{name}").body["metadata"]["finalizers"] == ["example.com/hold"])
    served.until(f"{THINGS}/free", 404)
    freed = {"metadata": {"finalizers": None}}
    assert served.request("PATCH", f"{CRDS}/{name}", freed, content_type=MERGE).status == 200
    gone(served)


def test_a_definition_without_objects_goes_at_once(served: Any) -> None:
    served.define(CRD)
    assert served.request("DELETE", f"{CRDS}/{CRD['metadata']['name']}").status == 200
    gone(served)
