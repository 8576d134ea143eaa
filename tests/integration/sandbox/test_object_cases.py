"""What an API server refuses of objects of built-in kinds is what `object_cases` keeps, and what admission refuses."""

from __future__ import annotations

import pytest

from app.appwrappers.admission.components import kind_problem
from app.wire import JSON
from tests.support.object_cases import CASES, NO_FIELD, container, pod, refused_fields
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


def labeled(labels: JSON) -> JSON:
    body = pod()
    return body | {"metadata": body["metadata"] | {"labels": labels}}


LONG = {63: "a" * 64, 253: "a" * 254}
TOO_LONG = {
    "a Pod": (pod() | {"metadata": {"name": LONG[253]}}, "metadata.name", "253 characters"),
    "a container": (container(name=LONG[63]), "spec.containers[0].name", "63 characters"),
    "a volume": (pod(volumes=[{"name": LONG[63], "emptyDir": {}}]), "spec.volumes[0].name", "63 characters"),
    "a host": (pod(hostname=LONG[63]), "spec.hostname", "63 characters"),
    "a node": (pod(nodeName=LONG[253]), "spec.nodeName", "253 characters"),
    "an account": (pod(serviceAccountName=LONG[253]), "spec.serviceAccountName", "253 characters"),
    "a label's name": (labeled({LONG[63]: "a"}), "metadata.labels", "name part must be no more than 63 bytes"),
    "a label's prefix": (
        labeled({f"{LONG[253]}/a": "a"}),
        "metadata.labels",
        "prefix part must be no more than 253 bytes",
    ),
    "a label's value": (labeled({"a": LONG[63]}), "metadata.labels", "must be no more than 63 bytes"),
    "a node's label": (pod(nodeSelector={"a": LONG[63]}), "spec.nodeSelector", "must be no more than 63 bytes"),
    "a port": (
        container(ports=[{"containerPort": 1, "name": "a" * 16}]),
        "spec.containers[0].ports[0].name",
        "15 characters",
    ),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_a_length_is_said_in_bytes_or_in_characters(served: Served, namespace: str, name: str) -> None:
    obj, field, text = TOO_LONG[name]
    assert any(cause["field"] == field and text in cause["message"] for cause in causes(served, namespace, obj))


LETTER, ALPHABET = (
    "must contain at least one letter (a-z)",
    "must contain only alpha-numeric characters (a-z, 0-9), and",
)
TWICE, END = "must not contain consecutive hyphens", "must not begin or end with a hyphen"
PORTS = {
    "a": (),
    "a" * 15: (),
    "a-1": (),
    "1-1": (LETTER,),
    "A": (ALPHABET, LETTER),
    "a_b": (ALPHABET,),
    "a--b": (TWICE,),
    "-a": (END,),
    "a-": (END,),
    "--": (LETTER, TWICE, END),
    "-" * 16: ("must be no more than 15 characters", LETTER, TWICE, END),
}


@pytest.mark.parametrize("field", ["ports[0].name", "livenessProbe.httpGet.port"])
@pytest.mark.parametrize("name", PORTS)
def test_all_that_is_wrong_with_the_name_of_a_port_is_said(
    served: Served, namespace: str, name: str, field: str
) -> None:
    port = {"ports": [{"containerPort": 80, "name": name}]}
    obj = container(**(port if field.startswith("ports") else {"livenessProbe": {"httpGet": {"port": name}}}))
    said = [cause["message"] for cause in causes(served, namespace, obj) if cause["field"].endswith(field)]
    assert len(said) == len(PORTS[name])
    assert all(text in message for text, message in zip(PORTS[name], said, strict=True))


def causes(served: Served, namespace: str, obj: JSON) -> list[JSON]:
    answer = served.request("POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", obj)
    found: list[JSON] = answer.body["details"]["causes"] if answer.status == 422 else []
    return found
