"""Templates and manifests before they reach the infra cluster: validity as the API server sees it, and the guards."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.workloads.rules.problems import name_problems
from app.workloads.templates.guards import forbidden_fields
from app.workloads.templates.problems import manifest_problems, template_problems, unknown_fields

JSON = dict[str, Any]
TEMPLATE: JSON = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "nginx:1.14.2"}]}}
SEED_TEMPLATE: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {
        "containers": [
            {
                "name": "nginx",
                "image": "nginx:1.14.2",
                "volumeMounts": [
                    {"name": "workload-info", "mountPath": "/workload-info"},
                    {"name": "workload-labels", "mountPath": "/workload-labels"},
                ],
            }
        ],
        "volumes": [
            {
                "name": name,
                "downwardAPI": {
                    "items": [{"path": path, "fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}]
                },
            }
            for name, path, annotation in (
                ("workload-info", "node-name", "tenant-node-name"),
                ("workload-labels", "labels", "tenant-workload-labels"),
            )
        ],
    },
}
DAEMON_SET: JSON = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "d", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": TEMPLATE["spec"]},
    },
}
ANSWERS = json.loads(Path(__file__).with_name("test_templates_refusals.json").read_text())
"""What kube-apiserver 1.36 answered to these manifests (dry run, strict fields); messages where they are the same."""


def template(spec: JSON | None = None, metadata: JSON | None = None, **fields: Any) -> JSON:
    made = copy.deepcopy(TEMPLATE) | fields
    made["spec"] |= spec or {}
    return made | ({"metadata": metadata} if metadata is not None else {})


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    "good",
    [
        TEMPLATE,
        SEED_TEMPLATE,
        template(metadata={"name": "nginx"}),
        template(metadata={"labels": {"a": "b"}, "annotations": {"c": "d"}, "namespace": "elsewhere"}),
        template(metadata={"creationTimestamp": None, "uid": "u"}, status={"phase": "Running"}),
    ],
)
def test_good_templates_pass(good: JSON, *, trusted: bool) -> None:
    """A template needs no metadata; its name, namespace and status are not looked at."""
    before = copy.deepcopy(good)
    assert template_problems(good, trusted=trusted) == []
    assert good == before


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    ("newer", "field"),
    [
        (template({"newer": []}), "spec.newer"),
        (template({"volumes": [{"name": "v", "emptyDir": {"newer": 448}}]}), "spec.volumes[0].emptyDir.newer"),
        (template(specc={}), "specc"),
        (template(metadata={"labelz": {}}), "metadata.labelz"),
    ],
)
def test_fields_that_berth_does_not_know_are_left_to_the_api_server(newer: JSON, field: str, *, trusted: bool) -> None:
    """A newer Kubernetes has fields that this one has not."""
    assert template_problems(newer, trusted=trusted) == []
    (warning,) = unknown_fields(newer, kind="Pod", path="spec.template")
    assert warning.startswith(f"spec.template.{field}: unknown to Berth")


@pytest.mark.parametrize("odd", [{"generation": "x"}, {"creationTimestamp": 5}, {"managedFields": {}}])
def test_metadata_that_is_not_used_is_no_fault_of_the_warnings(odd: JSON) -> None:
    manifest = {**TEMPLATE, "metadata": {"name": "p", **odd}}
    assert manifest_problems(manifest, kind="Pod") == []
    assert unknown_fields(manifest, kind="Pod", path="spec.object") == []


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "c", "image": "i", "livenessProbe": {"newer": {}}}]},
        {"containers": [{"name": "c", "image": "i", "lifecycle": {"preStop": {"newer": {}}}}]},
        {"containers": [{"name": "c", "image": "i", "env": [{"name": "E", "valueFrom": {"newerRef": {}}}]}]},
        {"containers": [{"name": "c", "image": "i", "envFrom": [{"newerRef": {}}]}]},
        {"volumes": [{"name": "v", "newer": {}}]},
        {"volumes": [{"name": "v", "downwardAPI": {"items": [{"path": "a", "newerRef": {}}]}}]},
        {"resourceClaims": [{"name": "r", "newerName": "x"}]},
    ],
    ids=["probe", "hook", "variable", "variables", "volume", "file", "claim"],
)
def test_what_a_field_that_berth_does_not_know_takes_the_place_of_is_not_missed(spec: JSON, *, trusted: bool) -> None:
    guarded = [] if trusted else list(forbidden_fields({**TEMPLATE["spec"], **spec}, "spec.template.spec"))
    assert template_problems(template(spec), trusted=trusted) == guarded


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (None, "spec.template: want the manifest of a Pod, an object"),
        ([], "spec.template: want the manifest of a Pod, an object"),
        (template(kind="Job"), 'spec.template.kind: want Pod, got "Job"'),
        (template(apiVersion="v2"), 'spec.template.apiVersion: want v1, got "v2"'),
        ({"spec": TEMPLATE["spec"]}, "spec.template.apiVersion: want v1, got null"),
        ({"apiVersion": "v1", "kind": "Pod"}, "spec.template.spec.containers: Required value"),
        (template({"containers": []}), "spec.template.spec.containers: Required value"),
        (template({"containers": {}}), "spec.template.spec.containers: want a list, got an object"),
        (
            template({"containers": [{"name": "c", "image": 7}]}),
            "spec.template.spec.containers[0].image: want a string, got a number",
        ),
        (template(metadata="x"), "spec.template.metadata: want an object, got a string"),
        (template({"hostNetwork": "yes"}), "spec.template.spec.hostNetwork: want true or false, got a string"),
        (template({"overhead": {"cpu": "x"}}), "spec.template.spec.overhead[cpu]: quantities must match"),
        (
            template({"volumes": [{"name": "v", "flexVolume": "x"}]}),
            "spec.template.spec.volumes[0].flexVolume: want an",
        ),
        (template(metadata={"labels": {"a b": "c"}}), 'spec.template.metadata.labels: Invalid value: "a b"'),
        (template({"ephemeralContainers": [{"name": "e"}]}), "spec.template.spec.ephemeralContainers: Forbidden"),
        (template(metadata={"labels": {"berth.dev/x": "c"}}), "spec.template.metadata.labels[berth.dev/x]: "),
        (
            template(metadata={"annotations": {"a.berth.dev/x": ""}}),
            "spec.template.metadata.annotations[a.berth.dev/x]",
        ),
    ],
)
@pytest.mark.parametrize("trusted", [True, False])
def test_bad_templates_are_refused_from_anybody(bad: Any, problem: str, *, trusted: bool) -> None:
    """What the API server would refuse, and Berth's own marks."""
    assert any(line.startswith(problem) for line in template_problems(bad, trusted=trusted))


@pytest.mark.parametrize(
    "fields",
    [
        {"hostNetwork": True},
        {"hostPID": True},
        {"hostIPC": True},
        {"nodeName": "dpu1-host-a"},
        {"serviceAccountName": "admin"},
        {"volumes": [{"name": "v", "hostPath": {"path": "/dev"}}]},
        {"containers": [{"name": "c", "image": "x", "securityContext": {"privileged": True}}]},
    ],
)
def test_only_the_admin_may_ask_for_the_host(fields: JSON) -> None:
    assert template_problems(template(fields), trusted=True) == []
    (line,) = template_problems(template(fields), trusted=False)
    assert line.startswith(f"spec.template.spec.{next(iter(fields))}")


def test_the_admin_may_write_owners_that_are_not_used() -> None:
    metadata = {"ownerReferences": [{}], "finalizers": ["x"]}
    assert template_problems(template(metadata=metadata), trusted=True) == []
    assert len(template_problems(template(metadata=metadata), trusted=False)) == 2


def test_all_problems_are_told_with_the_path_that_was_given() -> None:
    bad = template({"hostPID": True, "restartPolicy": "x"}, metadata={"labels": {"berth.dev/a": "b"}})
    found = [line.partition(": ")[0] for line in template_problems(bad, trusted=False, path="rule.template")]
    assert found == [
        "rule.template.metadata.labels[berth.dev/a]",
        "rule.template.spec.hostPID",
        "rule.template.spec.restartPolicy",
    ]


@pytest.mark.parametrize(
    ("kind", "good"),
    [
        ("Pod", template(metadata={"name": "tenant1-uvspod1"})),
        ("DaemonSet", DAEMON_SET),
        ("Secret", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}),
        ("ConfigMap", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}),
    ],
)
def test_good_manifests_pass(kind: str, good: JSON) -> None:
    """Whatever namespace they name; the input stays as it is."""
    before = copy.deepcopy(good)
    assert manifest_problems(good, kind=kind) == []
    assert good == before
    (problem, *_) = manifest_problems(good | {"metadata": {}}, kind=kind)
    assert problem.startswith("spec.object.metadata.name: Required value")


@pytest.mark.parametrize(
    ("kind", "bad", "problem"),
    [
        ("Pod", template({"hostPID": True}, {"name": "p"}), "spec.object.spec.hostPID: "),
        ("Pod", template(metadata={"name": "p", "finalizers": ["a/b"]}), "spec.object.metadata.finalizers: "),
        ("Pod", template(metadata={"name": "P"}), 'spec.object.metadata.name: Invalid value: "P"'),
        ("Pod", DAEMON_SET, "spec.object.kind: want Pod"),
        ("DaemonSet", {**DAEMON_SET, "spec": {}}, "spec.object.spec.template.spec.containers: Required value"),
        ("DaemonSet", {**DAEMON_SET, "spec": 7}, "spec.object.spec: want an object"),
        ("Deployment", {}, 'spec.object.kind: "Deployment" cannot be created for a tenant'),
    ],
)
def test_bad_manifests_are_refused(kind: str, bad: JSON, problem: str) -> None:
    assert any(line.startswith(problem) for line in manifest_problems(bad, kind=kind))


def test_the_template_of_a_daemon_set_is_guarded_too() -> None:
    bad = copy.deepcopy(DAEMON_SET)
    bad["spec"]["template"]["spec"]["hostNetwork"] = True
    bad["spec"]["template"]["metadata"]["annotations"] = {"berth.dev/spec-hash": "x"}
    assert [line.partition(": ")[0] for line in manifest_problems(bad, kind="DaemonSet")] == [
        "spec.object.spec.template.metadata.annotations[berth.dev/spec-hash]",
        "spec.object.spec.template.spec.hostNetwork",
    ]


def test_tokens_of_service_accounts_are_refused() -> None:
    account = {"kubernetes.io/service-account.name": "default"}
    token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "annotations": account}}
    token["type"] = "kubernetes.io/service-account-token"
    (line,) = manifest_problems(token, kind="Secret")
    assert line.startswith("spec.object.type: ")


@pytest.mark.parametrize("name", ["r", "tenant1-rule1", "a.b", "x" * 253])
def test_rule_names_that_can_begin_a_pod_name(name: str) -> None:
    """Length is no problem: long names are shortened."""
    assert name_problems(name) == []


@pytest.mark.parametrize("name", ["", "Rule", "a_b", "-a", "a-", "a b", "ä", None, 7])
def test_rule_names_that_cannot_begin_a_pod_name(name: Any) -> None:
    (line,) = name_problems(name, "rule.id")
    assert line.startswith("rule.id: ")


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: json.dumps(answer["manifest"]["kind"]))
def test_verdicts_are_those_of_an_api_server(answer: JSON) -> None:
    """The same manifests pass, and mostly for the same faults in the same words."""
    manifest = answer["manifest"]
    found = [line.removeprefix("X.") for line in manifest_problems(manifest, kind=manifest["kind"], path="X")]
    guards = {line for line in found if "capabilities.add" in line or "in a tenant's Pod; " in line}
    assert bool(set(found) - guards) is answer["refused"]
    assert set(answer.get("messages", ())) <= set(found)


def test_deep_and_foreign_values_are_refused() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    odd = ({"spec": deep}, {"spec": {1j}}, {"spec": {"containers": [{"name": "\ud800"}]}}, {"spec": 2**70})
    for value in odd:
        assert template_problems(value, trusted=False)
        assert manifest_problems(value, kind="Pod")
    while deep:  # the interpreter takes nested dictionaries apart recursively
        deep = deep.pop("a")


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.just([]) | st.just({})
_MANIFESTS = st.sampled_from([answer["manifest"] for answer in ANSWERS])


def _places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values inside of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in ((*at, key), *_places(item, (*at, key)))]


@settings(max_examples=150, deadline=None)
@given(_MANIFESTS, st.data())
def test_no_manifest_makes_the_checks_fail(manifest: JSON, data: st.DataObject) -> None:
    """Any value at any place of a real manifest: an answer, and the input as it was."""
    broken = copy.deepcopy(manifest)
    *parents, last = data.draw(st.sampled_from(_places(broken)))
    holder: Any = broken
    for key in parents:
        holder = holder[key]
    holder[last] = data.draw(st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=2), max_leaves=3))
    before = repr(broken)
    for kind in ("Pod", "DaemonSet", "Secret", "ConfigMap"):
        assert all(isinstance(line, str) for line in manifest_problems(broken, kind=kind))
    template_problems(broken, trusted=True)
    template_problems(broken, trusted=False)
    assert repr(broken) == before


@settings(max_examples=100, deadline=None)
@given(st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)))
def test_no_json_makes_the_checks_fail(value: Any) -> None:
    for spec in (value, {"spec": value}, {"metadata": value}, {"spec": {"containers": [value], "volumes": [value]}}):
        assert template_problems(spec, trusted=False)
        assert manifest_problems(spec, kind="DaemonSet")


@pytest.mark.parametrize("key", ["berth.dev/dpu-of-host", "berth.dev/inject", "berth.dev/resources-container"])
def test_what_users_ask_berth_by_is_not_reserved(key: str) -> None:
    """A tenant may put a Pod of its own on the DPU of one of its hosts."""
    asking = template(metadata={"name": "p", "annotations": {key: "x"}, "labels": {key: "x"}})
    assert manifest_problems(asking, kind="Pod") == []


@pytest.mark.parametrize(
    ("many", "where"),
    [
        ({"volumes": [{"name": "v", "projected": {"sources": "?"}}]}, "volumes[0].projected.sources"),
        ({"volumes": [{"name": "v", "secret": {"secretName": "s", "items": "?"}}]}, "volumes[0].secret.items"),
        ({"volumes": [{"name": "v", "configMap": {"name": "s", "items": "?"}}]}, "volumes[0].configMap.items"),
        ({"volumes": [{"name": "v", "downwardAPI": {"items": "?"}}]}, "volumes[0].downwardAPI.items"),
        ({"containers": [{"name": "c", "env": "?"}]}, "containers[0].env"),
        ({"containers": [{"name": "c", "envFrom": "?"}]}, "containers[0].envFrom"),
        ({"containers": [{"name": "c", "ports": "?"}]}, "containers[0].ports"),
        ({"containers": [{"name": "c", "volumeMounts": "?"}]}, "containers[0].volumeMounts"),
        ({"initContainers": [{"name": "c", "env": "?"}]}, "initContainers[0].env"),
        ({"topologySpreadConstraints": "?"}, "topologySpreadConstraints"),
        ({"hostAliases": "?"}, "hostAliases"),
        ({"resourceClaims": "?"}, "resourceClaims"),
    ],
)
def test_each_list_of_a_pod_is_bounded_before_it_is_read(many: dict, where: str) -> None:
    """Of sources 6,000 cost 500 times what a small rule costs, each of them right by itself."""
    crowd = json.loads(json.dumps(many).replace('"?"', json.dumps([{"name": "?"}] * 1001)))
    manifest = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}]} | crowd}
    assert template_problems(manifest, trusted=True) == [f"spec.template.spec.{where}: want at most 1000, got 1001"]
    manifest["metadata"] = {"name": "p"}
    assert manifest_problems(manifest, kind="Pod") == [f"spec.object.spec.{where}: want at most 1000, got 1001"]


def test_all_lists_of_a_pod_together_are_bounded() -> None:
    volumes = [{"name": f"v{n}", "projected": {"sources": [{"secret": {"name": "s"}}] * 900}} for n in range(4)]
    spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
    (line,) = template_problems(pod, trusted=True)
    assert line == "spec.template.spec: want at most 3000 objects in all lists together, got 3605"
    spec["volumes"] = volumes[:3]
    assert template_problems(pod, trusted=True) == []
    spec["containers"][0]["args"] = ["a"] * 5000
    assert template_problems(pod, trusted=True) == []


@pytest.mark.parametrize("field", ["initContainers", "containers", "volumes"])
def test_a_list_that_no_pod_needs_as_long_is_refused_unread(field: str) -> None:
    """Items that would each have a fault of their own: one line says what is wrong, not one for each."""
    crowd = {"containers": [{"name": "c", "image": "i"}], field: [{"name": "?"}] * 1001}
    expected = [f"spec.template.spec.{field}: want at most 1000, got 1001"]
    template = {"apiVersion": "v1", "kind": "Pod", "spec": crowd}
    assert template_problems(template, trusted=True) == expected
    assert template_problems(template, trusted=False) == expected
    daemons = {"apiVersion": "apps/v1", "kind": "DaemonSet", "spec": {"template": {"spec": crowd}}}
    assert manifest_problems(daemons, kind="DaemonSet") == [
        f"spec.object.spec.template.spec.{field}: want at most 1000, got 1001"
    ]
