"""`berth doctor` as it is typed: forms, colors, exit statuses."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import pytest_asyncio

from app.kube.resources import DEPLOYMENTS
from tests.integration.doctor.installation import Place, a_place
from tests.integration.doctor.patient import HOME, a_patient
from tests.support.forking import BerthProcess


@pytest_asyncio.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with a_patient(tmp_path) as patient, a_place(patient, tmp_path) as place:
        yield place


async def berth(place: Place, *arguments: str) -> tuple[int, str, str]:
    return await typed(place, "doctor", *arguments)


async def typed(place: Place, command: str, *arguments: str) -> tuple[int, str, str]:
    process = BerthProcess(
        *(command, "--kubeconfig", str(place.patient.kubeconfig), *arguments),
        env=os.environ | {"TERM": "xterm-256color"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        out, err = await asyncio.to_thread(process.communicate)
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("replicas", "status", "word"),
    [(2, 0, "OK  deployments"), (1, 3, "[BERTH0307] Deployment"), (0, 4, "[BERTH0305] Deployment")],
)
async def test_the_exit_status_is_that_of_the_worst(place: Place, replicas: int, status: int, word: str) -> None:
    """Text without colors where nobody looks at a terminal; the namespace is found by the chart's labels."""
    patch = {"op": "replace", "path": "/spec/replicas", "value": replicas}
    await place.change(DEPLOYMENTS, "berth-webhook", patch)
    only = ["--only", "deployments", "--only", "clock"]
    code, out, err = await berth(place, *only)
    assert (code, err) == (status, ""), out
    assert word in out
    assert "\x1b" not in out


async def test_json_is_for_programs(place: Place) -> None:
    await place.change(DEPLOYMENTS, "berth-webhook", {"op": "replace", "path": "/spec/replicas", "value": 0})
    code, out, _ = await berth(place, "--berth-namespace", HOME, "--only", "deployments", "-o", "json")
    assert code == 4
    (finding,) = json.loads(out)["findings"]
    assert finding["subject"] == f"Deployment {HOME}/berth-webhook"
    flags = f"--kubeconfig {place.patient.kubeconfig} --namespace {HOME}"
    assert finding["command"] == f"kubectl {flags} scale deployment/berth-webhook --replicas=2"
    assert finding["documentation"] == "docs/troubleshooting.md#berth0305"
    code, out, _ = await berth(place, "--only", "deployments", "--ignore", "BERTH0305", "-o", "junit")
    assert code == 0
    assert [suite.get("name") for suite in ET.fromstring(out)] == []
    code, out, _ = await berth(place, "--only", "BERTH0305", "-o", "junit")
    assert code == 4
    assert "scale deployment/berth-webhook" in str(ET.fromstring(out).findtext(".//failure"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "nonsense"], "--only: there is no check or code 'nonsense': want a code (BERTH0305) or one of "),
        (["--role", "king"], "--role: there is no role 'king': want one of webhook, controller"),
        (["--context", "nowhere"], "kubeconfig "),
    ],
)
async def test_a_wrong_command_line_is_one_line(place: Place, arguments: list[str], message: str) -> None:
    code, out, err = await berth(place, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"Error: {message}")
    assert err.count("\n") == 1


async def test_a_cluster_that_is_away_is_one_line(place: Place) -> None:
    """Nothing was examined: that is no finding, and nothing is claimed to be fine."""
    await place.patient.cluster.stop()
    code, out, err = await berth(place, "--berth-namespace", HOME)
    assert (code, out) == (1, "")
    assert err.startswith("Error: the API server could not be asked: ")
    assert "was refused: is the address right" in err
    assert f"(kubeconfig {place.patient.kubeconfig}, context ward)" in err
    assert err.count("\n") == 1
    assert " object at 0x" not in err


async def test_a_namespace_that_cannot_be_is_a_mistake_of_the_user(place: Place) -> None:
    code, out, err = await berth(place, "--berth-namespace", "A B")
    assert (code, out) == (2, "")
    assert err.startswith("Error: --berth-namespace: ")


@pytest.mark.parametrize("command", ["doctor", "status"])
async def test_the_namespace_of_berth_as_that_of_objects_is_told(place: Place, command: str) -> None:
    """It named the release once."""
    note = (
        f"note: -n {HOME} is about the objects in the namespace of Berth: --berth-namespace {HOME} names the release\n"
    )
    words = ["--only", "clock"] if command == "doctor" else []
    for arguments, err in ((["-n", HOME], note), (["-n", "default"], ""), (["--berth-namespace", HOME], "")):
        assert (await typed(place, command, *arguments, *words))[2] == err, arguments
