"""`berth explain`, as it is typed: every form of the answer, every exit status, every kind of mistake."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import app.networks
from app.cli.main import run
from app.errors import ApiError
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS, Resource
from app.kube.transport import AioKubeClient, connect
from app.sandbox.server import Cluster

CRD = (Path(app.networks.__file__).parent / "crds" / "network-attachment-definitions.yaml").read_text()

NADS = """
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: foo-network
  namespace: default
  annotations: {k8s.v1.cni.cncf.io/resourceName: example.com/foo}
spec: {config: '{"cniVersion": "0.3.0", "name": "foo-network", "type": "bridge"}'}
---
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata:
  name: racked
  namespace: default
  annotations: {k8s.v1.cni.cncf.io/nodeSelector: rack=two}
"""

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: webhook-demo
  annotations:
    k8s.v1.cni.cncf.io/networks: foo-network, foo-network
spec:
  containers:
  - image: busybox
    resources:
    command: ["tail", "-f", "/dev/null"]
    name: busybox
"""

PLAIN = "{apiVersion: v1, kind: Pod, metadata: {name: plain}, spec: {containers: [{name: c}]}}\n"

DENIED = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  template:
    metadata: {annotations: {k8s.v1.cni.cncf.io/networks: nowhere}}
    spec: {containers: [{name: c}]}
"""

FOO_TWICE = "annotation k8s.v1.cni.cncf.io/networks selects default/foo-network 2 times, which needs example.com/foo"


@pytest.fixture(autouse=True)
def plain_surroundings(monkeypatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "NAMESPACE", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def manifests(tmp_path, monkeypatch) -> Path:
    """The directory the commands are typed in."""
    for name, text in {"nads": NADS, "pod": POD, "plain": PLAIN, "denied": DENIED}.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def explain(*arguments: str) -> int:
    return run(["explain", *arguments])


def berth(*arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The real program in a process of its own."""
    root = Path(__file__).parents[2]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("BERTH_")}
    return subprocess.run(
        [sys.executable, "-m", "app", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, "PYTHONPATH": str(root), **environment},
    )


def test_text_names_field_value_and_reason(manifests, capsys) -> None:
    assert explain("-f", "pod.yaml", "-f", "nads.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Pod default/webhook-demo (pod.yaml:2): would be injected"
    assert lines[1] == f"  {FOO_TWICE}"
    assert '    spec.containers[busybox].resources.limits[example.com/foo]: "2"' in lines
    assert any(line.startswith("    spec.volumes[podnetinfo]: {") for line in lines)


def test_the_console_script_answers_the_same_through_a_pipe(manifests) -> None:
    """No color, no folded line, the same text; standard input is a file like any other."""
    answer = berth("explain", "-f", "-", "-f", "nads.yaml", stdin=POD)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("Pod default/webhook-demo (stdin:2): would be injected\n")
    assert "\x1b" not in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) > 120


def test_diff_shows_what_is_added(manifests, capsys) -> None:
    assert explain("-f", "pod.yaml", "-f", "nads.yaml", "-o", "diff") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "--- Pod default/webhook-demo (pod.yaml:2), as written"
    assert "+      limits:" in lines
    assert "+        example.com/foo: '2'" in lines
    assert not [line for line in lines[2:] if line.startswith("-")]


def test_json_holds_everything(manifests, capsys) -> None:
    assert explain("-f", "pod.yaml", "-f", "denied.yaml", "-f", "nads.yaml", "-o", "json") == 1
    injected, denied = json.loads(capsys.readouterr().out)
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
    assert json.loads(capsys.readouterr().out)[0]["namespace"] == "elsewhere"


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
    )


def test_exempt_namespaces_are_those_of_the_webhook(manifests, capsys) -> None:
    for namespace, arguments in (("kube-system", ()), ("berth", ("--webhook-namespace", "berth"))):
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


def test_unknown_kinds_are_left_out_with_a_note(manifests, capsys) -> None:
    Path("more.yaml").write_text("kind: Service\nmetadata: {name: s}\n---" + POD)
    assert explain("-f", "more.yaml", "-f", "nads.yaml", "-o", "patch") == 0
    captured = capsys.readouterr()
    assert captured.err == "note: more.yaml:1: Service s makes no Pod; left out\n"
    assert json.loads(captured.out)


def test_a_broken_attachment_is_noted(manifests, capsys) -> None:
    Path("broken.yaml").write_text(NADS.replace('"type": "bridge"', '"type": ""'))
    assert explain("-f", "pod.yaml", "-f", "broken.yaml") == 0
    assert "note: NetworkAttachmentDefinition default/foo-network would be refused: " in capsys.readouterr().err


SWITCHES = """
kind: ConfigMap
metadata: {name: nri-control-switches}
data:
  config.json: |
    {"user-defined-injections": {"wants-foo": {"op": "add", "path": "/metadata/annotations",
      "value": {"k8s.v1.cni.cncf.io/networks": "foo-network"}}}}
"""


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
    assert second.startswith("note: ConfigMap other: ")


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
    huge = "resources: {requests: {hugepages-1Gi: 2Gi}, limits: {hugepages-1Gi: 2Gi}}"
    Path("huge.yaml").write_text(POD.replace("resources:", huge))
    for flag, expected in (("--injectHugepageDownApi", True), ("--injectHugepageDownApi=false", False)):
        assert explain("-f", "huge.yaml", "-f", "nads.yaml", flag) == 0
        assert ("hugepages_1G_limit_busybox" in capsys.readouterr().out) is expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "missing option -f"),
        (("-f", "absent.yaml"), "cannot read absent.yaml: No such file or directory"),
        (("-f", "broken.yaml"), "broken.yaml:4:7: not valid YAML: mapping values are not allowed here"),
        (("-f", "nads.yaml"), "no Pod and nothing that makes Pods in nads.yaml"),
        (("-f", "pod.yaml", "-o", "xml"), "'xml' is not one of"),
        (("-f", "pod.yaml", "--existing-resources", "double"), "--existing-resources: "),
        (("-f", "pod.yaml", "--no-such-flag"), "No such option"),
        (("-f", "pod.yaml", "extra"), "unexpected extra argument"),
        (("-f", "pod.yaml", "--kubeconfig", "absent.kubeconfig"), "absent.kubeconfig"),
    ],
)
def test_mistakes_are_status_2_and_one_line(manifests, capsys, arguments, message) -> None:
    Path("broken.yaml").write_text("kind: Pod\nmetadata:\n  name: p\n  a: b: c\n")
    assert explain(*arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("Error: ")
    assert (captured.out, captured.err.count("\n")) == ("", 1)


def test_a_mistake_in_the_real_program_is_one_line_too(manifests) -> None:
    answer = berth("explain", "-f", "absent.yaml")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr == "Error: cannot read absent.yaml: No such file or directory\n"


def test_a_cluster_that_does_not_answer_is_status_3(manifests, capsys) -> None:
    """Port 9 of loopback refuses."""
    write_kubeconfig(Path("down.kubeconfig"), server="https://127.0.0.1:9")
    assert explain("-f", "pod.yaml", "--kubeconfig", "down.kubeconfig") == 3
    captured = capsys.readouterr()
    assert captured.err.startswith("Error: the cluster could not be asked: ")
    assert (captured.out, captured.err.count("\n")) == ("", 1)


async def test_the_cluster_fills_in_what_the_files_lack(manifests) -> None:
    """Attachment and control switches of a cluster count, those of the files come first, and nothing is written."""
    async with Cluster() as cluster:
        write("kubeconfig", cluster.kubeconfig())
        write("nobody", cluster.kubeconfig("nobody", ()))
        async with await connect(kubeconfig="kubeconfig") as client:
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(CRD))
            foo, _ = yaml.safe_load_all(NADS)
            await eventually_create(client, NETWORK_ATTACHMENTS, foo, "default")
            await client.create(CONFIG_MAPS, yaml.safe_load(SWITCHES), namespace="kube-system")
            before = cluster.storage.version
            answer = await program("-f", "pod.yaml", "--kubeconfig", "kubeconfig")
            assert (answer.returncode, answer.stderr) == (0, "")
            assert f"  {FOO_TWICE}\n" in answer.stdout
            write("bar.yaml", NADS.replace("example.com/foo", "example.com/bar"))
            answer = await program("-f", "pod.yaml", "-f", "bar.yaml", "--kubeconfig", "kubeconfig")
            assert "[example.com/bar]" in answer.stdout
            assert "[example.com/foo]" not in answer.stdout
            write("labeled.yaml", PLAIN.replace("name: plain", "name: plain, labels: {wants-foo: 'true'}"))
            answer = await program("-f", "labeled.yaml", "--kubeconfig", "kubeconfig")
            assert "  user-defined injection of label wants-foo\n" in answer.stdout
            assert (await program("-f", "denied.yaml", "--kubeconfig", "kubeconfig")).returncode == 1
            answer = await program("-f", "pod.yaml", "--kubeconfig", "nobody")
            assert answer.returncode == 3
            assert answer.stderr.startswith("Error: the cluster could not be asked: ")
            assert cluster.storage.version == before


def test_colors_are_for_terminals(manifests) -> None:
    """On a terminal the diff is colored, unless NO_COLOR asks for none."""
    assert "\x1b[32m+" in on_a_terminal("explain", "-f", "pod.yaml", "-f", "nads.yaml", "-o", "diff")
    assert "\x1b" not in on_a_terminal("explain", "-f", "pod.yaml", "-f", "nads.yaml", "-o", "diff", NO_COLOR="1")


def test_help_has_examples_and_the_exit_statuses(capsys) -> None:
    assert explain("--help") == 0
    out = capsys.readouterr().out
    assert "berth explain -f pod.yaml -f nads.yaml" in out
    for line in ("at least one Pod would be denied", "a flag or a file is wrong", "the cluster could not be asked"):
        assert line in out


def test_standard_input_in_process(manifests, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PLAIN.encode())))
    assert explain("-f", "-") == 0
    assert "Pod default/plain (stdin:1)" in capsys.readouterr().out


def write_kubeconfig(path: Path, *, server: str) -> None:
    named = {"name": "x", "cluster": {"server": server, "insecure-skip-tls-verify": True}}
    path.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "clusters": [named],
                "users": [{"name": "x", "user": {"token": "t"}}],
                "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            }
        )
    )


def write(name: str, text: str) -> None:
    Path(name).write_text(text)


async def program(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`berth explain` in a process of its own, while this one serves the cluster."""
    return await asyncio.to_thread(berth, "explain", *arguments)


async def eventually_create(client: AioKubeClient, resource: Resource, body: dict, namespace: str) -> None:
    """A CRD is served a moment after it was written."""
    async with asyncio.timeout(20):
        while True:
            try:
                await client.create(resource, body, namespace=namespace)
            except ApiError as error:
                if not error.not_found:
                    raise
                await asyncio.sleep(0.05)
            else:
                return


def on_a_terminal(*arguments: str, **environment: str) -> str:
    """What the program writes to a terminal."""
    root = Path(__file__).parents[2]
    ours, theirs = pty.openpty()
    variables = {**os.environ, "PYTHONPATH": str(root), "TERM": "xterm-256color", **environment}
    variables.pop("CI", None)
    process = subprocess.Popen([sys.executable, "-m", "app", *arguments], stdout=theirs, env=variables)
    os.close(theirs)
    written = b""
    try:
        while chunk := os.read(ours, 65536):
            written += chunk
    except OSError:  # Linux reports the closed far end as an error
        pass
    os.close(ours)
    assert process.wait() == 0
    return written.decode()
