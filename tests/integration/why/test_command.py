"""`berth why` as it is typed: its answers, exit statuses, JSON, completion, and a user with rights in one namespace."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.kube.resources import DEPLOYMENTS, NAMESPACES, PODS
from app.text import utc_now
from app.why.model import stuck
from app.why.rendering import MEMBERS, Answer, render
from tests.integration.doctor.patient import Patient
from tests.support.forking import BerthProcess

JSON = dict[str, Any]


async def berth(*words: str, **environment: str) -> tuple[int, str, str]:
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with BerthProcess(*words, env=os.environ | environment, **pipes) as process:
        out, err = await asyncio.to_thread(process.communicate)
    return process.returncode, out, err


async def why(kubeconfig: Path, *words: str) -> tuple[int, str, str]:
    return await berth("why", *words, "--kubeconfig", str(kubeconfig))


async def running(patient: Patient, name: str = "web", namespace: str = "default") -> None:
    await patient.pod(name, namespace=namespace, spec={"nodeName": "n1"})
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    await patient.report(PODS, name, {"phase": "Running", "conditions": [ready]}, namespace=namespace)


async def test_one_that_is_fine_exits_0(patient: Patient) -> None:
    await running(patient)
    code, out, err = await why(patient.kubeconfig, "pod/web")
    assert (code, err) == (0, "")
    assert out.startswith("Pod default/web: runs on n1")


async def test_one_that_waits_exits_3_and_one_that_failed_4(patient: Patient) -> None:
    await patient.pod("new")
    assert (await why(patient.kubeconfig, "po", "new"))[0] == 3
    await patient.report(PODS, "new", {"phase": "Failed", "message": "evicted"}, namespace="default")
    code, out, _ = await why(patient.kubeconfig, "Pods/new")
    assert code == 4
    assert "because   evicted" in out


async def test_one_that_is_not_there_names_the_nearest(patient: Patient) -> None:
    await running(patient, "web-server")
    code, out, _ = await why(patient.kubeconfig, "pod/web-servr")
    assert code == 4
    assert "there is no Pod web-servr in default; there is web-server" in out
    assert "berth why pod/web-server -n default" in out


@pytest.mark.parametrize("causes", [0, 1, 3, 4, 5, 6, 40])
@pytest.mark.parametrize("full", [False, True])
def test_an_answer_has_at_most_twelve_lines(causes: int, *, full: bool) -> None:
    parts = {"asks": "a", "so": "s", "fix": "f\ng", "next": "n", "codes": ("C",), "more": "m"} if full else {}
    verdict = stuck("is stuck", because=tuple(f"cause {number}" for number in range(causes)), **parts)
    lines = [line.text for line in render([Answer("Pod a/b", verdict, ("unread",) if full else ())], "text", utc_now())]
    assert len(lines) <= 12
    shown = sum(line.startswith("  because") for line in lines)
    assert shown == causes or lines[1 + full + shown].endswith(f"… and {causes - shown} more: -o json has all")
    assert full or shown == min(causes, 5 if causes <= 5 else 4)


async def test_json_has_all_members_and_no_others(patient: Patient) -> None:
    await running(patient)
    _, out, _ = await why(patient.kubeconfig, "pod/web", "-o", "json")
    document = json.loads(out)
    assert [name for name, _ in MEMBERS if "." not in name] == list(document)
    assert (document["subject"], document["state"]) == ("Pod default/web", "fine")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "want KIND/NAME, such as pod/web-0, or -f FILE, and not both"),
        (("pod",), "want KIND/NAME"),
        (("pod/a", "b"), "want KIND/NAME"),
        (("podd/a",), "berth knows no kind 'podd'; did you mean pod?"),
        (("pod/a", "-n", "A_B"), "--namespace: "),
        (("pod/a", "-f", "x.yaml"), "and not both"),
        (("-f", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
async def test_a_wrong_command_line_is_one_line(patient: Patient, words: tuple[str, ...], message: str) -> None:
    code, out, err = await why(patient.kubeconfig, *words)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert message in err
    assert err.count("\n") == 1


async def test_one_that_is_in_another_namespace_and_a_namespace_that_is_not_there(patient: Patient) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "replicas": 0}
    spec["template"] = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    await patient.create(DEPLOYMENTS, "there", namespace="universe", spec=spec)
    verdict = (await patient.why("deployment/there")).verdict
    assert verdict.because == ("it is in namespace universe",)
    assert verdict.fix == "berth why deployment/there -n universe"
    verdict = (await patient.why("deployment/x", namespace="universee")).verdict
    assert verdict.because == ("there is no Namespace universee; there is universe",)


async def test_an_object_of_a_file_without_a_usable_name_hides_no_other(patient: Patient, tmp_path: Path) -> None:
    (tmp_path / "pods.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: 123}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: {name: good}, spec: {containers: [{name: c, image: i}]}}\n---\n"
        "{apiVersion: example.com/v1, kind: Thing, metadata: {name: x}}\n---\n"
        "{apiVersion: v1, kind: Pod, metadata: 7}\n"
    )
    code, out, err = await why(patient.kubeconfig, "-f", str(tmp_path / "pods.yaml"))
    assert "Traceback" not in err
    assert "Pod default/good: " in out
    assert "Pod: metadata.name 123 is no text; put it in quotes" in out
    assert "Thing of example.com/v1: berth why does not know this kind" in out
    (tmp_path / "bad.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: n}}")
    code, _, err = await why(patient.kubeconfig, "-f", str(tmp_path / "bad.yaml"))
    assert (code, err.count("\n")) == (2, 1) or code in (0, 3)
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    code, _, err = await why(patient.kubeconfig, "-f", str(tmp_path / "empty.yaml"))
    assert code == 2
    assert "there is no object" in err


async def test_a_context_that_is_not_there_names_those_that_are(patient: Patient) -> None:
    code, _, err = await why(patient.kubeconfig, "pod/a", "--context", "nope")
    assert code == 2
    assert "there is no context 'nope': want one of " in err
    assert patient.cluster.name in err


async def test_a_name_that_is_no_name_reads_nothing_else(patient: Patient) -> None:
    for name in ("..", "%2e%2e", "a?watch=true"):
        code, _, err = await why(patient.kubeconfig, f"pod/{name}")
        assert code in (1, 4)
        assert "Traceback" not in err


async def test_what_the_cluster_says_does_not_command_the_terminal(patient: Patient) -> None:
    await patient.pod("bad")
    await patient.report(
        PODS, "bad", {"phase": "Failed", "message": "a\x1b[2Jb\u202e" + "c" * 5000}, namespace="default"
    )
    _, out, _ = await why(patient.kubeconfig, "pod/bad")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) < 1000


async def test_a_user_of_one_namespace_learns_of_his_objects_and_what_he_may_not_read(patient: Patient) -> None:
    await patient.client.create(NAMESPACES, {"metadata": {"name": "mine"}})
    await running(patient, namespace="mine")
    rules = [{"apiGroups": ["", "apps"], "resources": ["pods", "events"], "verbs": ["get", "list"]}]
    await patient.bind("her", rules, namespace="mine", user=True)
    kubeconfig = patient.kubeconfig_of("her")
    code, out, err = await why(kubeconfig, "pod/web", "-n", "mine")
    assert (code, err) == (0, "")
    assert out.startswith("Pod mine/web: runs on n1")
    code, _, err = await why(kubeconfig, "pod/web")
    assert code == 1
    assert "pods" in err


async def test_a_poison_object_is_one_line(patient: Patient) -> None:
    """Its kind has no schema here, as Pods of an API server have one."""
    await patient.pod("odd")
    storage = patient.cluster.storage
    stored = storage.get(("", "pods"), "default", "odd")
    stored["status"] = {"phase": "Running", "containerStatuses": "no list", "conditions": 7}
    code, out, err = await why(patient.kubeconfig, "pod/odd")
    assert "Traceback" not in err + out
    assert code in (0, 1, 3, 4)


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [("pod", "pod/"), ("pod/w", "pod/web"), ("appw", "appwrapper/")],
)
async def test_a_shell_completes_kinds_and_names(patient: Patient, typed: str, wanted: str) -> None:
    await running(patient)
    words = f"berth why --kubeconfig {patient.kubeconfig} {typed}"
    _, out, _ = await berth(_BERTH_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")))
    assert wanted in out.split()
