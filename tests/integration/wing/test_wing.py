"""A wing is its folder and one line: `tests/integration/wing/echo`, put into a copy of the project, is in everything that there is.

`docs/adding-a-wing.md` says the same in words.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import helm_python
import kubernetes
import pytest

from tests.support.chart import rendering
from tests.support.paths import ROOT
from tests.support.processes import Background
from tests.support.waiting import PATIENCE

LAST, LINE = '        "certs",\n', '        "echo",\n'
Berth = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project with one more wing."""
    copy = tmp_path_factory.mktemp("project")
    for name in ("app", "docs", "charts"):  # with their bytecode: else the copy would be compiled anew
        shutil.copytree(ROOT / name, copy / name)
    shutil.copy(ROOT / "pyproject.toml", copy)
    shutil.copytree(Path(__file__).parent / "echo", copy / "app/echo")
    registry = copy / "app/registry.py"
    text = registry.read_text()
    assert text.count(LAST) == 1
    registry.write_text(text.replace(LAST, LAST + LINE))
    return copy


@pytest.fixture(scope="module")
def berth(project: Path) -> Berth:
    def run(*arguments: str, status: int = 0, given: str | None = None) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", *arguments],
            cwd=project,
            env=os.environ | {"COLUMNS": "200"},
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def generated(berth: Berth, project: Path) -> Path:
    """The project with all that is generated, made anew."""
    berth("docs.generate")
    return project


@pytest.fixture(scope="module")
def sandbox(project: Path) -> Iterator[Path]:
    """The kubeconfig of the infra cluster, where webhook and controller run."""
    directory = project / "sandbox"
    process = Background([sys.executable, "-m", "app", "sandbox", "--dir", str(directory)], directory=project)
    try:
        process.wait_for("Ready.")
        yield directory / "icp.kubeconfig"
    finally:
        process.stop()


def test_the_command_line_has_its_role_and_its_flags(berth: Berth) -> None:
    assert "echoer" in berth("app", "--help").stdout
    assert "--echo-distance" in berth("app", "echoer", "--help").stdout
    assert "--echo-annotation" in berth("app", "webhook", "--help").stdout
    controller = " ".join(berth("app", "controller", "--help").stdout.split())
    assert "--echo-suffix" in controller
    assert "workloads, tenants, echoes, choirs," in controller


def test_its_definitions_are_printed_with_the_others(berth: Berth) -> None:
    infra = berth("app", "crds", "infra").stdout
    assert "echoes.echo.example.com" in infra
    assert "choirs.echo.example.com" in infra
    assert "echoes" not in berth("app", "crds", "tenant").stdout


def test_the_reference_has_its_flags_rights_metrics_and_kinds(generated: Path) -> None:
    pages = {page.name: page.read_text() for page in (generated / "docs/reference").glob("*.md")}
    assert "BERTH_ECHO_DISTANCE" in pages["flags.md"]
    assert "## echoer" in pages["permissions.md"]
    assert "`echoes/status`" in pages["permissions.md"]
    assert "`choirs/status`" in pages["permissions.md"]
    assert "`echoes_total`" in pages["metrics.md"]
    assert "### Echo" in pages["crds.md"]
    assert "## echoes" in pages["status.md"]
    assert "kind: Echo" in (generated / "charts/berth/files/crds/infra.yaml").read_text()


def test_the_chart_runs_its_role_and_has_its_values(generated: Path) -> None:
    render = rendering(helm_python.Chart.load(generated / "charts/berth"))
    values = {
        "echoer": {"enabled": True, "args": {"echoDistance": 34}},
        "controller": {"enabled": True, "args": {"echoSuffix": "?"}},
        "webhook": {"args": {"echoAnnotation": "example.com/echo"}},
    }
    rendered = render(values)
    arguments = {
        role: rendered.one("Deployment", f"berth-{role}")["spec"]["template"]["spec"]["containers"][0]["args"]
        for role in values
    }
    assert "--echo-distance=34" in arguments["echoer"]
    assert "--echo-suffix=?" in arguments["controller"]
    assert "--echo-annotation=example.com/echo" in arguments["webhook"]
    rights = {rule["resources"][0] for rule in rendered.one("ClusterRole", "berth-echoer")["rules"]}
    assert "echoes" in rights
    checked = rendered.one("ValidatingWebhookConfiguration", "berth")["webhooks"]
    assert any("echoes" in rule["resources"] for webhook in checked for rule in webhook["rules"])
    (pods,) = rendered.one("MutatingWebhookConfiguration", "berth")["webhooks"]
    assert "'echo' in object.metadata.labels" in pods["matchConditions"][0]["expression"]
    assert rendered.one("CustomResourceDefinition", "echoes.echo.example.com")


def test_pods_are_explained_with_it(berth: Berth) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"echo": "hallo"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    shown = berth("app", "explain", "-f", "-", given=json.dumps(pod)).stdout
    assert "echo.example.com/heard" in shown
    assert "label echo" in shown


def test_a_cluster_runs_it_and_the_doctor_sees_it(berth: Berth, sandbox: Path) -> None:
    where = {"group": "echo.example.com", "version": "v1", "namespace": "default", "plural": "echoes"}
    echo = {"apiVersion": "echo.example.com/v1", "kind": "Echo", "metadata": {"name": "e"}, "spec": {"text": ""}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": {"echo": "hallo"}},
        "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]},
    }
    with kubernetes.config.new_client_from_config(str(sandbox)) as api:
        echoes = kubernetes.client.CustomObjectsApi(api)
        with pytest.raises(kubernetes.client.ApiException, match=r"spec\.text: want something to echo"):
            echoes.create_namespaced_custom_object(body=echo, **where)
        echoes.create_namespaced_custom_object(body=echo | {"spec": {"text": "hallo"}}, **where)
        end = time.monotonic() + PATIENCE
        while (found := echoes.get_namespaced_custom_object(name="e", **where)).get("status") != {"text": "hallo!"}:
            assert time.monotonic() < end, found
            time.sleep(0.05)
        made = kubernetes.client.CoreV1Api(api).create_namespaced_pod("default", pod)
    assert made.metadata.annotations["echo.example.com/heard"] == "hallo"
    examined = berth("app", "doctor", "--kubeconfig", str(sandbox), "--only", "echoes").stdout
    assert "1 echoes are heard" in examined
    found = json.loads(berth("app", "doctor", "--kubeconfig", str(sandbox), "--only", "BERTH9001", "-o", "json").stdout)
    (finding,) = found["findings"]
    assert (finding["code"], finding["check"], finding["subject"]) == ("BERTH9001", "echoes", "Echo default/e")
    assert finding["message"] == "says hallo and no more"
    shown = json.loads(berth("app", "status", "--kubeconfig", str(sandbox), "-o", "json").stdout)
    assert shown["sections"]["echoes"]["totals"] == {"echoes": 1}
    assert berth("app", "why", "echo/e", "--kubeconfig", str(sandbox)).stdout.startswith("Echo default/e: is heard")


def test_a_choir_says_which_echoes_sing_in_it(sandbox: Path) -> None:
    """An Echo that is written, moved or deleted changes the status of its Choirs."""
    where = {"group": "echo.example.com", "version": "v1", "namespace": "default"}
    with kubernetes.config.new_client_from_config(str(sandbox)) as api:
        objects = kubernetes.client.CustomObjectsApi(api)

        def create(kind: str, name: str, **spec: str) -> None:
            body = {"apiVersion": "echo.example.com/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
            plural = {"Echo": "echoes", "Choir": "choirs"}[kind]
            objects.create_namespaced_custom_object(plural=plural, body=body, **where)

        def wait_for(name: str, voices: int, text: str, singing: str) -> None:
            end = time.monotonic() + PATIENCE
            while True:
                status = objects.get_namespaced_custom_object(plural="choirs", name=name, **where).get("status", {})
                truths = {condition["type"]: condition["status"] for condition in status.get("conditions", ())}
                if (status.get("voices"), status.get("text"), truths) == (voices, text, {"Singing": singing}):
                    return
                assert time.monotonic() < end, status
                time.sleep(0.05)

        create("Echo", "alto", text="la", choir="monday")
        create("Choir", "monday")
        create("Choir", "friday")
        wait_for("monday", 1, "la", "True")
        wait_for("friday", 0, "", "False")
        create("Echo", "bass", text="bom", choir="monday")
        wait_for("monday", 2, "bom la", "True")
        moved = {"spec": {"choir": "friday"}}
        objects.patch_namespaced_custom_object(plural="echoes", name="bass", body=moved, **where)
        wait_for("friday", 1, "bom", "True")
        wait_for("monday", 1, "la", "True")
        for echo, choir in (("alto", "monday"), ("bass", "friday")):
            objects.delete_namespaced_custom_object(plural="echoes", name=echo, **where)
            wait_for(choir, 0, "", "False")
