"""Specs of rules: every fault with its field, and the parsed rule."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.errors import Terminal
from app.workloads.model import Expression, Injection, RuleKind, Term
from app.workloads.rules.problems import MAX_COMPUTED, RuleError, parse_rule, rule_problems

SPEC: dict[str, Any] = {
    "resourceType": "v1/Pod",
    "workloadTerms": [
        {
            "matchExpressions": [
                {"key": "metadata.resourceNamespace", "operator": "In", "values": ["default"]},
                {"key": "state.ready", "operator": "NotIn", "values": ["false"]},
            ]
        },
        {"matchExpressions": [{"key": "state.nodeName", "operator": "Exists"}]},
    ],
    "workloadInfoInject": [{"workloadKey": "state.nodeName", "asAnnotation": {"name": "tenant-node-name"}}],
    "dpuSelectionPolicy": "SameNode",
    "template": {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
}
FIRST = "workloadTerms.0.matchExpressions.0"


def changed(path: str, value: Any, *, spec: dict[str, Any] = SPEC) -> dict[str, Any]:
    result = copy.deepcopy(spec)
    *parents, last = (int(part) if part.isdigit() else part for part in path.split("."))
    target: Any = result
    for name in parents:
        target = target[name]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return result


def problems(path: str, value: Any, kind: RuleKind = "tenant") -> list[str]:
    return rule_problems(changed(path, value), kind=kind)


def expression(**fields: Any) -> list[str]:
    return problems(FIRST, fields)


AT = "spec.workloadTerms[0].matchExpressions[0]"


def test_a_good_rule_has_no_problems() -> None:
    assert rule_problems(SPEC, kind="tenant") == []
    assert rule_problems({**SPEC, "tenantMatch": ["tenant1", "tenant2"]}, kind="admin") == []
    assert rule_problems({**SPEC, "tenantMatch": ["*"]}, kind="admin") == []


@pytest.mark.parametrize("value", [..., None, []])
def test_a_rule_needs_no_injections(value: Any) -> None:
    assert problems("workloadInfoInject", value) == []


@pytest.mark.parametrize("value", [..., None, "", "Any", "SameNode"])
def test_the_policies(value: Any) -> None:
    assert problems("dpuSelectionPolicy", value) == []


def test_every_fault_is_named_with_its_field() -> None:
    spec = copy.deepcopy(SPEC)
    spec["resourceType"] = "v1/Service"
    spec["workloadTerms"][0]["matchExpressions"][0]["key"] = "labels.k8s-app"
    spec["workloadTerms"][0]["matchExpressions"][1]["operator"] = "Like"
    spec["workloadTerms"][1]["matchExpressions"] = []
    spec["workloadInfoInject"][0]["asAnnotation"]["name"] = "berth.dev/companion"
    spec["dpuSelectionPolicy"] = "Near"
    found = rule_problems(spec, kind="admin", path="rule.data")
    assert [line.partition(": ")[0] for line in found] == [
        "rule.data.resourceType",
        "rule.data.workloadTerms[0].matchExpressions[0].key",
        "rule.data.workloadTerms[0].matchExpressions[1].operator",
        "rule.data.workloadTerms[1].matchExpressions",
        "rule.data.workloadInfoInject[0].asAnnotation.name",
        "rule.data.dpuSelectionPolicy",
        "rule.data.tenantMatch",
    ]


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("resourceType", ..., "spec.resourceType: must be v1/Pod"),
        ("resourceType", 1, "spec.resourceType: must be v1/Pod, not 1"),
        ("workloadTerms", ..., "spec.workloadTerms: a rule without terms would match nothing: give at least one"),
        ("workloadTerms", [], "spec.workloadTerms: a rule without terms would match nothing: give at least one"),
        ("workloadTerms", {}, "spec.workloadTerms: must be a list"),
        ("workloadTerms.0", None, "spec.workloadTerms[0]: must be an object"),
        ("workloadTerms.1.matchExpressions", "x", "spec.workloadTerms[1].matchExpressions: must be a list"),
        (
            "workloadTerms.1",
            {},
            "spec.workloadTerms[1].matchExpressions: an empty term would match nothing: give at least one expression",
        ),
        (FIRST, 7, f"{AT}: must be an object"),
        (f"{FIRST}.key", ..., f"{AT}.key: must be a string"),
        (f"{FIRST}.operator", ..., f"{AT}.operator: must be one of In, NotIn, Exists, DoesNotExist, not None"),
        (f"{FIRST}.operator", ["In"], f"{AT}.operator: must be one of In, NotIn, Exists, DoesNotExist, not ['In']"),
        (f"{FIRST}.values", ..., f"{AT}.values: In needs at least one value"),
        (f"{FIRST}.values", [], f"{AT}.values: In needs at least one value"),
        (f"{FIRST}.values", "default", f"{AT}.values: must be a list"),
        (f"{FIRST}.values", [True], f'{AT}.values[0]: must be a string, not True: write "true", "1" in quotes'),
        (f"{FIRST}.values", ["a", "x" * 1025], f"{AT}.values[1]: has 1025 characters: at most 1024"),
        (f"{FIRST}.operator", "Exists", f"{AT}.values: Exists takes no values"),
        (f"{FIRST}.operator", "DoesNotExist", f"{AT}.values: DoesNotExist takes no values"),
        ("workloadInfoInject", {}, "spec.workloadInfoInject: must be a list"),
        ("workloadInfoInject.0", "x", "spec.workloadInfoInject[0]: must be an object"),
        ("workloadInfoInject.0.workloadKey", ..., "spec.workloadInfoInject[0].workloadKey: must be a string"),
        (
            "workloadInfoInject.0.asAnnotation",
            ...,
            "spec.workloadInfoInject[0].asAnnotation: must be an object with a name",
        ),
        (
            "workloadInfoInject.0.asAnnotation.name",
            ...,
            "spec.workloadInfoInject[0].asAnnotation.name: must be a string",
        ),
        ("dpuSelectionPolicy", "any", "spec.dpuSelectionPolicy: must be one of Any, SameNode, not 'any'"),
        ("dpuSelectionPolicy", [], "spec.dpuSelectionPolicy: must be one of Any, SameNode, not []"),
        ("tenantMatch", ["tenant1"], "spec.tenantMatch: only a rule of the admin names tenants"),
    ],
)
def test_a_fault_has_its_own_line(path: str, value: Any, line: str) -> None:
    assert problems(path, value) == [line]


@pytest.mark.parametrize("spec", [None, [], "x", 1])
def test_a_spec_is_an_object(spec: Any) -> None:
    assert rule_problems(spec, kind="tenant") == ["spec: must be an object"]


def test_a_bad_key_is_explained_where_it_stands() -> None:
    (line,) = problems(f"{FIRST}.key", "labels.k8s-app")
    assert line.startswith(f"{AT}.key: key 'labels.k8s-app' is not a JMESPath expression: ")
    (line,) = problems("workloadInfoInject.0.workloadKey", "")
    assert line.startswith("spec.workloadInfoInject[0].workloadKey: a key must not be empty")


@pytest.mark.parametrize("values", [None, [], ...])
def test_exists_takes_an_empty_list_of_values(values: Any) -> None:
    fields = {"key": "state.nodeName", "operator": "Exists", "values": values}
    assert expression(**{name: value for name, value in fields.items() if value is not ...}) == []


@pytest.mark.parametrize(
    ("path", "entry", "limit"),
    [
        ("workloadTerms", SPEC["workloadTerms"][1], 32),
        ("workloadTerms.0.matchExpressions", {"key": "a", "operator": "Exists"}, 32),
        (f"{FIRST}.values", "x", 256),
    ],
)
def test_lists_have_limits(path: str, entry: Any, limit: int) -> None:
    assert problems(path, [entry] * limit) == []
    (line,) = problems(path, [entry] * (limit + 1))
    assert line.endswith(f"has {limit + 1} entries: at most {limit}")


def test_a_huge_list_is_not_looked_through() -> None:
    assert len(problems(f"{FIRST}.values", [1] * 10_000)) == 257


def test_injections_have_a_limit() -> None:
    entries = [{"workloadKey": "@", "asAnnotation": {"name": f"a{index}"}} for index in range(33)]
    assert problems("workloadInfoInject", entries[:32]) == []
    assert problems("workloadInfoInject", entries) == ["spec.workloadInfoInject: has 33 entries: at most 32"]


def test_keys_that_compute_are_few() -> None:
    entries = [{"key": f"a[{index}]", "operator": "Exists"} for index in range(MAX_COMPUTED)]
    repeated = [*entries, *entries, {"key": "a.b", "operator": "Exists"}]
    assert problems("workloadTerms.0.matchExpressions", repeated) == []
    (line,) = problems("workloadTerms.0.matchExpressions", [*entries, {"key": "keys(@)", "operator": "Exists"}])
    assert line.startswith("spec.workloadTerms: has 5 different keys that are more than a path of names: at most 4")


def test_injected_keys_that_compute_are_few() -> None:
    def entries(keys: list[str]) -> list[dict[str, Any]]:
        return [{"workloadKey": key, "asAnnotation": {"name": f"n{at}"}} for at, key in enumerate(keys)]

    computed = [f"a[{index}]" for index in range(5)]
    paths = ["@", "@", "a.b", computed[0]]
    assert problems("workloadInfoInject", entries([*computed[:4], *paths])) == []
    (line,) = problems("workloadInfoInject", entries(computed))
    assert line.startswith(
        "spec.workloadInfoInject: has 5 different keys that are more than a path of names: at most 4"
    )


@pytest.mark.parametrize(
    "name", ["tenant-node-name", "example.com/Node_1", "k8s.v1.cni.cncf.io/networks", "myberth.dev/x", "xk8s.io/a"]
)
@pytest.mark.parametrize("kind", ["tenant", "admin"])
def test_names_of_annotations_that_may_be_injected(name: str, kind: RuleKind) -> None:
    spec = changed("workloadInfoInject.0.asAnnotation.name", name, spec={**SPEC, "tenantMatch": ["*"]})
    if kind == "tenant":
        del spec["tenantMatch"]
    assert rule_problems(spec, kind=kind) == []


@pytest.mark.parametrize(
    ("name", "domain"),
    [
        ("berth.dev/companion", "berth.dev"),
        ("x.berth.dev/y", "berth.dev"),
        ("workloadrule.workload.universe.nvidia.com/name", "universe.nvidia.com"),
        ("Berth.DEV/companion", "berth.dev"),
        ("kubernetes.io/psp", "kubernetes.io"),
        ("seccomp.security.alpha.kubernetes.io/pod", "kubernetes.io"),
        ("node.k8s.io/x", "k8s.io"),
    ],
)
@pytest.mark.parametrize("kind", ["tenant", "admin"])
def test_reserved_names_of_annotations(name: str, domain: str, kind: RuleKind) -> None:
    found = problems("workloadInfoInject.0.asAnnotation.name", name, kind)
    line = f"spec.workloadInfoInject[0].asAnnotation.name: {name!r} is reserved: annotations below {domain} cannot be injected"
    assert line in found


@pytest.mark.parametrize("name", ["", "a b", "a/b/c", "/x", "-a", "x" * 64])
def test_names_that_are_no_annotation(name: str) -> None:
    (line,) = problems("workloadInfoInject.0.asAnnotation.name", name)
    assert line.startswith("spec.workloadInfoInject[0].asAnnotation.name: ")


def test_an_annotation_is_written_once() -> None:
    entry = SPEC["workloadInfoInject"][0]
    assert problems("workloadInfoInject", [entry, {"workloadKey": "@", "asAnnotation": {"name": "b"}}, entry]) == [
        "spec.workloadInfoInject[2].asAnnotation.name: 'tenant-node-name' is also what spec.workloadInfoInject[0] writes"
    ]


@pytest.mark.parametrize(
    ("tenants", "field"),
    [
        (None, ""),
        ([], ""),
        ("tenant1", ""),
        ({"*": 1}, ""),
        (["*", "tenant1"], "[0]"),
        (["tenant1", "*"], "[1]"),
        (["*", "*"], "[0]"),
        (["tenant1", ""], "[1]"),
        (["Tenant1"], "[0]"),
        (["tenant.1"], "[0]"),
        (["x" * 64], "[0]"),
        ([1], "[0]"),
        (["t"] * 1025, ""),
    ],
)
def test_an_admin_rule_names_its_tenants(tenants: Any, field: str) -> None:
    found = rule_problems({**SPEC, "tenantMatch": tenants}, kind="admin")
    assert found
    assert found[0].startswith(f"spec.tenantMatch{field}: ")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["In", "*", "@"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["key", "operator", "values", "matchExpressions", "workloadKey", "asAnnotation", "name"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)
PLACES = [*SPEC, "tenantMatch", "workloadTerms.0", "workloadTerms.0.matchExpressions", FIRST, f"{FIRST}.key"]
PLACES += [f"{FIRST}.operator", f"{FIRST}.values", "workloadInfoInject.0", "workloadInfoInject.0.asAnnotation"]
PLACES += ["workloadInfoInject.0.asAnnotation.name", "workloadInfoInject.0.workloadKey"]
KINDS: st.SearchStrategy[RuleKind] = st.sampled_from(("tenant", "admin"))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(path=st.sampled_from(PLACES), value=JSON_VALUES, kind=KINDS)
def test_any_json_gives_problems_or_a_rule(path: str, value: Any, kind: RuleKind) -> None:
    spec = changed(path, value)
    found = rule_problems(spec, kind=kind)
    assert all(line.startswith("spec") and ": " in line for line in found)
    obj = {"metadata": {"namespace": "tenant-a", "name": "r"}, "spec": spec}
    if found or not isinstance(spec["template"], dict):
        with pytest.raises(RuleError):
            parse_rule(obj, kind=kind)
    else:
        parse_rule(obj, kind=kind)


def test_a_tenant_has_a_name_that_its_namespace_has_room_for() -> None:
    assert rule_problems({**SPEC, "tenantMatch": ["t" * 56]}, kind="admin") == []
    (line,) = rule_problems({**SPEC, "tenantMatch": ["t" * 57]}, kind="admin")
    assert line.startswith("spec.tenantMatch[0]: ")
    assert line.endswith("has 57 characters: the name of a tenant has at most 56")


@settings(max_examples=100, deadline=None)
@given(spec=JSON_VALUES, kind=KINDS)
def test_no_json_crashes_the_check(spec: Any, kind: RuleKind) -> None:
    assert rule_problems(spec, kind=kind)


def stored(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "tenant-tenant1", "name": "rule1", "generation": 3, **metadata}, "spec": SPEC}


def test_a_tenant_rule_is_parsed() -> None:
    rule = parse_rule(stored(), kind="tenant")
    assert (rule.kind, rule.id, rule.generation, rule.tenants) == (
        "tenant",
        "tenant-tenant1/rule1",
        3,
        frozenset({"tenant1"}),
    )
    assert rule.terms == (
        Term(
            (
                Expression("metadata.resourceNamespace", "In", frozenset({"default"})),
                Expression("state.ready", "NotIn", frozenset({"false"})),
            )
        ),
        Term((Expression("state.nodeName", "Exists"),)),
    )
    assert rule.injections == (Injection("state.nodeName", "tenant-node-name"),)
    assert rule.policy == "SameNode"
    assert rule.template == (b'{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"nginx","name":"c"}]}}')


@pytest.mark.parametrize(("match", "tenants"), [(["*"], None), (["b", "a"], frozenset({"a", "b"}))])
def test_an_admin_rule_is_parsed(match: list[str], tenants: frozenset[str] | None) -> None:
    obj = stored(namespace="universe")
    obj["spec"] = {**SPEC, "tenantMatch": match}
    assert parse_rule(obj, kind="admin").tenants == tenants


@pytest.mark.parametrize("value", [..., None, ""])
def test_without_a_policy_it_is_any(value: Any) -> None:
    obj = {**stored(), "spec": changed("dpuSelectionPolicy", value)}
    assert parse_rule(obj, kind="tenant").policy == "Any"


def test_a_rule_without_injections_is_parsed() -> None:
    obj = {**stored(generation=None), "spec": changed("workloadInfoInject", None)}
    rule = parse_rule(obj, kind="tenant")
    assert (rule.injections, rule.generation) == ((), 0)


def test_a_bad_rule_is_refused_with_all_its_problems() -> None:
    obj = stored(namespace="default", name="")
    obj["spec"] = {**changed("resourceType", "x"), "template": None}
    with pytest.raises(RuleError) as caught:
        parse_rule(obj, kind="tenant")
    assert isinstance(caught.value, Terminal)
    assert [line.partition(": ")[0] for line in caught.value.problems] == [
        "spec.resourceType",
        "metadata.name",
        "metadata.namespace",
        "spec.template",
    ]
    assert str(caught.value) == "; ".join(caught.value.problems)


@pytest.mark.parametrize("obj", [{}, {"metadata": [], "spec": SPEC}, stored(generation="3"), stored(generation=True)])
def test_an_object_that_is_no_rule_is_a_rule_error(obj: dict[str, Any]) -> None:
    with pytest.raises(RuleError):
        parse_rule(obj, kind="tenant")
