"""What an API server refuses of objects of built-in kinds is what `object_cases` keeps, and what admission refuses."""

from __future__ import annotations

import pytest

from app.appwrappers.admission.scopes import kind_problem
from app.wire import JSON
from tests.support.object_cases import CASES, NO_FIELD, refused_fields
from tests.support.sandbox import Served

KINDS = sorted({(obj["apiVersion"], obj["kind"]) for obj, _ in CASES})


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_an_api_server_refuses_the_fields_that_are_kept(
    served: Served, namespace: str, version: str, kind: str
) -> None:
    path = collection(served, namespace, version, kind)
    differences = []
    for obj, fields in CASES:
        if (obj["apiVersion"], obj["kind"]) == (version, kind):
            answer = answered(served, path, obj)
            if answer != fields:
                differences.append((obj, answer, fields))
    assert not differences


@pytest.mark.parametrize(("version", "kind"), KINDS)
def test_admission_refuses_what_an_api_server_refuses(served: Served, namespace: str, version: str, kind: str) -> None:
    """Both ways: what it lets through is created, and what it refuses is not, for one of the same fields."""
    path = collection(served, namespace, version, kind)
    differences = []
    for obj in (obj for obj, _ in CASES if (obj["apiVersion"], obj["kind"]) == (version, kind)):
        theirs, ours = answered(served, path, obj), refused_fields(obj)
        if bool(theirs) != bool(ours) or (theirs not in ("", NO_FIELD) and not ours & set(theirs.split())):
            differences.append((obj, theirs, ours))
    assert not differences


def test_each_kind_without_a_namespace_is_known(served: Served) -> None:
    """Of all kinds that discovery has, those can be components that are kept in a namespace."""
    groups = served.request("GET", "/apis").body["groups"]
    versions = ["v1", *(version["groupVersion"] for group in groups for version in group["versions"])]
    differences = []
    for version in versions:
        found = served.request("GET", f"/{'api' if version == 'v1' else 'apis'}/{version}").body["resources"]
        for resource in (resource for resource in found if "/" not in resource["name"]):
            problem = kind_problem({"apiVersion": version, "kind": resource["kind"]})
            if bool(problem) != (not resource["namespaced"] or "get" not in resource["verbs"]):
                differences.append((version, resource["kind"], problem))
    assert len(versions) > 10
    assert not differences


def collection(served: Served, namespace: str, version: str, kind: str) -> str:
    """Where objects of a kind are created; the sandbox serves some kinds of a real API server only."""
    group = f"/{'api' if version == 'v1' else 'apis'}/{version}"
    resources = served.request("GET", group).body.get("resources") or []
    names = [resource["name"] for resource in resources if resource["kind"] == kind and "/" not in resource["name"]]
    if not names:
        pytest.skip(f"no {kind} of {version} is served")
    return f"{group}/namespaces/{namespace}/{names[0]}"


def answered(served: Served, path: str, obj: JSON) -> str:
    """The fields that a dry run refuses, in order."""
    answer = served.request("POST", f"{path}?dryRun=All", obj)
    if answer.status == 422:
        return " ".join(sorted({cause["field"] for cause in answer.body["details"]["causes"]}))
    return "" if answer.status == 201 else NO_FIELD
