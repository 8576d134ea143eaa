"""The definitions, as an API server applies them: what they take, what they refuse, what they print."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

import app.workloads
from app.workloads import model
from app.workloads.rules import key_syntax, problems
from tests.support.sandbox import Answer, Served, real_server, sandboxed, served
from tests.support.waiting import wait_until

JSON = dict[str, Any]
FOLDER = Path(app.workloads.__file__).parent / "crds"
CRDS: dict[str, JSON] = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yaml"))}
RESOURCES = {
    resource.plural: resource
    for resource in (
        model.WORKLOAD_RULES,
        *model.UVS_RESOURCES,
        model.WORKLOADS,
        model.TENANT_RULES,
        model.ADMIN_RULES,
    )
}
RULES = ("workloadrules", "tenantworkloadrules", "adminworkloadrules")
POD: JSON = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "nginx", "image": "nginx:1.14.2"}]}}
RULE: JSON = {
    "resourceType": "v1/Pod",
    "workloadTerms": [
        {"matchExpressions": [{"key": "metadata.resourceNamespace", "operator": "In", "values": ["default"]}]}
    ],
    "workloadInfoInject": [{"workloadKey": "state.nodeName", "asAnnotation": {"name": "tenant-node-name"}}],
    "dpuSelectionPolicy": "Any",
    "template": POD,
}
__all__ = ["real_server", "sandboxed", "served"]


@pytest.fixture(scope="module")
def cluster(served: Served) -> Served:
    for crd in CRDS.values():
        answer = served.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        assert answer.status == 201, answer.body
    # An API server serves a new kind a moment later.
    wait_until(lambda: all(served.request("GET", each.path()).status == 200 for each in RESOURCES.values()))
    return served


@pytest.fixture
def namespace(cluster: Served) -> str:
    return cluster.namespace()


@pytest.mark.parametrize("plural", RULES)
def test_a_definition_of_rules_has_the_limits_of_the_check(plural: str) -> None:
    """What the API server takes must not be refused by the controller alone, where no webhook runs."""
    spec = version(plural)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    terms = spec["workloadTerms"]
    expressions = terms["items"]["properties"]["matchExpressions"]
    expression = expressions["items"]["properties"]
    assert terms["maxItems"] == problems.MAX_TERMS
    assert expressions["maxItems"] == problems.MAX_EXPRESSIONS
    assert expression["key"]["maxLength"] == key_syntax.MAX_LENGTH
    assert expression["values"]["maxItems"] == problems.MAX_VALUES
    assert expression["values"]["items"]["maxLength"] == problems.MAX_VALUE_LENGTH
    assert spec["workloadInfoInject"]["maxItems"] == problems.MAX_INJECTIONS
    if plural == "adminworkloadrules":
        assert spec["tenantMatch"]["maxItems"] == problems.MAX_TENANTS


def version(plural: str) -> JSON:
    (only,) = CRDS[plural]["spec"]["versions"]
    return dict(only)


def spec_of(plural: str) -> JSON:
    return dict(version(plural)["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"])


def create(cluster: Served, namespace: str, plural: str, spec: JSON, name: str = "o") -> Answer:
    resource = RESOURCES[plural]
    body = resource.body({"name": name}, spec=spec)
    path = f"{resource.path(namespace=namespace)}?fieldValidation=Strict"
    return cluster.request("POST", path, body)


def rule(plural: str, **fields: Any) -> JSON:
    return copy.deepcopy(RULE) | ({"tenantMatch": ["tenant1"]} if plural == "adminworkloadrules" else {}) | fields


def test_every_kind_has_its_definition() -> None:
    names = {
        plural: (crd["spec"]["group"], crd["spec"]["versions"][0]["name"], crd["spec"]["names"]["kind"])
        for plural, crd in CRDS.items()
    }
    assert names == {plural: (each.group, each.version, each.kind) for plural, each in RESOURCES.items()}


def test_the_three_kinds_of_rules_have_the_same_fields() -> None:
    one, two, three = (spec_of(plural) for plural in RULES)
    assert one == two == {name: schema for name, schema in three.items() if name != "tenantMatch"}


@pytest.mark.parametrize("plural", RESOURCES)
def test_every_field_is_explained(plural: str) -> None:
    """`kubectl explain` reads it."""

    def silent(schema: JSON, path: str) -> list[str]:
        found = [] if schema.get("description") else [path]
        for name, inner in (schema.get("properties") or {}).items():
            found += silent(inner, f"{path}.{name}")
        items = schema.get("items") or {}
        return found + [
            place
            for name, inner in (items.get("properties") or {}).items()
            for place in silent(inner, f"{path}[].{name}")
        ]

    root = version(plural)["schema"]["openAPIV3Schema"]
    own = [*silent(root["properties"]["spec"], "spec"), *silent(root["properties"]["status"], "status")]
    assert [path for path in own if ".objRef." not in path] == []


@pytest.mark.parametrize("plural", [*RULES, *(resource.plural for resource in model.UVS_RESOURCES)])
def test_result_and_message_are_printed(cluster: Served, namespace: str, plural: str) -> None:
    resource = RESOURCES[plural]
    spec = rule(plural) if plural in RULES else {"object": manifest(plural)}
    assert create(cluster, namespace, plural, spec).status == 201
    path = resource.path(namespace=namespace, name="o", subresource="status")
    counts = {"matched": 3, "running": 2} if plural in RULES else {}
    patch = {"status": {"result": "error", "message": "no such field", "observedGeneration": 1, **counts}}
    answer = cluster.request("PATCH", path, patch, content_type="application/merge-patch+json")
    assert answer.status == 200, answer.body
    accept = {"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"}
    table = cluster.request("GET", resource.path(namespace=namespace), headers=accept).body
    shown = [index for index, column in enumerate(table["columnDefinitions"]) if not column["priority"]]
    names = [table["columnDefinitions"][index]["name"].upper() for index in shown]
    assert names == ["NAME", "RESULT", *(name.upper() for name in counts), "MESSAGE"]
    assert [table["rows"][0]["cells"][index] for index in shown] == ["o", "error", *counts.values(), "no such field"]


def manifest(plural: str, **fields: Any) -> JSON:
    kind = RESOURCES[plural].kind.removeprefix("UVS")
    base: JSON = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "o"}}
    if kind == "Pod":
        base |= {"spec": POD["spec"]}
    if kind == "DaemonSet":
        base |= {"apiVersion": "apps/v1", "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {}}}}
    return base | fields


@pytest.mark.parametrize("plural", RULES)
def test_a_rule_is_stored_as_it_is(cluster: Served, namespace: str, plural: str) -> None:
    """The template too, field by field; what is left out has its default."""
    template = {
        **POD,
        "metadata": {"labels": {"a": "b"}},
        "spec": {**POD["spec"], "volumes": [{"name": "v", "x": [1]}]},
    }
    answer = create(cluster, namespace, plural, rule(plural, template=template))
    assert (answer.status, answer.body.get("spec")) == (201, rule(plural, template=template))
    bare = {name: value for name, value in rule(plural).items() if name in ("tenantMatch", "workloadTerms", "template")}
    stored = create(cluster, namespace, plural, bare, "bare").body["spec"]
    assert (stored["resourceType"], stored["dpuSelectionPolicy"]) == ("v1/Pod", "Any")


def one(**expression: Any) -> JSON:
    return {"workloadTerms": [{"matchExpressions": [{"key": "a", **expression}]}]}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (one(operator="In"), "spec.workloadTerms[0].matchExpressions[0].values"),
        (one(operator="NotIn", values=[]), "spec.workloadTerms[0].matchExpressions[0].values"),
        (one(operator="Exists", values=["a"]), "spec.workloadTerms[0].matchExpressions[0].values"),
        (one(operator="DoesNotExist", values=["a"]), "spec.workloadTerms[0].matchExpressions[0].values"),
        (one(operator="Gt"), "spec.workloadTerms[0].matchExpressions[0].operator"),
        ({"workloadTerms": []}, "spec.workloadTerms"),
        ({"workloadTerms": [{"matchExpressions": []}]}, "spec.workloadTerms[0].matchExpressions"),
        ({"workloadInfoInject": RULE["workloadInfoInject"] * 2}, "spec.workloadInfoInject"),
        ({"dpuSelectionPolicy": "x"}, "spec.dpuSelectionPolicy"),
        ({"resourceType": "x"}, "spec.resourceType"),
        ({"template": {**POD, "kind": "Job"}}, "spec.template"),
        ({"template": {"spec": {}}}, "spec.template.apiVersion"),
        ({"template": {"apiVersion": "v1", "kind": "Pod"}}, "spec.template.spec"),
    ],
)
@pytest.mark.parametrize("plural", RULES)
def test_broken_rules_are_refused(cluster: Served, namespace: str, plural: str, fields: JSON, path: str) -> None:
    answer = create(cluster, namespace, plural, rule(plural, **fields))
    assert answer.status == 422
    assert path in [cause["field"] for cause in answer.body["details"]["causes"]]


@pytest.mark.parametrize("tenants", [None, [], ["*", "a"], ["A"], ["a" * 57]])
def test_an_admin_rule_names_its_tenants(cluster: Served, namespace: str, tenants: Any) -> None:
    """One by one, or all."""
    spec = rule("adminworkloadrules", tenantMatch=tenants)
    assert create(cluster, namespace, "adminworkloadrules", spec).status == 422
    assert create(cluster, namespace, "adminworkloadrules", {**spec, "tenantMatch": ["*"]}).status == 201


@pytest.mark.parametrize("plural", [resource.plural for resource in model.UVS_RESOURCES])
def test_an_object_is_a_whole_manifest_of_its_kind(cluster: Served, namespace: str, plural: str) -> None:
    good = manifest(plural)
    for bad in (
        {**good, "kind": "Job"},
        {**good, "apiVersion": "v2"},
        {**good, "metadata": {}},
        {**good, "metadata": {"generateName": "a"}},
        {name: value for name, value in good.items() if name != "metadata"},
    ):
        assert create(cluster, namespace, plural, {"object": bad}).status == 422
    answer = create(cluster, namespace, plural, {"object": {**good, "metadata": {"name": "o", "labels": {"a": "b"}}}})
    assert answer.body["spec"]["object"]["metadata"] == {"name": "o", "labels": {"a": "b"}}


def test_a_workload_is_called_by_its_id(cluster: Served, namespace: str) -> None:
    identity = "0a7c0d7f-ba7f-4301-afed-8db108dbee1a"
    extra = {"labels": {}, "annotations": {"a": "b"}, "other": [1]}
    spec = {
        "metadata": {"id": identity, "orchestrator": "kubernetes", "resourceType": "v1/Pod", "resourceName": "p"},
        "state": {"nodeName": "", "ready": False, "extra": extra},
    }
    assert create(cluster, namespace, "workloads", spec, "workload-other").status == 422
    answer = create(cluster, namespace, "workloads", spec, f"workload-{identity}")
    assert (answer.status, answer.body.get("spec")) == (201, spec)


def test_a_workload_keeps_one_entry_for_each_rule(cluster: Served, namespace: str) -> None:
    """Lists by id, so that appliers of different rules do not undo each other."""
    create(cluster, namespace, "workloads", {"metadata": {"id": "u"}}, "workload-u")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "r-u", "namespace": namespace}
    entry = {"id": "tenant-tenant1/r", "status": {"objRef": reference, "result": "success"}}
    path = model.WORKLOADS.path(namespace=namespace, name="workload-u", subresource="status")
    merge = "application/merge-patch+json"
    for entries, status in (([entry], 200), ([entry, entry], 422)):
        body = {"status": {"rules": {"tenant": entries}}}
        assert cluster.request("PATCH", path, body, content_type=merge).status == status
    stored = cluster.request("GET", model.WORKLOADS.path(namespace=namespace, name="workload-u")).body
    assert stored["status"]["rules"] == {"tenant": [entry]}
