"""Who changed a field between a manifest and what an API server would store of it."""

from __future__ import annotations

from typing import Any

import pytest

from app.cel.matchconditions import Attributes, UserInfo
from app.explain.callees import Callee, Registrations, Seen
from app.explain.differences import differences
from app.explain.origins import DEFAULTS, DROPPED, UNSEEN, Tried, origins

JSON = dict[str, Any]
ONE, TWO = (
    Callee("one.test", "MutatingWebhookConfiguration one"),
    Callee("two.test", "MutatingWebhookConfiguration two"),
)


def pod(spec: JSON | None = None, **metadata: Any) -> JSON:
    whole = {"containers": [{"name": "c", "image": "i:1"}], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", **metadata}, "spec": whole}


def owners(fields: JSON) -> list[JSON]:
    return [{"manager": "berth", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}]


def by_field(sent: JSON, stored: JSON, *callees: Callee, planned: JSON | None = None) -> dict[str, tuple[str, ...]]:
    found = origins(Tried(sent, stored, sent if planned is None else planned, callees))
    return {origin.change.field: origin.by for origin in found}


def test_what_has_an_owner_and_was_not_sent_is_a_default() -> None:
    """Also if Berth does not know the default, or knows one that this API server does not have."""
    managed = owners({"f:spec": {"f:newField": {}, "f:containers": {'k:{"name":"c"}': {".": {}, "f:newer": {}}}}})
    containers = [{"name": "c", "image": "i:1", "newer": 1, "added": 2}]
    spec = {"containers": containers, "newField": "x", "other": "y", "dnsPolicy": "ClusterFirst"}
    stored = pod(spec, managedFields=managed)
    assert by_field(pod(), stored, ONE) == {
        "spec.containers[c].newer": (DEFAULTS,),
        "spec.newField": (DEFAULTS,),
        "spec.containers[c].added": (ONE.text,),
        "spec.other": (ONE.text,),
        "spec.dnsPolicy": (ONE.text,),
    }


def test_below_a_field_with_one_owner_the_known_defaults_decide() -> None:
    """The API server owns `resources: {}` as a whole; a webhook adds limits."""
    managed = owners({"f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:resources": {}, "f:args": {}}}}})
    sent = pod({"containers": [{"name": "c", "image": "i:1", "args": ["a"]}]})
    container = {"name": "c", "image": "i:1", "args": ["a", "b"], "resources": {"limits": {"cpu": "1"}}}
    assert by_field(sent, pod({"containers": [container]}, managedFields=managed), ONE) == {
        "spec.containers[c].args": (ONE.text,),
        "spec.containers[c].resources.limits.cpu": (ONE.text,),
    }


def test_another_form_of_a_value_is_the_api_servers_and_another_value_is_not() -> None:
    def limited(amount: str) -> JSON:
        return pod({"containers": [{"name": "c", "image": "i:1", "resources": {"limits": {"cpu": amount}}}]})

    assert by_field(limited("1000m"), limited("1"), ONE) == {"spec.containers[c].resources.limits.cpu": (DEFAULTS,)}
    assert by_field(limited("1000m"), limited("2"), ONE) == {"spec.containers[c].resources.limits.cpu": (ONE.text,)}


def test_what_is_gone_was_dropped_or_removed() -> None:
    sent = pod({"nodeSelektor": "x", "hostNetwork": True})
    stored = pod(managedFields=owners({"f:spec": {"f:hostNetwork": {}}}))
    assert by_field(sent, stored, ONE) == {"spec.nodeSelektor": (DROPPED,), "spec.hostNetwork": (ONE.text,)}
    assert by_field(pod({"nodeSelector": {}, "volumes": []}), pod()) == {}


def test_several_are_named_in_their_order_and_none_is_said() -> None:
    stored = pod(labels={"a": "b"})
    assert by_field(pod(), stored, ONE, TWO) == {"metadata.labels.a": (ONE.text, TWO.text)}
    assert by_field(pod(), stored) == {"metadata.labels.a": (UNSEEN,)}


def test_a_policy_counts_for_the_fields_that_it_names() -> None:
    policy = Callee("p", "b", "MutatingAdmissionPolicy", words=frozenset({"metadata", "labels"}))
    stored = pod({"nodeSelector": {"a": "b"}}, labels={"a": "b"})
    assert by_field(pod(), stored, policy, ONE) == {
        "metadata.labels.a": (policy.text, ONE.text),
        "spec.nodeSelector.a": (ONE.text,),
    }


def test_the_plan_of_berth_is_berths_with_the_defaults_in_it() -> None:
    berth = Callee("pods.berth.dev", "MutatingWebhookConfiguration berth", ours=True)
    volume = {"name": "v", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}
    item = {"path": "l", "fieldRef": {"fieldPath": "metadata.labels", "apiVersion": "v1"}}
    full = {"name": "v", "downwardAPI": {"items": [item], "defaultMode": 420}}
    limits = {"name": "c", "image": "i:1", "resources": {"limits": {"x.test/a": "1"}}}
    both = {**limits, "resources": {"limits": {"x.test/a": "1"}, "requests": {"x.test/a": "1"}}}
    planned = pod({"containers": [limits], "volumes": [volume]})
    stored = pod({"containers": [both], "volumes": [full]}, labels={"a": "b"})
    assert by_field(pod(), stored, berth, ONE, planned=planned) == {
        "spec.containers[c].resources.limits[x.test/a]": (berth.text,),
        "spec.containers[c].resources.requests[x.test/a]": (berth.text,),
        "spec.volumes[v]": (berth.text,),
        "metadata.labels.a": (ONE.text,),
    }


def test_limits_of_init_containers_are_by_their_plugin() -> None:
    text = "LimitRanger plugin set: cpu, memory request for container c; cpu limit for init container i"
    containers = [{"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "1", "memory": "1"}}}]
    starting = [{"name": "i", "image": "i:1"}]
    limited = [{**starting[0], "resources": {"limits": {"cpu": "1", "memory": "2"}}}]
    stored = pod(
        {"containers": containers, "initContainers": limited}, annotations={"kubernetes.io/limit-ranger": text}
    )
    by = by_field(pod({"initContainers": starting}), stored, ONE)
    assert by.pop("spec.initContainers[i].resources.limits.memory") == (ONE.text,)
    assert set(by.values()) == {("admission plugin LimitRanger",)}
    assert "spec.initContainers[i].resources.limits.cpu" in by


def test_selector_and_labels_of_a_job_are_the_api_servers() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": {"template": {}}}
    labels = {"batch.kubernetes.io/controller-uid": "u", "job-name": "j"}
    spec = {"template": {"metadata": {"labels": labels}}, "selector": {"matchLabels": labels}}
    by = by_field(job, {**job, "spec": spec}, ONE)
    assert (set(by.values()), len(by)) == ({(DEFAULTS,)}, 4)


@pytest.mark.parametrize(
    ("before", "after", "fields"),
    [
        ([{"name": "a"}, {"name": "b"}], [{"name": "x"}, {"name": "a"}, {"name": "b"}], ["l[x]"]),
        ([{"name": "a", "v": 1}], [{"name": "a", "v": 1}, {"name": "a", "v": 2}], ["l[+]"]),
        ([{"mountPath": "/a", "name": "v"}], [{"mountPath": "/a", "name": "v", "readOnly": True}], ["l[v].readOnly"]),
        (["a"], ["b", "a"], ["l"]),
    ],
)
def test_elements_go_by_what_names_them(before: list[Any], after: list[Any], fields: list[str]) -> None:
    assert [change.field for change in differences({"l": before}, {"l": after})] == fields


def seen(*states: JSON, known: bool = True, name: str = "p") -> Seen:
    attributes = Attributes(
        "CREATE", "", "v1", "Pod", "pods", "", "ns", name, True, UserInfo("ann" if known else ""), None, {}
    )
    return Seen(attributes, states or (pod(),), {"metadata": {"name": "ns", "labels": {"a": "b"}}}, known=known)


RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


@pytest.mark.parametrize(
    ("fields", "certain"),
    [
        ({}, True),
        ({"namespaceSelector": {"matchLabels": {"a": "c"}}}, None),
        ({"objectSelector": {"matchLabels": {"l": "1"}}}, False),
        ({"matchConditions": [{"name": "n", "expression": "request.userInfo.username == 'ann'"}]}, True),
        ({"matchConditions": [{"name": "n", "expression": "authorizer.path('/x').check('get').allowed()"}]}, False),
        ({"matchConditions": [{"name": "n", "expression": "request.userInfo.username == 'bob'"}]}, None),
    ],
)
def test_a_webhook_matches_certainly_perhaps_or_not(fields: JSON, *, certain: bool | None) -> None:
    webhook = {"rules": [RULE], **fields}
    assert seen(pod(), pod(labels={"l": "1"})).by(webhook) is certain


def test_of_an_unknown_user_conditions_on_the_user_decide_nothing() -> None:
    conditions = [{"name": "n", "expression": "request.userInfo.username == 'bob'"}]
    assert seen(known=False).by({"rules": [RULE], "matchConditions": conditions}) is False


@pytest.mark.parametrize(
    ("constraints", "binding", "count"),
    [
        ({"resourceRules": [RULE]}, {}, 1),
        ({"resourceRules": [{**RULE, "resourceNames": ["q"]}]}, {}, 0),
        ({"resourceRules": [{**RULE, "resourceNames": ["p"]}]}, {}, 1),
        ({"resourceRules": [RULE], "excludeResourceRules": [RULE]}, {}, 0),
        ({"resourceRules": [RULE], "excludeResourceRules": [{**RULE, "resourceNames": ["q"]}]}, {}, 1),
        ({"resourceRules": [RULE]}, {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}, 1),
        ({"resourceRules": [RULE]}, {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "c"}}}}, 0),
        ({"resourceRules": [RULE]}, {"matchResources": {"excludeResourceRules": [RULE]}}, 0),
        ({"resourceRules": [RULE]}, {"policyName": "other"}, 0),
    ],
)
def test_a_policy_matches_with_its_binding(constraints: JSON, binding: JSON, count: int) -> None:
    kind = "ValidatingAdmissionPolicy"
    policy = {"kind": kind, "metadata": {"name": "p"}, "spec": {"matchConstraints": constraints}}
    spec = {"policyName": "p", "validationActions": ["Deny"], **binding}
    bound = {"kind": f"{kind}Binding", "metadata": {"name": "b"}, "spec": spec}
    registrations = Registrations(policies={"Validating": ([policy], [bound])})
    callees = registrations.callees("Validating", seen())
    assert [callee.text for callee in callees] == [f"{kind} p ({kind}Binding b: Deny)"] * count
