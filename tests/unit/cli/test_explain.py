"""What `berth explain` answers: every form of the answer, what it reads from the files, and the webhook's flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.support.explaining import DENIED, FOO_TWICE, NADS, PLAIN, POD, SWITCHES, explain

pytestmark = pytest.mark.usefixtures("plain_surroundings")
OTHERS = ("Ingress", "NetworkPolicy", "Service")


def test_text_names_field_value_and_reason(manifests, capsys) -> None:
    assert explain("-f", "pod.yaml", "-f", "nads.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Pod default/webhook-demo (pod.yaml:2): would be injected"
    assert lines[1] == f"  {FOO_TWICE}"
    assert '    spec.containers[busybox].resources.limits[example.com/foo]: "2"' in lines
    assert any(line.startswith("    spec.volumes[podnetinfo]: {") for line in lines)


def test_a_pod_without_a_name_is_status_1(manifests, capsys) -> None:
    Path("nameless.yaml").write_text(PLAIN.replace("name: plain", "labels: {a: b}"))
    assert explain("-f", "nameless.yaml") == 1
    assert "metadata.name: Required value: name or generateName is required\n" in capsys.readouterr().out


def test_diff_shows_what_is_added(manifests, capsys) -> None:
    assert explain("-f", "pod.yaml", "-f", "nads.yaml", "-o", "diff") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "--- Pod default/webhook-demo (pod.yaml:2), as written"
    assert "+      limits:" in lines
    assert "+        example.com/foo: '2'" in lines
    assert not [line for line in lines[2:] if line.startswith("-")]


def test_json_holds_everything(manifests, capsys) -> None:
    assert explain("-f", "pod.yaml", "-f", "denied.yaml", "-f", "nads.yaml", "-o", "json") == 1
    injected, denied = json.loads(capsys.readouterr().out)["objects"]
    assert (injected["kind"], injected["name"], injected["allowed"], injected["reason"]) == (
        "Pod",
        "webhook-demo",
        True,
        "Injected",
    )
    assert {operation["reason"] for operation in injected["operations"]} == {FOO_TWICE}
    assert injected["pod"]["spec"]["containers"][0]["resources"]["requests"] == {"example.com/foo": "2"}
    assert (denied["kind"], denied["allowed"], denied["operations"], denied["pod"]) == ("Deployment", False, [], None)
    assert "default/nowhere" in denied["message"]


def test_short_options_need_no_space(manifests, capsys) -> None:
    assert explain("-fpod.yaml", "-fnads.yaml", "-nelsewhere", "-ojson") == 1
    assert json.loads(capsys.readouterr().out)["objects"][0]["namespace"] == "elsewhere"


def test_patch_is_one_json_patch_for_each_pod(manifests, capsys) -> None:
    assert explain("-f", "pod.yaml", "-f", "plain.yaml", "-f", "nads.yaml", "-o", "patch") == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert {"op": "add", "path": "/spec/containers/0/resources/limits/example.com~1foo", "value": "2"} in first
    assert second == []


def test_the_pod_form_is_ready_to_be_applied_and_needs_nothing_more(manifests, capsys) -> None:
    """Explained again, the injected Pod stays as it is."""
    assert explain("-f", "pod.yaml", "-f", "nads.yaml", "-o", "pod") == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["spec"]["containers"][0]["resources"]["limits"] == {"example.com/foo": "2"}
    Path("again.yaml").write_text(text)
    assert explain("-f", "again.yaml", "-f", "nads.yaml") == 0
    assert "nothing would be injected: the Pod has all that its networks need" in capsys.readouterr().out


def test_several_pods_are_several_documents(manifests, capsys) -> None:
    assert explain("-f", "pod.yaml", "-f", "plain.yaml", "-f", "denied.yaml", "-f", "nads.yaml", "-o", "pod") == 1
    captured = capsys.readouterr()
    names = [document["metadata"]["name"] for document in yaml.safe_load_all(captured.out)]
    assert names == ["webhook-demo", "plain"]
    assert captured.err.startswith("Deployment default/web (denied.yaml:2): would be denied: could not find")


def test_a_deployments_template_is_explained(manifests, capsys) -> None:
    Path("web.yaml").write_text(DENIED.replace("nowhere", "racked"))
    assert explain("-f", "web.yaml", "-f", "nads.yaml") == 0
    out = capsys.readouterr().out
    assert out.startswith("Deployment default/web (web.yaml:2): would be injected\n")
    assert '    spec.nodeSelector.rack: "two"' in out


def test_nothing_to_inject_is_fine_and_says_why(manifests, capsys) -> None:
    assert explain("-f", "plain.yaml") == 0
    assert capsys.readouterr().out == (
        "Pod default/plain (plain.yaml:1): nothing would be injected: the Pod selects no networks\n"
        "1 object, 1 Pod: 0 injected, 0 refused; 0 errors, 0 warnings\n"
    )


def test_exempt_namespaces_are_those_of_the_webhook(manifests, capsys) -> None:
    for namespace, arguments in (
        ("kube-system", ()),
        ("berth", ("--berth-namespace", "berth")),
        ("berth", ("--webhook-namespace", "berth")),
    ):
        assert explain("-f", "pod.yaml", "-n", namespace, *arguments) == 0
        assert f"namespace {namespace} is exempt" in capsys.readouterr().out


def test_a_denial_is_status_1_and_says_what_the_webhook_says(manifests, capsys) -> None:
    assert explain("-f", "denied.yaml", "-f", "nads.yaml") == 1
    assert "would be denied: could not find network attachment definition 'default/nowhere'" in capsys.readouterr().out


def test_bad_annotations_are_denied_not_crashed_on(manifests, capsys) -> None:
    Path("bad.yaml").write_text(POD.replace("foo-network, foo-network", "'[{\"name\": 1}]'"))
    assert explain("-f", "bad.yaml", "-f", "nads.yaml") == 1
    assert "would be denied: annotation k8s.v1.cni.cncf.io/networks: element 1" in capsys.readouterr().out


@pytest.mark.parametrize("spec", ["text", "{containers: text}", "{containers: [1]}", "{}"])
def test_a_pod_that_is_none_never_ends_in_a_traceback(manifests, capsys, spec) -> None:
    text = f"kind: Pod\nmetadata: {{annotations: {{k8s.v1.cni.cncf.io/networks: foo-network}}}}\nspec: {spec}\n"
    Path("odd.yaml").write_text(text)
    assert explain("-f", "odd.yaml", "-f", "nads.yaml") in (0, 1)
    assert capsys.readouterr().out.startswith("Pod default/ (odd.yaml:1): ")


def test_other_kinds_are_one_note(manifests, capsys) -> None:
    others = "".join(f"kind: {kind}\nmetadata: {{name: s{n}}}\n---\n" for n in range(20) for kind in OTHERS)
    Path("more.yaml").write_text(others + POD)
    assert explain("-f", "more.yaml", "-f", "nads.yaml", "-o", "patch") == 0
    captured = capsys.readouterr()
    assert captured.err.splitlines() == [
        "note: 60 objects of other kinds make no Pods: 20 Ingresses, 20 NetworkPolicies, 20 Services",
        "63 objects, 1 Pod: 1 injected, 0 refused; 0 errors, 0 warnings",
    ]
    assert json.loads(captured.out)
    assert explain("-f", "more.yaml", "-f", "nads.yaml", "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["unused"] == dict.fromkeys(OTHERS, 20)
    assert answer["summary"] == {
        "objects": 63, "pods": 1, "injected": 1, "refused": 0, "errors": 0, "warnings": 0
    }  # fmt: skip


@pytest.mark.parametrize("others", [(), ("-f", "pod.yaml")])
def test_a_broken_attachment_is_a_finding(manifests, capsys, others) -> None:
    """With Pods, and alone."""
    Path("broken.yaml").write_text(NADS.replace('"type": "bridge"', '"type": ""'))
    assert explain("-f", "broken.yaml", *others) == 1
    fault = "would be refused: spec.config.type: want a plugin's name, or a list of plugins"
    *_, finding, summary = capsys.readouterr().out.splitlines()
    assert finding == f"error: NetworkAttachmentDefinition default/foo-network (broken.yaml:2): {fault}"
    assert summary.endswith(" 1 refused; 1 error, 0 warnings")
    assert explain("-f", "broken.yaml", *others, "-o", "json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["findings"] == [
        {
            "severity": "error",
            "reason": "BrokenAttachment",
            "source": "broken.yaml:2",
            "kind": "NetworkAttachmentDefinition",
            "namespace": "default",
            "name": "foo-network",
            "message": fault,
        }
    ]
    assert (answer["summary"]["refused"], answer["summary"]["errors"]) == (1, 1)


def test_attachments_alone_are_checked(manifests, capsys) -> None:
    Path("good.yaml").write_text(NADS.partition("---")[0])
    assert explain("-f", "good.yaml") == 0
    assert capsys.readouterr().out == "1 object, 0 Pods: 0 injected, 0 refused; 0 errors, 0 warnings\n"


def test_the_control_switches_come_from_the_files(manifests, capsys) -> None:
    Path("switches.yaml").write_text(SWITCHES)
    Path("labeled.yaml").write_text(PLAIN.replace("name: plain", "name: plain, labels: {wants-foo: 'true'}"))
    assert explain("-f", "labeled.yaml", "-f", "nads.yaml", "-f", "switches.yaml") == 0
    out = capsys.readouterr().out
    assert "  user-defined injection of label wants-foo\n" in out
    assert '    metadata.annotations[k8s.v1.cni.cncf.io/networks]: "foo-network"\n' in out
    assert '    spec.containers[c].resources.limits[example.com/foo]: "1"\n' in out


def test_other_config_maps_are_noted(manifests, capsys) -> None:
    Path("maps.yaml").write_text(
        SWITCHES.replace("{name: nri-control-switches}", "{name: nri-control-switches, namespace: elsewhere}")
        + "---\nkind: ConfigMap\nmetadata: {name: other}\n"
    )
    assert explain("-f", "plain.yaml", "-f", "maps.yaml") == 0
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("note: ConfigMap elsewhere/nri-control-switches: the webhook reads it in kube-system")
    assert second == "note: 1 object of other kinds makes no Pods: 1 ConfigMap"


def test_broken_switches_are_noted(manifests, capsys) -> None:
    Path("maps.yaml").write_text("kind: ConfigMap\nmetadata: {name: nri-control-switches}\ndata: {config.json: '{'}\n")
    assert explain("-f", "plain.yaml", "-f", "maps.yaml") == 0
    assert "note: ConfigMap nri-control-switches: config.json is not valid JSON" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), '"2"'),
        (("--existing-resources", "skip"), None),
        (("--existing-resources=add",), '"3"'),
        (("--honor-resources",), '"3"'),
        (("--honor-resources=true",), '"3"'),
        (("--network-resource-name-keys", "other/key"), None),
    ],
)
def test_the_webhooks_flags_change_the_answer(manifests, capsys, flags, expected) -> None:
    asking = "resources: {requests: {example.com/foo: 1}, limits: {example.com/foo: 1}}"
    Path("asking.yaml").write_text(POD.replace("resources:", asking))
    assert explain("-f", "asking.yaml", "-f", "nads.yaml", *flags) == 0
    field = "spec.containers[busybox].resources.limits[example.com/foo]: "
    found = [line for line in capsys.readouterr().out.splitlines() if field in line]
    assert [line.partition(field)[2] for line in found] == ([expected] if expected else [])


def test_a_node_selector_conflict_warns_or_denies(manifests, capsys) -> None:
    Path("racked.yaml").write_text(
        POD.replace("foo-network, foo-network", "racked").replace("spec:", "spec:\n  nodeSelector: {rack: one}")
    )
    assert explain("-f", "racked.yaml", "-f", "nads.yaml") == 0
    assert "  warning: " in capsys.readouterr().out
    assert explain("-f", "racked.yaml", "-f", "nads.yaml", "-o", "diff") == 0
    assert "(racked.yaml:2): warning: " in capsys.readouterr().err
    assert explain("-f", "racked.yaml", "-f", "nads.yaml", "--node-selector-conflict", "deny") == 1


def test_hugepages_follow_the_webhooks_flag(manifests, capsys) -> None:
    huge = "resources: {requests: {cpu: 1, hugepages-1Gi: 2Gi}, limits: {hugepages-1Gi: 2Gi}}"
    Path("huge.yaml").write_text(POD.replace("resources:", huge))
    for flag, expected in (("--injectHugepageDownApi", True), ("--injectHugepageDownApi=false", False)):
        assert explain("-f", "huge.yaml", "-f", "nads.yaml", flag) == 0
        assert ("hugepages_1G_limit_busybox" in capsys.readouterr().out) is expected


RDT = """
apiVersion: v1
kind: Pod
metadata: {name: asks}
spec: {containers: [{name: c, image: i, resources: {limits: {cpu: 500m, intel.com/l3_cache_ways: 2}}}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: classes}
data: {classes.yaml: "classes: [{name: four, cacheWays: 4}]"}
"""


def test_rdt_classes_come_from_the_files(manifests, capsys) -> None:
    Path("asks.yaml").write_text(RDT)
    assert explain("-f", "asks.yaml", "--rmd-backend", "runtime", "--rmd-classes", "classes") == 0
    assert "RDT class four serves 2 cache ways" in capsys.readouterr().out
    assert explain("-f", "asks.yaml", "--rmd-backend", "daemon") == 1
    assert "would be denied: spec: without the quality of service Guaranteed" in capsys.readouterr().out
    assert explain("-f", "asks.yaml", "--rmd-backend", "daemon", "--rmd-unreserved", "warn") == 0


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("{kind: Service, metadata: {name: s, annotations: {berth.dev/network: n}}, spec: {selector: {a: b}}}", 1),
        ("{kind: Service, metadata: {name: s, annotations: {berth.dev/interface: eth1, berth.dev/selector: a=b}}}", 0),
        ("{kind: Service, metadata: {name: s}, spec: {selecter: {}}}", 1),
        ("{kind: Service, metadata: {name: s}}", 2),
        ("{kind: ConfigMap, metadata: {name: nri-control-switches}}", 0),
        ("{kind: ConfigMap, metadata: {name: s}}", 2),
    ],
)
def test_a_file_of_such_objects_alone_has_something_to_check(manifests, text, status) -> None:
    Path("s.yaml").write_text(text)
    assert explain("-f", "s.yaml") == status


def test_a_configuration_that_is_not_used_leaves_the_json_readable(manifests, capsys) -> None:
    """What the webhook would log is a finding here."""
    Path("maps.yaml").write_text("kind: ConfigMap\nmetadata: {name: berth-claim-templates}\ndata: {vf: '['}\n")
    assert explain("-f", "maps.yaml", "--claims", "-o", "json") == 1
    assert [one["reason"] for one in json.loads(capsys.readouterr().out)["findings"]] == ["InvalidClaimDefinition"]
