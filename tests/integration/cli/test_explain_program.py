"""`berth explain` as a program: mistakes and their exit statuses, pipes and terminals, help, and a cluster it asks."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import app.networks
from app.devtools.sandbox.server import Cluster
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, NETWORK_ATTACHMENTS, Resource
from app.kube.transport import connect
from tests.support.command_line import berth
from tests.support.explaining import FOO_TWICE, NADS, PLAIN, POD, SWITCHES, explain
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.usefixtures("plain_surroundings")

CRD = (Path(app.networks.__file__).parent / "crds" / "network-attachment-definitions.yaml").read_text()


def test_the_console_script_answers_the_same_through_a_pipe(manifests) -> None:
    """No color, no folded line, the same text; standard input is a file like any other."""
    answer = berth("explain", "-f", "-", "-f", "nads.yaml", stdin=POD)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.startswith("Pod default/webhook-demo (stdin:2): would be injected\n")
    assert "\x1b" not in answer.stdout
    assert max(map(len, answer.stdout.splitlines())) > 120


def test_what_a_pod_says_was_injected_is_read(manifests, capsys) -> None:
    """As `kubectl get pod --output yaml` has it, where the webhook runs with --injected-annotation."""
    pod = yaml.safe_load(POD)
    pod["metadata"]["annotations"]["berth.dev/injected"] = '{"version":"0.0.9","volumes":["podnetinfo"]}'
    Path("said.yaml").write_text(yaml.safe_dump(pod))
    assert explain("-f", "said.yaml", "-f", "nads.yaml") == 0
    assert "\n  injected before by Berth 0.0.9: volumes podnetinfo\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "missing option -f"),
        (("-f", "absent.yaml"), "cannot read absent.yaml: No such file or directory"),
        (("-f", "broken.yaml"), "broken.yaml:4:7: not valid YAML: mapping values are not allowed in this context"),
        (("-f", "maps.yaml"), "no Pod, nothing that makes Pods and nothing to check in maps.yaml"),
        (("-f", "pod.yaml", "-o", "xml"), "'xml' is not one of"),
        (("-f", "pod.yaml", "--existing-resources", "double"), "--existing-resources: "),
        (("-f", "pod.yaml", "--no-such-flag"), "No such option"),
        (("-f", "pod.yaml", "extra"), "unexpected extra argument"),
        (("-f", "pod.yaml", "--kubeconfig", "absent.kubeconfig"), "absent.kubeconfig"),
    ],
)
def test_mistakes_are_status_2_and_one_line(manifests, capsys, arguments, message) -> None:
    Path("broken.yaml").write_text("kind: Pod\nmetadata:\n  name: p\n  a: b: c\n")
    Path("maps.yaml").write_text("kind: ConfigMap\nmetadata: {name: a}\n")
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
        async with await connect(kubeconfig="kubeconfig", deadline=PATIENCE) as client:
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
            assert "not explained: " in answer.stdout
            assert cluster.storage.version == before


def test_colors_are_for_terminals(manifests) -> None:
    """On a terminal the diff is colored, unless NO_COLOR asks for none."""
    assert "\x1b[32m+" in on_a_terminal("explain", "-f", "pod.yaml", "-f", "nads.yaml", "-o", "diff")
    assert "\x1b" not in on_a_terminal("explain", "-f", "pod.yaml", "-f", "nads.yaml", "-o", "diff", NO_COLOR="1")


def test_help_has_examples_and_the_exit_statuses(capsys) -> None:
    assert explain("--help") == 0
    out = capsys.readouterr().out
    assert "berth explain -f pod.yaml -f nads.yaml" in out
    for line in ("an object would be refused", "a flag is wrong", "the cluster could not be asked"):
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


async def eventually_create(client: KubeClient, resource: Resource, body: dict, namespace: str) -> None:
    """A CRD is served a moment after it was written."""
    async with asyncio.timeout(PATIENCE):
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
    ours, theirs = pty.openpty()
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", **environment}
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


WRAPPED = """
apiVersion: workload.codeflare.dev/v1beta2
kind: AppWrapper
metadata:
  name: sample
  labels: {kueue.x-k8s.io/queue-name: user-queue}
  annotations: {workload.codeflare.dev.appwrapper/retrylimit: "1"}
spec:
  components:
  - template:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: j}
      spec:
        parallelism: 3
        template:
          spec:
            restartPolicy: Never
            containers: [{name: c, image: i, resources: {requests: {cpu: 500m, memory: 1Gi}}}]
  - template: {apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{port: 80}]}}
"""


def test_an_app_wrapper_is_shown_with_its_pod_sets_its_total_and_its_rights(manifests, capsys) -> None:
    prefix = "workload.codeflare.dev.appwrapper/"
    Path("wrapped.yaml").write_text(WRAPPED)
    assert explain("-f", "wrapped.yaml") == 0
    nothing = "nothing would be injected: the Pod selects no networks"
    assert capsys.readouterr().out.splitlines() == [
        f"AppWrapper default/sample spec.components[0].template.spec.template (wrapped.yaml:2): {nothing}",
        "AppWrapper default/sample (wrapped.yaml:2): would be queued in user-queue",
        "  podSet sample-0: 3 Pods of template.spec.template",
        "  requested in all: cpu 1.5, memory 3221225472",
        "  its user is asked for: create Job (batch/v1) in default",
        "  its user is asked for: delete Job (batch/v1) in default (strict)",
        "  its user is asked for: create Pod (v1) in default (strict)",
        "  its user is asked for: create Service (v1) in default",
        "  its user is asked for: delete Service (v1) in default (strict)",
        f"  warning: metadata.annotations[{prefix}retrylimit]: has no meaning; is {prefix}retryLimit meant?",
        "1 object, 1 Pod: 0 injected, 0 refused; 0 errors, 1 warning",
    ]
    assert explain("-f", "wrapped.yaml", "-f", "pod.yaml", "-f", "nads.yaml", "-o", "json") == 0
    shown = yaml.safe_load(capsys.readouterr().out)["objects"]
    assert [(one["kind"], one.get("path", "")) for one in shown] == [
        ("AppWrapper", "spec.components[0].template.spec.template"),
        ("Pod", ""),
        ("AppWrapper", ""),
    ]
    Path("wrapped.yaml").write_text(WRAPPED.replace("parallelism: 3", "parallelism: 0"))
    assert explain("-f", "wrapped.yaml") == 1
    assert "would be denied: spec.components: all podSets have 0 replicas" in capsys.readouterr().out
