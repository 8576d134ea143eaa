"""The check of rules and tenants' objects: every line of what admission refuses, all of it in one message."""

from __future__ import annotations

import copy
import json
from typing import Any

import msgspec
import pytest

from app.admission.chain import Chain
from app.admission.decision import Decision
from app.admission.review import GroupVersionKind, WholeRequest
from app.placement.model import TenantPolicy, parse_policy
from app.workloads.model import (
    ADMIN_RULES,
    MIRROR,
    RULE_NAME,
    TENANT_RULES,
    UVS_DAEMON_SETS,
    UVS_PODS,
    UVS_SECRETS,
    WORKLOAD_RULES,
)
from app.workloads.webhook import RuleCheck

JSON = dict[str, Any]
POD: JSON = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "nginx", "image": "nginx:1.14.2"}]}}
HOST_POD: JSON = {**POD, "spec": {**POD["spec"], "hostNetwork": True}}
SPEC: JSON = {
    "resourceType": "v1/Pod",
    "workloadTerms": [
        {
            "matchExpressions": [
                {"key": "metadata.resourceNamespace", "operator": "In", "values": ["default"]},
                {"key": "metadata.resourceName", "operator": "In", "values": ["tenant1-pod1"]},
            ]
        }
    ],
    "workloadInfoInject": [
        {"workloadKey": "state.nodeName", "asAnnotation": {"name": "tenant-node-name"}},
        {"workloadKey": "state.extra.labels", "asAnnotation": {"name": "tenant-workload-labels"}},
    ],
    "dpuSelectionPolicy": "Any",
    "template": POD,
}
RULES = (WORKLOAD_RULES, TENANT_RULES, ADMIN_RULES)


def rule(name: str = "tenant1-rule1", /, **fields: Any) -> JSON:
    return {"metadata": {"name": name, "namespace": "universe"}, "spec": copy.deepcopy(SPEC) | fields}


def uvs(manifest: Any, **metadata: Any) -> JSON:
    return {"metadata": {"name": "o", "namespace": "universe", **metadata}, "spec": {"object": manifest}}


def terms(**expression: Any) -> list[JSON]:
    return [{"matchExpressions": [{"key": "state.nodeName", "operator": "Exists"} | expression]}]


async def review(
    obj: Any,
    resource: Any = WORKLOAD_RULES,
    *,
    old: Any = None,
    namespace: str = "universe",
    policy: TenantPolicy | None = None,
    **fields: Any,
) -> Decision:
    kind = GroupVersionKind(resource.group, resource.version, resource.kind)
    request = WholeRequest(
        uid="1",
        kind=kind,
        namespace=namespace,
        object=msgspec.Raw(json.dumps(obj).encode()),
        old_object=msgspec.Raw(json.dumps(old).encode()),
        **({"operation": "UPDATE" if old is not None else "CREATE"} | fields),
    )
    decision, _ = await Chain(checks=[RuleCheck(policy)]).review(request)
    return decision


def spec_for(resource: Any) -> JSON:
    return {"tenantMatch": ["tenant1", "tenant2"]} if resource is ADMIN_RULES else {}


@pytest.mark.parametrize("resource", RULES, ids=lambda resource: resource.kind)
async def test_a_good_rule_passes_without_a_word(resource: Any) -> None:
    decision = await review(rule(**spec_for(resource)), resource)
    assert (decision.allowed, decision.message, list(decision.warnings)) == (True, "", [])


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        (rule(workloadTerms=terms(key="labels.k8s-app")), "spec.workloadTerms[0].matchExpressions[0].key"),
        (rule(workloadTerms=terms(key="")), "spec.workloadTerms[0].matchExpressions[0].key"),
        (rule(workloadTerms=terms(operator="In")), "spec.workloadTerms[0].matchExpressions[0].values"),
        (rule(workloadTerms=terms(values=["a"])), "spec.workloadTerms[0].matchExpressions[0].values"),
        (rule(workloadTerms=terms(operator="Gt")), "spec.workloadTerms[0].matchExpressions[0].operator"),
        (rule(workloadTerms=[]), "spec.workloadTerms"),
        (rule(workloadTerms=[{"matchExpressions": []}]), "spec.workloadTerms[0].matchExpressions"),
        (rule(dpuSelectionPolicy="Elsewhere"), "spec.dpuSelectionPolicy"),
        (rule(resourceType="v1/Node"), "spec.resourceType"),
        (rule(template={**POD, "spec": {"containers": []}}), "spec.template.spec.containers"),
        (rule("Rule_1"), "metadata.name"),
        (
            rule(workloadInfoInject=[{"workloadKey": "@", "asAnnotation": {"name": "berth.dev/rule"}}]),
            "spec.workloadInfoInject[0].asAnnotation.name",
        ),
    ],
)
@pytest.mark.parametrize("resource", RULES, ids=lambda resource: resource.kind)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_what_could_only_fail_later_is_refused(obj: JSON, path: str, resource: Any, operation: str) -> None:
    """The message begins with the field's path."""
    whole = {**obj, "spec": obj["spec"] | spec_for(resource)}
    decision = await review(whole, resource, old={"spec": {}} if operation == "UPDATE" else None)
    assert (decision.allowed, decision.reason, decision.code) == (False, "InvalidRule", 422)
    assert decision.message.startswith(path)


@pytest.mark.parametrize("tenants", [None, [], ["*", "tenant1"], ["Tenant"]])
async def test_an_admin_rule_says_whose_workloads_it_sees(tenants: Any) -> None:
    decision = await review(rule(tenantMatch=tenants), ADMIN_RULES)
    assert not decision.allowed
    assert decision.message.startswith("spec.tenantMatch")


async def test_all_problems_are_in_one_message() -> None:
    obj = rule("A_b", workloadTerms=terms(operator="In"), dpuSelectionPolicy="x", template=HOST_POD)
    decision = await review(obj)
    found = [line.partition(": ")[0] for line in decision.message.split("; ") if line.partition(" ")[0].endswith(":")]
    assert found == [
        "metadata.name",
        "spec.workloadTerms[0].matchExpressions[0].values",
        "spec.dpuSelectionPolicy",
        "spec.template.spec.hostNetwork",
    ]


async def test_a_long_list_of_problems_is_cut_and_counted() -> None:
    containers = [{"name": f"c{index}", "image": ""} for index in range(80)]
    decision = await review(rule(template={**POD, "spec": {"containers": containers}}))
    assert decision.message.endswith("; and 30 more problems")
    assert "containers[49].image" in decision.message
    assert "containers[50].image" not in decision.message


async def test_only_admin_rules_may_ask_for_the_host() -> None:
    assert (await review(rule(template=HOST_POD, tenantMatch=["*"]), ADMIN_RULES)).allowed
    for resource in (WORKLOAD_RULES, TENANT_RULES):
        assert (await review(rule(template=HOST_POD), resource)).message.startswith("spec.template.spec.hostNetwork")


@pytest.mark.parametrize("resource", [WORKLOAD_RULES, TENANT_RULES, UVS_PODS], ids=lambda resource: resource.kind)
async def test_what_the_cloud_admin_allows_passes(resource: Any) -> None:
    template = {**POD, "metadata": {"name": "p"}, "spec": {**POD["spec"], "priorityClassName": "gold"}}
    obj = uvs(template) if resource is UVS_PODS else rule(template=template)
    assert "spec.priorityClassName: " in (await review(obj, resource)).message
    assert (await review(obj, resource, policy=parse_policy(["priorityClass=gold"]))).allowed


@pytest.mark.parametrize(("beginning", "allowed"), [("rule-", True), ("Rule-", False)])
async def test_a_name_that_is_still_to_be_made(beginning: str, *, allowed: bool) -> None:
    decision = await review({"metadata": {"generateName": beginning}, "spec": SPEC})
    assert decision.allowed is allowed
    assert decision.message.startswith("" if allowed else "metadata.generateName")


async def test_a_good_object_passes_without_a_word() -> None:
    """The UVSPod of the walk-through."""
    decision = await review(uvs({**POD, "metadata": {"name": "tenant1-uvspod1"}}), UVS_PODS)
    assert (decision.allowed, decision.message, list(decision.warnings)) == (True, "", [])


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        (uvs(POD), "spec.object.metadata.name"),
        (uvs(None), "spec.object"),
        ({"metadata": {"name": "o"}}, "spec.object"),
        (uvs({**HOST_POD, "metadata": {"name": "p"}}), "spec.object.spec.hostNetwork"),
        (uvs({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "p"}}), "spec.object.kind"),
    ],
)
async def test_bad_objects_are_refused(obj: JSON, path: str) -> None:
    decision = await review(obj, UVS_PODS)
    assert (decision.allowed, decision.reason) == (False, "InvalidObject")
    assert decision.message.startswith(path)


async def test_a_mirror_shows_a_pod_as_it_is() -> None:
    """Berth writes it from a Pod that runs. Without the name of a rule it was marked by hand, which is told."""
    pod = {**HOST_POD, "metadata": {"name": "p"}}
    marks: JSON = {"labels": {MIRROR: "true"}, "annotations": {RULE_NAME: "r"}}
    decision = await review(uvs(pod, **marks), UVS_PODS)
    assert (decision.allowed, list(decision.warnings)) == (True, [])
    (warning,) = (await review(uvs(pod, labels={MIRROR: "true"}), UVS_PODS)).warnings
    assert warning.startswith(f"metadata.labels[{MIRROR}]: ")


async def test_the_mark_of_a_mirror_opens_no_other_door() -> None:
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "type": "bootstrap.kubernetes.io/token"}
    assert not (await review(uvs(token, labels={MIRROR: "true"}), UVS_SECRETS)).allowed
    bad = rule(template=HOST_POD)
    bad["metadata"]["labels"] = {MIRROR: "true"}
    assert not (await review(bad)).allowed


async def test_who_takes_the_mark_from_a_mirror_asks_for_its_pod() -> None:
    pod = {**HOST_POD, "metadata": {"name": "p"}}
    decision = await review(uvs(pod), UVS_PODS, old=uvs(pod, labels={MIRROR: "true"}))
    assert not decision.allowed


async def test_the_mark_of_a_mirror_is_to_be_left() -> None:
    """What its Pod may not have has nothing to do with it, so nothing is said of that."""
    pod = {**POD, "metadata": {"name": "p", "annotations": {RULE_NAME: "r"}}}
    mirror = uvs(pod, labels={MIRROR: "true"}, annotations={RULE_NAME: "r"})
    for new in (uvs(pod, annotations={RULE_NAME: "r"}), uvs(pod)):
        decision = await review(new, UVS_PODS, old=mirror)
        assert (decision.allowed, decision.reason) == (False, "InvalidObject")
        assert decision.message == "metadata.labels: this is a mirror of a companion: leave the label berth.dev/mirror"
    marked = uvs({**POD, "metadata": {"name": "p"}}, labels={MIRROR: "true"})
    assert (await review(uvs({**POD, "metadata": {"name": "p"}}), UVS_PODS, old=marked)).allowed


async def test_what_agents_do_not_look_at_is_told_when_it_is_made() -> None:
    """Agents may be told of another namespace, so it is no error. In the infra cluster rules live elsewhere anyway."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    for obj, resource in ((rule(), WORKLOAD_RULES), (uvs(secret), UVS_SECRETS)):
        decision = await review(obj, resource, namespace="default")
        assert decision.allowed
        (warning,) = decision.warnings
        assert warning == (
            "metadata.namespace: agents look at namespace universe unless configured otherwise, not at default"
        )
        assert not (await review(obj, resource)).warnings
    changed = rule(dpuSelectionPolicy="SameNode")
    assert not (await review(changed, old=rule(), namespace="default")).warnings
    assert not (await review(rule(), TENANT_RULES, namespace="tenant-tenant1")).warnings
    mirror = uvs(HOST_POD, labels={MIRROR: "true"}, annotations={RULE_NAME: "r"})
    assert not (await review(mirror, UVS_PODS, namespace="default")).warnings


async def test_what_leaves_the_spec_as_it_was_is_allowed() -> None:
    """An object from before the check can be labeled, and its finalizers can be removed."""
    old = rule(template=HOST_POD)
    new = copy.deepcopy(old)
    new["metadata"]["labels"] = {"a": "b"}
    assert (await review(new, old=old)).allowed
    new["spec"]["dpuSelectionPolicy"] = "SameNode"
    assert not (await review(new, old=old)).allowed


async def test_deletion_and_status_are_left_alone() -> None:
    bad = rule(template=HOST_POD)
    bad["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z"
    assert not (await review(bad, old=rule())).allowed, "a deletion frees no other change"
    held = bad | {"metadata": bad["metadata"] | {"finalizers": ["example.com/x"]}}
    assert (await review(bad, old=held)).allowed
    assert (await review(rule(template=7), old=rule(), sub_resource="status")).allowed
    assert (await review(None, old=rule(template=7), operation="DELETE")).allowed
    assert (await review({"spec": 7}, GroupVersionKind("example.com", "v1", "WorkloadRule"))).allowed


@pytest.mark.parametrize("odd", [[], "x", {"metadata": 7}, {"metadata": {"name": "a"}, "spec": []}, {}])
@pytest.mark.parametrize("resource", [*RULES, UVS_PODS], ids=lambda resource: resource.kind)
async def test_what_is_no_object_is_refused(odd: Any, resource: Any) -> None:
    decision = await review(odd, resource)
    assert (decision.allowed, decision.reason) == (False, "InvalidObject" if resource is UVS_PODS else "InvalidRule")


DOTTED = "state.extra.labels.app.kubernetes.io"
QUOTED = 'quote labels with dots: state.extra.labels."app.kubernetes.io"'


@pytest.mark.parametrize("resource", RULES, ids=lambda resource: resource.kind)
@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        (
            {"workloadTerms": terms(key=DOTTED)},
            f"spec.workloadTerms[0].matchExpressions[0].key: Exists holds for no workload: {QUOTED}",
        ),
        (
            {"workloadTerms": terms(key=DOTTED, operator="NotIn", values=["a"])},
            f"spec.workloadTerms[0].matchExpressions[0].key: NotIn holds for every workload: {QUOTED}",
        ),
        (
            {
                "workloadTerms": [
                    {
                        "matchExpressions": [
                            {"key": "state.nodeName", "operator": "In", "values": ["a"]},
                            {"key": "state.nodeName", "operator": "DoesNotExist"},
                        ]
                    }
                ]
            },
            (
                "spec.workloadTerms[0].matchExpressions[1]: holds for no workload: "
                "contradicts matchExpressions[0]: no state.nodeName fulfills both"
            ),
        ),
        (
            {"workloadInfoInject": [{"workloadKey": DOTTED, "asAnnotation": {"name": "a"}}]},
            f"spec.workloadInfoInject[0].workloadKey: no workload has a value there: {QUOTED}",
        ),
    ],
)
async def test_a_key_that_no_workload_can_have_is_a_warning(fields: JSON, warning: str, resource: Any) -> None:
    decision = await review(rule(**spec_for(resource) | fields), resource)
    assert (decision.allowed, list(decision.warnings)) == (True, [warning])


async def test_no_warning_is_given_of_what_holds_for_every_workload_as_it_is_meant() -> None:
    assert not (await review(rule(workloadTerms=terms(key="metadata.resourceName")))).warnings


async def test_so_many_keys_are_named_and_no_more() -> None:
    many = [{"matchExpressions": [{"key": f"a{n}.b", "operator": "Exists"} for n in range(32)]}] * 32
    assert len((await review(rule(workloadTerms=many))).warnings) == 8


@pytest.mark.parametrize(
    ("obj", "warned"),
    [
        (rule("a-rule-with-a-name-that-is-rather-long"), "metadata.name"),
        (rule(template={**POD, "metadata": {"name": "nginx"}}), "spec.template.metadata.name"),
        (rule(template={**POD, "metadata": {"namespace": "x"}}), "spec.template.metadata.namespace"),
        (
            rule(
                template={
                    **POD,
                    "spec": {
                        **POD["spec"],
                        "volumes": [
                            {
                                "name": "v",
                                "downwardAPI": {
                                    "items": [
                                        {
                                            "path": "a",
                                            "fieldRef": {"fieldPath": "metadata.annotations['tenant-node-name']"},
                                        },
                                        {"path": "b", "fieldRef": {"fieldPath": "metadata.annotations['nobody']"}},
                                    ]
                                },
                            }
                        ],
                    },
                }
            ),
            "spec.template.spec.volumes[0].downwardAPI.items[1].fieldRef.fieldPath",
        ),
    ],
)
async def test_what_is_legal_but_surprising_is_told(obj: JSON, warned: str) -> None:
    decision = await review(obj)
    assert decision.allowed
    (warning,) = decision.warnings
    assert warning.startswith(f"{warned}: ")


async def test_a_namespace_that_is_not_used_is_told() -> None:
    decision = await review(uvs({**POD, "metadata": {"name": "p", "namespace": "kube-system"}}), UVS_PODS)
    assert decision.allowed
    assert list(decision.warnings) == [
        "spec.object.metadata.namespace: kube-system is not used; the tenant's namespace is"
    ]


@pytest.mark.parametrize(
    ("networks", "words"),
    [
        ("a,b@net1", "interface net1 is the name of element 1 'a' (by its place, as it names none) already"),
        ('[{"name": "a", "mac": 1}]', "mac is the number 1; want a string"),
        ('[{"name": "a", "macRequest": "x"}]', "Multus does not read macRequest; did you mean mac?"),
    ],
)
async def test_networks_that_multus_does_not_attach_to_companions(networks: str, words: str) -> None:
    """Where Berth injects networks in the infra cluster, each Pod would be denied there."""
    metadata = {"annotations": {"k8s.v1.cni.cncf.io/networks": networks}}
    daemon_set = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": metadata | {"labels": {"a": "b"}}, "spec": POD["spec"]},
        },
    }
    for obj, resource, path in (
        (rule(template={**POD, "metadata": metadata}), WORKLOAD_RULES, "spec.template.metadata"),
        (uvs({**POD, "metadata": metadata | {"name": "p"}}), UVS_PODS, "spec.object.metadata"),
        (uvs(daemon_set), UVS_DAEMON_SETS, "spec.object.spec.template.metadata"),
    ):
        decision = await review(obj, resource)
        (warning,) = decision.warnings
        assert warning.startswith(f"{path}: annotation k8s.v1.cni.cncf.io/networks: element ")
        assert words in warning


async def test_a_field_that_berth_does_not_know_is_a_warning() -> None:
    newer = copy.deepcopy(SPEC["template"])
    newer["spec"]["newer"] = []
    for obj, resource, path in (
        (rule(template=newer), WORKLOAD_RULES, "spec.template"),
        (uvs({**newer, "metadata": {"name": "p"}}), UVS_PODS, "spec.object"),
    ):
        decision = await review(obj, resource)
        assert decision.allowed
        (warning,) = decision.warnings
        assert warning.startswith(f"{path}.spec.newer: unknown to Berth")
