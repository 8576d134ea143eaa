"""Where `berth explain` gets manifests from, and which cluster it asks: kustomizations, directories, $KUBECONFIG."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.devtools.sandbox.server import Cluster
from app.errors import UsageError
from app.explain import reading
from app.kube.resources import PODS
from app.kube.transport import connect
from tests.integration.cli.test_explain_program import write_kubeconfig
from tests.support.command_line import berth
from tests.support.explaining import DENIED, FOO_TWICE, PLAIN
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("plain_surroundings")
BESIDE_PYTHON = str(Path(sys.executable).parent)
"""Where the development dependencies have their kubectl."""
RULE = """
apiVersion: workload.universe.nvidia.com/v1alpha1
kind: WorkloadRule
metadata: {name: r, namespace: universe}
spec:
  resourceType: v1/Pod
  workloadTerms: [{matchExpressions: [{key: state.extra.labels.app, operator: In, values: [web]}]}]
  template: {apiVersion: v1, kind: Pod, spec: {containers: [{name: c, image: i}]}}
"""


def test_a_kustomization_is_built_by_kubectl(manifests: Path) -> None:
    folder = manifests / "overlay"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text("namePrefix: my-\nresources: [pod.yaml]\n")
    (manifests / "pod.yaml").rename(folder / "pod.yaml")
    answer = berth("explain", "-k", "overlay", "-f", "nads.yaml", PATH=BESIDE_PYTHON)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("Pod default/my-webhook-demo (kustomize overlay:1): would be injected\n")
    assert f"  {FOO_TWICE}\n" in answer.stdout


def test_what_kubectl_says_where_it_fails_is_shown_on_one_line(manifests: Path) -> None:
    (manifests / "kustomization.yaml").write_text("resources: [absent.yaml]\n")
    answer = berth("explain", "-k", ".", PATH=BESIDE_PYTHON)
    assert (answer.returncode, answer.stdout, answer.stderr.count("\n")) == (2, "", 1)
    assert answer.stderr.startswith("Error: -k .: kubectl kustomize: error: ")
    assert "absent.yaml" in answer.stderr


def test_without_kubectl_the_flag_says_what_to_do(manifests: Path) -> None:
    answer = berth("explain", "-k", ".", PATH=str(manifests))
    assert answer.returncode == 2
    assert answer.stderr == (
        "Error: -k .: kubectl is not on PATH: install it, or pipe the manifests to berth explain -f -\n"
    )


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("while :; do echo a: b; done", "kubectl kustomize writes more than 1 MiB"),
        ("while :; do echo why >&2; done", "kubectl kustomize has not finished after 0.5 seconds"),
        ("exec yes >&2", "kubectl kustomize has not finished after 0.5 seconds"),
        ("exec yes", "kubectl kustomize writes more than 1 MiB"),
        ("tail -f /dev/null & wait", "kubectl kustomize has not finished after 0.5 seconds"),
        ("printf '\\377'", "writes what is not UTF-8 text"),
        ("printf 'no \\033[31m\\nway' >&2; exit 7", "-k .: kubectl kustomize: no \\u001b[31m way"),
        ("exit 7", "-k .: kubectl kustomize: exit status 7"),
    ],
)
def test_time_and_output_of_kubectl_are_bounded(
    manifests: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    """Some of these write without end; none of them runs on."""
    (manifests / "kubectl").write_text(f"#!/bin/sh\n{script}\n")
    (manifests / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(manifests), prepend=":")
    monkeypatch.setattr(reading, "MOST_BYTES", 1 << 20)
    ends_by_itself = "has not finished" not in message
    with pytest.raises(UsageError) as raised:
        reading.build(".", seconds=600.0 if ends_by_itself else 0.5)
    assert message in str(raised.value)


def test_a_directory_is_explained_recursively_with_its_faults(manifests: Path) -> None:
    (manifests / "below").mkdir()
    (manifests / "below" / "web.yaml").write_text(DENIED.replace("nowhere", "racked"))
    (manifests / "notes.txt").write_text("x")
    (manifests / "denied.yaml").write_text("kind: [")
    answer = berth("explain", "-R", "-f", ".")
    assert answer.returncode == 1
    assert answer.stderr == "note: .: skipped 1 file that is no manifest (notes.txt)\n"
    lines = answer.stdout.splitlines()
    assert lines[0] == "Deployment default/web (below/web.yaml:2): would be injected"
    assert lines[-2].startswith("error: denied.yaml:2:1: not valid YAML")
    assert lines[-1] == "5 objects, 3 Pods: 2 injected, 0 refused; 1 error, 0 warnings"


def test_names_with_control_characters_do_not_reach_the_terminal(manifests: Path) -> None:
    (manifests / "odd.yaml").write_text(PLAIN.replace("name: plain", 'name: "a\\e[31m\\nError: b"'))
    for form in ("text", "json", "diff"):
        answer = berth("explain", "-f", "odd.yaml", "-o", form)
        assert "\x1b" not in answer.stdout + answer.stderr
        assert not [line for line in (answer.stdout + answer.stderr).splitlines() if line.startswith("Error: b")]
    assert (
        json.loads(berth("explain", "-f", "odd.yaml", "-o", "json").stdout)["objects"][0]["name"]
        == "a\x1b[31m\nError: b"
    )


def test_the_cluster_of_the_variable_is_asked_unless_that_is_not_wanted(manifests: Path) -> None:
    """Port 9 of loopback refuses."""
    write_kubeconfig(Path("down.kubeconfig"), server="https://127.0.0.1:9")
    answer = berth("explain", "-f", "pod.yaml", "-f", "nads.yaml", KUBECONFIG="down.kubeconfig")
    assert (answer.returncode, answer.stdout) == (3, "")
    assert answer.stderr.startswith("Error: the cluster could not be asked: ")
    assert answer.stderr.endswith("; --offline explains with the files alone\n")
    answer = berth("explain", "-f", "pod.yaml", "-f", "nads.yaml", "--offline", KUBECONFIG="down.kubeconfig")
    assert (answer.returncode, answer.stderr) == (0, "")
    assert berth("explain", "-f", "pod.yaml", "-f", "nads.yaml", KUBECONFIG="").returncode == 0
    answer = berth("explain", "-f", "pod.yaml", KUBECONFIG="absent")
    assert answer.returncode == 2
    assert answer.stderr == (
        "Error: kubeconfig absent: no such file (named by $KUBECONFIG); --offline explains with the files alone\n"
    )
    answer = berth("explain", "-f", "pod.yaml", "--offline", "--kubeconfig", "x")
    assert (answer.returncode, "--offline: asks no cluster" in answer.stderr) == (2, True)


async def test_a_user_who_may_not_read_the_configmaps_of_the_webhook_gets_an_answer(manifests: Path) -> None:
    """Users of namespaces have no rights in that of the webhook."""
    async with Cluster() as cluster:
        write("kubeconfig", cluster.kubeconfig("ann", ()))
        answer = await program("-f", "plain.yaml", "-o", "json")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["notes"][0] == (  # where the documents install a release
        "ConfigMap berth-system/nri-control-switches: you have no right to get it: taken as if it were not there"
    )


async def test_where_nodes_may_not_be_listed_nothing_is_said_to_be_unoffered(manifests: Path) -> None:
    asks = PLAIN.replace("image: i", "image: i, resources: {limits: {example.com/foo: '1'}}")
    assert asks != PLAIN
    write("asks.yaml", asks)
    async with Cluster() as cluster:
        write("kubeconfig", cluster.kubeconfig("ann", ()))
        of_ann = json.loads((await program("-f", "asks.yaml", "-o", "json")).stdout)
        write("kubeconfig", cluster.kubeconfig())
        of_admin = json.loads((await program("-f", "asks.yaml", "-o", "json")).stdout)
    assert any("nodes, deviceclasses, resourceslices could not be listed" in note for note in of_ann["notes"])
    assert (of_ann["findings"], [finding["reason"] for finding in of_admin["findings"]]) == ([], ["Unoffered"])


async def test_rules_are_compared_with_the_pods_of_the_cluster(manifests: Path) -> None:
    """One of $KUBECONFIG. A Pod that is among the manifests too is that of the manifests."""
    admin = RULE.replace("workload.universe", "workload.infra.universe").replace("WorkloadRule", "AdminWorkloadRule")
    write("rule.yaml", RULE)
    write("admin.yaml", admin.replace("resourceType", "tenantMatch: ['*']\n  resourceType"))
    write("mine.yaml", pod_text("mine", "db"))
    async with Cluster() as cluster:
        write("kubeconfig", cluster.kubeconfig())
        async with await connect(kubeconfig="kubeconfig", deadline=PATIENCE) as client:
            for name in ("live", "mine"):
                await client.create(PODS, yaml.safe_load(pod_text(name, "web")), namespace="default")
        before = cluster.storage.version
        answer = await program("-f", "rule.yaml", "-f", "mine.yaml", "-f", "admin.yaml", "-o", "json")
        assert answer.returncode == 0, answer.stderr
        assert cluster.storage.version == before
        document = json.loads(answer.stdout)
        _, rule, of_admin = document["objects"]
        assert [(one["source"], one["name"]) for one in rule["matches"]] == [("cluster", "live")]
        assert [(one["source"], one["name"]) for one in rule["misses"]] == [("mine.yaml:1", "mine")]
        assert rule["misses"][0]["terms"][0][0]["because"] == "is 'db'"
        assert of_admin["missed"] == 1
        assert document["notes"] == [
            "the cluster has no workloads.workload.infra.universe.nvidia.com: rules were compared with the files alone"
        ]


def pod_text(name: str, app: str) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
    )


def write(name: str, text: Any) -> None:
    Path(name).write_text(str(text))


async def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(berth, "explain", *arguments, KUBECONFIG="kubeconfig")


def test_a_document_of_standard_input_that_cannot_be_read_costs_itself_alone(manifests: Path) -> None:
    """As of `helm template | berth explain -f -`: an operator's enum with `- =`, and a template that is broken."""
    crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec: {enum: [=, '!=']}\n"
    answer = berth("explain", "-f", "-", stdin=f"{crd}---\nkind: Pod\nspec: [\n--- # the rest\n{PLAIN}")
    assert answer.returncode == 1
    assert answer.stdout.splitlines()[0].startswith("Pod default/plain (stdin:8): ")
    assert "error: stdin:7:1: not valid YAML" in answer.stdout
    answer = berth("explain", "-f", "-", stdin="kind: Pod\nspec: [\n")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("Error: stdin:3:1: not valid YAML")


CLAIMED = """\
apiVersion: resource.k8s.io/{version}
kind: ResourceClaimTemplate
metadata: {{name: nic}}
spec: {{spec: {{devices: {{requests: [{request}]}}}}}}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {{name: by-claim, annotations: {{berth.dev/device-class: vf.example.com}}}}
spec: {{config: '{{"cniVersion":"1.0.0","type":"sriov"}}'}}
---
apiVersion: v1
kind: Pod
metadata: {{name: p, annotations: {{k8s.v1.cni.cncf.io/networks: by-claim}}}}
spec:
  resourceClaims: [{{name: nic, resourceClaimTemplateName: nic}}]
  containers: [{{name: c, image: i, resources: {{claims: [{{name: nic}}]}}}}]
"""


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        ("v1", "{name: r, exactly: {deviceClassName: vf.example.com}}"),
        ("v1beta2", "{name: r, exactly: {deviceClassName: vf.example.com}}"),
        ("v1beta1", "{name: r, deviceClassName: vf.example.com}"),
        ("v1beta1", "{name: r, firstAvailable: [{name: a, deviceClassName: vf.example.com}]}"),
    ],
)
def test_claims_of_every_served_version_count(manifests: Path, version: str, request_: str) -> None:
    answer = berth("explain", "--claims", "-f", "-", stdin=CLAIMED.format(version=version, request=request_))
    assert answer.stdout.splitlines()[0].endswith("nothing would be injected: the Pod has all that its networks need")
