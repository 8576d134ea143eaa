"""Webhook configurations are judged when they are written, in the API server's words."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

JSON = dict[str, Any]
BASE = "/apis/admissionregistration.k8s.io/v1"
RULE: JSON = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK: JSON = {
    "name": "a.example.com",
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "clientConfig": {"url": "https://127.0.0.1:1/x"},
    "rules": [RULE],
    "failurePolicy": "Ignore",
}


def configuration(*hooks: JSON, mutating: bool = False) -> JSON:
    kind = f"{'Mutating' if mutating else 'Validating'}WebhookConfiguration"
    return {"apiVersion": BASE[6:], "kind": kind, "metadata": {"name": "judged"}, "webhooks": list(hooks)}


def path(name: str = "", *, mutating: bool = False) -> str:
    return f"{BASE}/{'mutating' if mutating else 'validating'}webhookconfigurations{name}"


def rule(**fields: Any) -> JSON:
    return {"rules": [{**RULE, **fields}]}


def client(**fields: Any) -> JSON:
    return {"clientConfig": fields}


def service(**fields: Any) -> JSON:
    return client(service={"name": "a", "namespace": "b", **fields})


def conditions(*entries: JSON) -> JSON:
    return {"matchConditions": list(entries)}


@pytest.fixture
def judged(served: Any) -> Iterator[Callable[..., Any]]:
    """Creates configurations, and removes what was accepted."""

    def create(*hooks: JSON, mutating: bool = False) -> Any:
        return served.request("POST", path(mutating=mutating), configuration(*hooks, mutating=mutating))

    yield create
    for mutating in (False, True):
        served.request("DELETE", path("/judged", mutating=mutating))


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"sideEffects": None}, "sideEffects", "Required value: must specify one of None, NoneOnDryRun"),
        ({"sideEffects": "Some"}, "sideEffects", 'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'),
        ({"admissionReviewVersions": None}, "admissionReviewVersions", "must specify one of v1, v1beta1"),
        ({"admissionReviewVersions": ["v2"]}, "admissionReviewVersions", "must include at least one of v1, v1beta1"),
        ({"admissionReviewVersions": ["v1", "v1"]}, "admissionReviewVersions[1]", 'Invalid value: "v1": duplicate'),
        ({"admissionReviewVersions": ["v1", "V"]}, "admissionReviewVersions[1]", "a DNS-1035 label must consist"),
        ({"name": ""}, "name", "Required value"),
        ({"name": "a.b"}, "name", "should be a domain with at least three segments separated by dots"),
        ({"name": "A.b.c"}, "name", "a lowercase RFC 1123 subdomain"),
        ({"timeoutSeconds": 0}, "timeoutSeconds", "0: the timeout value must be between 1 and 30 seconds"),
        ({"timeoutSeconds": 31}, "timeoutSeconds", "31: the timeout value must be between 1 and 30 seconds"),
        ({"failurePolicy": "x"}, "failurePolicy", 'supported values: "Fail", "Ignore"'),
        ({"matchPolicy": "x"}, "matchPolicy", 'supported values: "Equivalent", "Exact"'),
        ({"reinvocationPolicy": "x"}, "reinvocationPolicy", 'supported values: "IfNeeded", "Never"'),
        ({"clientConfig": {}}, "clientConfig", "Required value: exactly one of url or service is required"),
        (service() | client(url="https://x", service={}), "clientConfig", "exactly one of url or service is required"),
        (client(url="http://x.y"), "clientConfig.url", "'https' is the only allowed URL scheme"),
        (client(url="https://u:p@x.y"), "clientConfig.url", '"u:p": user information is not permitted in the URL'),
        (client(url="https://x/?a"), "clientConfig.url", "query parameters are not permitted in the URL"),
        (client(url="https://x/#a"), "clientConfig.url", "fragments are not permitted in the URL"),
        (client(url="https:///a"), "clientConfig.url", "host must be specified"),
        (client(url="https://x:port"), "clientConfig.url", "url must be a valid URL"),
        (service(port=0), "clientConfig.service.port", "port is not valid: must be between 1 and 65535, inclusive"),
        (service(path="xy"), "clientConfig.service.path", "must start with a '/'"),
        (service(path="/a//b"), "clientConfig.service.path", "segment[1] may not be empty"),
        (service(path="/A_"), "clientConfig.service.path", "segment[0]: a lowercase RFC 1123 subdomain"),
        (service(name=""), "clientConfig.service.namespace", "Required value"),
        (rule(operations=[]), "rules[0].operations", "Required value"),
        (rule(operations=["FOO"]), "rules[0].operations[0]", 'supported values: "*", "CONNECT", "CREATE"'),
        (rule(operations=["*", "CREATE"]), "rules[0].operations", "must not specify other operations"),
        (rule(apiGroups=[]), "rules[0].apiGroups", "Required value"),
        (rule(apiVersions=[""]), "rules[0].apiVersions[0]", "Required value"),
        (rule(resources=[]), "rules[0].resources", "Required value"),
        (rule(resources=["*", "pods"]), "rules[0].resources", "other resources without subresources"),
        (rule(resources=["*/*", "pods"]), "rules[0].resources", "if '*/*' is present, must not specify other"),
        (rule(resources=["pods/*", "pods/x"]), "rules[0].resources[1]", "if 'pods/*' is present, must not specify"),
        (rule(scope="x"), "rules[0].scope", 'supported values: "*", "Cluster", "Namespaced"'),
        (
            {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            "objectSelector.matchExpressions[0].values",
            "must be specified when `operator` is 'In' or 'NotIn'",
        ),
        ({"namespaceSelector": {"matchLabels": {"a": "b c"}}}, "namespaceSelector.matchLabels", "a valid label must"),
        (conditions({"name": "a b", "expression": "true"}), "matchConditions[0].name", "name part must consist"),
        (conditions({"name": "a", "expression": "foo("}), "matchConditions[0].expression", "compilation failed: "),
        (conditions({"name": "a", "expression": "object.x"}), "matchConditions[0].expression", "bool but got dyn"),
        (conditions({"name": "a", "expression": "'x'"}), "matchConditions[0].expression", "bool but got string"),
        (
            conditions({"name": "a", "expression": "request.foo"}),
            "matchConditions[0].expression",
            "undefined field 'foo'",
        ),
        (
            conditions({"name": "a", "expression": "request.userInfo.user == 'a'"}),
            "matchConditions[0].expression",
            "undefined field 'user'",
        ),
        (
            conditions({"name": "a", "expression": "request.dryRun == 'a'"}),
            "matchConditions[0].expression",
            "found no matching overload for '_==_' applied to '(bool, string)'",
        ),
        (
            conditions({"name": "a", "expression": "request.requestKind"}),
            "matchConditions[0].expression",
            "must evaluate to bool but got kubernetes.GroupVersionKind",
        ),
        (
            conditions(*[{"name": "a", "expression": "true"}] * 2),
            "matchConditions[1].name",
            'Duplicate value: "a"',
        ),
        (
            conditions(*[{"name": f"a{at}", "expression": "true"} for at in range(65)]),
            "matchConditions",
            "Too many: 65: must have at most 64 items",
        ),
    ],
)
def test_a_faulty_webhook_is_refused_with_its_field(
    judged: Callable[..., Any], change: JSON, field: str, message: str
) -> None:
    answer = judged({**copy.deepcopy(HOOK), **change}, mutating=True)
    assert answer.status == 422, answer.body
    causes = [(cause["field"], cause["message"]) for cause in answer.body["details"]["causes"]]
    assert [(name, message in text) for name, text in causes] == [(f"webhooks[0].{field}", True)], causes


@pytest.mark.parametrize(
    "expression",
    [
        "request.options.dryRun == [] || request.userInfo.extra['a'] == ['b']",
        "request != null && has(request.namespace) && 'a' in request.userInfo.groups",
    ],
)
def test_a_condition_may_ask_for_what_a_request_has(judged: Callable[..., Any], expression: str) -> None:
    answer = judged({**copy.deepcopy(HOOK), **conditions({"name": "a", "expression": expression})})
    assert answer.status == 201, answer.body


def test_names_are_unique_within_a_configuration(judged: Callable[..., Any]) -> None:
    answer = judged(HOOK, HOOK)
    assert 'webhooks[1].name: Duplicate value: "a.example.com"' in answer.body["message"]


def test_bundles_have_to_be_base64(judged: Callable[..., Any]) -> None:
    answer = judged({**HOOK, **client(url="https://x", caBundle="YW!j")})
    assert answer.status == 400
    assert answer.body["message"].endswith(": illegal base64 data at input byte 2")
    assert judged({**HOOK, **client(url="https://x", caBundle="YWJj")}).status == 201


@pytest.mark.parametrize("mutating", [True, False])
def test_the_defaults_of_a_webhook(judged: Callable[..., Any], *, mutating: bool) -> None:
    hook = {name: value for name, value in HOOK.items() if name != "failurePolicy"}
    answer = judged({**hook, **service(), "objectSelector": {"matchLabels": {"never": "there"}}}, mutating=mutating)
    (found,) = answer.body["webhooks"]
    expected = {"failurePolicy": "Fail", "matchPolicy": "Equivalent", "timeoutSeconds": 10, "namespaceSelector": {}}
    assert {name: found[name] for name in expected} == expected
    assert found.get("reinvocationPolicy") == ("Never" if mutating else None)
    assert (found["clientConfig"]["service"]["port"], found["rules"][0]["scope"]) == (443, "*")


@pytest.mark.parametrize("method", ["put", "merge", "json", "strategic", "apply"])
def test_no_way_of_writing_gets_around_the_check(served: Any, judged: Callable[..., Any], method: str) -> None:
    made = judged(HOOK)
    assert made.status == 201
    bad = {**HOOK, **conditions({"name": "a", "expression": "object.x.map(a, a)"})}
    body: Any = configuration(bad)
    patches = {
        "merge": ("application/merge-patch+json", {"webhooks": [bad]}),
        "strategic": ("application/strategic-merge-patch+json", {"webhooks": [bad]}),
        "json": (
            "application/json-patch+json",
            [{"op": "add", "path": "/webhooks/0/matchConditions", "value": bad["matchConditions"]}],
        ),
        "apply": ("application/apply-patch+yaml", body),
    }
    if method == "put":
        answer = served.request("PUT", path("/judged"), {**body, "metadata": made.body["metadata"]})
    else:
        media, patch = patches[method]
        query = "?fieldManager=test&force=true" if method == "apply" else ""
        answer = served.request("PATCH", path(f"/judged{query}"), patch, content_type=media)
    assert answer.status == 422, answer.body
    assert "webhooks[0].matchConditions[0].expression" in answer.body["message"]
    assert "matchConditions" not in served.request("GET", path("/judged")).body["webhooks"][0]
