"""Custom resources: served as soon as they are defined, pruned, defaulted, validated, with tables and a status."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.waiting import wait_until

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What it is.",
            "properties": {
                "config": {"type": "string", "description": "CNI configuration."},
                "weight": {"type": "integer", "minimum": 1, "default": 3},
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
GROUP = "k8s.cni.cncf.io"
CRD = {
    "metadata": {"name": f"network-attachment-definitions.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "plural": "network-attachment-definitions",
            "kind": "NetworkAttachmentDefinition",
            "shortNames": ["net-attach-def"],
        },
        "versions": [
            {
                "name": name,
                "served": True,
                "storage": name == "v1",
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Weight", "type": "integer", "jsonPath": ".spec.weight"}],
            }
            for name in ("v1", "v1beta1")
        ],
    },
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
MERGE = "application/merge-patch+json"


def path(namespace: str, name: str = "", version: str = "v1") -> str:
    base = f"/apis/{GROUP}/{version}/namespaces/{namespace}/network-attachment-definitions"
    return f"{base}/{name}" if name else base


def named(name: str, spec: Any, **rest: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name},
        "spec": spec,
        **rest,
    }


@pytest.fixture
def crd(served: Any) -> Iterator[Any]:
    yield served.define(CRD)
    served.undefine(CRD["metadata"]["name"])


def test_definition_is_established_at_once(served: Any, crd: Any, namespace: str) -> None:
    conditions = {entry["type"]: entry["status"] for entry in crd["status"]["conditions"]}
    assert conditions == {"Established": "True", "NamesAccepted": "True"}
    assert crd["status"]["storedVersions"] == ["v1"]
    assert crd["status"]["acceptedNames"]["listKind"] == "NetworkAttachmentDefinitionList"
    listed = served.request("GET", path(namespace)).body
    assert (listed["kind"], listed["items"]) == ("NetworkAttachmentDefinitionList", [])


def test_discovery_names_it(served: Any, crd: Any) -> None:
    resources = served.request("GET", f"/apis/{GROUP}/v1").body["resources"]
    assert [entry["name"] for entry in resources] == [
        "network-attachment-definitions",
        "network-attachment-definitions/status",
    ]
    assert resources[0]["shortNames"] == ["net-attach-def"]
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    answer = served.request("GET", "/apis", headers={"Accept": accept})
    assert answer.headers["Content-Type"] == accept
    (group,) = [item for item in answer.body["items"] if item["metadata"]["name"] == GROUP]
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]


def test_objects_are_defaulted_and_pruned(served: Any, crd: Any, namespace: str) -> None:
    made = served.request("POST", path(namespace), named("a", {"config": "{}", "bogus": 1}))
    assert made.body["spec"] == {"config": "{}", "weight": 3}
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.bogus\\""'
    strict = served.request("POST", path(namespace) + "?fieldValidation=Strict", named("b", {"bogus": 1}))
    assert (strict.status, strict.body["reason"]) == (400, "BadRequest")


def test_objects_are_validated(served: Any, crd: Any, namespace: str) -> None:
    answer = served.request("POST", path(namespace), named("a", {"weight": 0}))
    assert answer.status == 422
    assert answer.body["message"] == (
        f'NetworkAttachmentDefinition.{GROUP} "a" is invalid: spec.weight: Invalid value: 0: spec.weight in body should '
        "be greater than or equal to 1"
    )
    assert answer.body["details"]["group"] == GROUP


def test_status_is_written_on_its_own(served: Any, crd: Any, namespace: str) -> None:
    made = served.request("POST", path(namespace), named("a", {}, status={"ready": True})).body
    assert "status" not in made
    patch = {"spec": {"weight": 9}, "status": {"ready": True}}
    written = served.request("PATCH", path(namespace, "a") + "/status", patch, content_type=MERGE).body
    assert (written["spec"]["weight"], written["status"], written["metadata"]["generation"]) == (3, {"ready": True}, 1)
    changed = served.request("PATCH", path(namespace, "a"), {**patch, "status": {}}, content_type=MERGE).body
    assert (changed["spec"]["weight"], changed["status"], changed["metadata"]["generation"]) == (9, {"ready": True}, 2)


def test_every_served_version_shows_the_same_object(served: Any, crd: Any, namespace: str) -> None:
    made = served.request("POST", path(namespace), named("a", {})).body
    other = served.request("GET", path(namespace, "a", "v1beta1")).body
    assert other["apiVersion"] == f"{GROUP}/v1beta1"
    assert {**other, "apiVersion": made["apiVersion"]} == made
    patched = served.request("PATCH", path(namespace, "a", "v1beta1"), {"spec": {"weight": 4}}, content_type=MERGE)
    assert patched.body["apiVersion"] == f"{GROUP}/v1beta1"
    again = served.request("GET", path(namespace, "a")).body
    assert (again["apiVersion"], again["spec"]["weight"]) == (f"{GROUP}/v1", 4)


def test_table_has_the_definitions_columns(served: Any, crd: Any, namespace: str) -> None:
    served.request("POST", path(namespace), named("a", {}))
    table = served.request("GET", path(namespace), headers=TABLE).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Weight"]
    assert table["rows"][0]["cells"] == ["a", 3]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_openapi_describes_it_for_explain(served: Any, crd: Any) -> None:
    def published() -> Any:
        """A real API server makes its documents a moment later, and redirects from their earlier addresses."""
        entry = served.request("GET", "/openapi/v3").body["paths"].get(f"apis/{GROUP}/v1")
        answer = served.request("GET", entry["serverRelativeURL"]) if entry else None
        return answer.body if answer is not None and answer.status == 200 else None

    document = wait_until(published)
    (schema,) = [
        entry
        for entry in document["components"]["schemas"].values()
        if {"group": GROUP, "kind": "NetworkAttachmentDefinition", "version": "v1"}
        in entry.get("x-kubernetes-group-version-kind", ())
    ]
    assert schema["properties"]["spec"]["properties"]["config"]["description"] == "CNI configuration."
    item = document["paths"][f"/apis/{GROUP}/v1/namespaces/{{namespace}}/network-attachment-definitions/{{name}}"]
    assert {"fieldValidation", "dryRun"} <= {parameter["name"] for parameter in item["patch"]["parameters"]}


def test_deleted_definition_takes_its_objects_along(served: Any, namespace: str) -> None:
    served.define(CRD)
    served.request("POST", path(namespace), named("a", {}))
    served.undefine(CRD["metadata"]["name"])
    served.define(CRD)
    assert served.request("GET", path(namespace)).body["items"] == []
    served.undefine(CRD["metadata"]["name"])


def test_update_without_a_version_is_refused(served: Any, crd: Any, namespace: str) -> None:
    served.request("POST", path(namespace), named("a", {}))
    answer = served.request("PUT", path(namespace, "a"), named("a", {"weight": 4}))
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.body["message"]


def test_broken_definitions_are_refused(served: Any) -> None:
    wrong = {**CRD, "metadata": {"name": "other"}, "spec": {**CRD["spec"], "scope": "Galaxy", "versions": []}}
    answer = served.request("POST", CRDS, wrong)
    assert answer.status == 422
    fields = {cause["field"] for cause in answer.body["details"]["causes"]}
    assert fields == {"metadata.name", "spec.scope", "spec.versions", "status.storedVersions"}


def definition(columns: list[dict[str, Any]]) -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "metadata": {"name": "boxes.columns.example.com"},
        "spec": {
            "group": "columns.example.com",
            "scope": "Cluster",
            "names": {"plural": "boxes", "kind": "Box"},
            "versions": [{**version, "additionalPrinterColumns": columns}],
        },
    }


@pytest.mark.parametrize(
    ("column", "fault"),
    [
        ({"name": ""}, "name: Required value"),
        ({"type": ""}, "type: Required value: must be one of boolean,date,integer,number,string"),
        ({"type": "x"}, 'type: Invalid value: "x": must be one of boolean,date'),
        ({"format": "x"}, 'format: Invalid value: "x": must be one of byte,date'),
        ({"jsonPath": ""}, "JSONPath: Required value"),
        ({"jsonPath": "spec.a"}, 'JSONPath: Invalid value: "spec.a": must be a simple json path starting with .'),
    ],
)
def test_faulty_columns_are_refused(served: Any, column: dict[str, Any], fault: str) -> None:
    body = definition([{"name": "A", "type": "string", "jsonPath": ".spec.a", **column}])
    answer = served.request("POST", f"{CRDS}?dryRun=All", body)
    assert answer.status == 422
    assert f"is invalid: spec.additionalPrinterColumns[0].{fault}" in answer.body["message"]


def test_a_column_that_the_sandbox_cannot_fill_is_pointed_out(sandboxed: Any) -> None:
    columns = [{"name": "A", "type": "string", "jsonPath": path} for path in (".spec.a", ".spec.l[0:2]")]
    answer = sandboxed.request("POST", f"{CRDS}?dryRun=All", definition(columns))
    assert answer.status == 201
    assert "additionalPrinterColumns[1]: the sandbox cannot follow '.spec.l[0:2]'" in answer.headers["Warning"]
    assert "additionalPrinterColumns[0]" not in answer.headers["Warning"]


def test_defaults_stand_in_for_nulls_before_values_are_judged(served: Any, namespace: str, crd: Any) -> None:
    made = served.request("POST", path(namespace), named("nulls", {"weight": None, "config": None}))
    assert (made.status, made.body["spec"]) == (201, {"weight": 3})


def test_finalizers_without_a_path_are_accepted_with_a_warning(served: Any, namespace: str, crd: Any) -> None:
    body = named("plain", {})
    body["metadata"]["finalizers"] = ["foo"]
    answer = served.request("POST", f"{path(namespace)}?dryRun=All", body)
    assert (answer.status, "prefer a domain-qualified finalizer name" in answer.headers["Warning"]) == (201, True)
