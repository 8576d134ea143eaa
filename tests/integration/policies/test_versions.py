"""A Kubernetes that is older than admission policies: each way to ask for them says which version is wanted, and met."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.kube.kit import Watches
from app.kube.transport import connect
from app.policies.controller import build
from app.registry import settings_of
from app.settings.reconciling import ControllerContext
from tests.support.chart import ASSETS, CHART, NAMESPACE
from tests.support.command_line import berth
from tests.support.real_apiserver import real_api_servers
from tests.support.real_parts import needs, real_part, since
from tests.support.running import running
from tests.support.waiting import eventually

WANTED = "does not serve mutatingadmissionpolicies.admissionregistration.k8s.io/v1: want 1.36 or newer"
MET = "(emulating 1.35)"
REAL = [*needs("etcd", "kube-apiserver"), since(36)]


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an API server that emulates Kubernetes 1.35."""
    directory = tmp_path_factory.mktemp("old")
    with real_api_servers(Path(ASSETS), directory, ["old"], arguments=["--emulated-version=1.35"]) as kubeconfigs:
        yield kubeconfigs["old"]


class TestOnAnOldApiServer:
    pytestmark = REAL

    def test_the_command_prints_nothing(self, old: Path) -> None:
        done = berth("policies", "generate", "--kubeconfig", str(old), columns=400)
        assert done.returncode != 0
        assert not done.stdout
        assert WANTED in done.stderr
        assert MET in done.stderr

    def test_doctor_says_it_before_an_installation(self, old: Path) -> None:
        done = berth("doctor", "--pre", "--kubeconfig", str(old), columns=400)
        assert "BERTH0906" in done.stdout
        assert WANTED in done.stdout
        assert MET in done.stdout

    def test_the_controller_says_why_it_is_not_ready(self, old: Path) -> None:
        async def problems() -> None:
            settings = settings_of("controller").load(
                {"controllers": ("policies",), "namespace": "x"}, environment=False
            )
            async with await connect(kubeconfig=str(old)) as client:
                kit = build(ControllerContext(client, settings, None, Watches(client)))  # type: ignore[arg-type]
                async with running(kit.run()):
                    await eventually(lambda: any(WANTED in text and MET in text for text in kit.waiting()))

        asyncio.run(problems())


class TestTheChart:
    pytestmark = needs("helm")

    @pytest.mark.parametrize("mode", ["both", "policies"])
    @pytest.mark.parametrize(("version", "is_old"), [("v1.35.9", True), ("v1.36.0", False), ("v1.37.2-gke.1", False)])
    def test_it_is_rendered_for_no_older_one(self, mode: str, version: str, *, is_old: bool) -> None:
        settings = f"mode={mode},webhook.enabled={json.dumps(mode == 'both')},controller.enabled=true"
        words = ["template", "berth", str(CHART), "--kube-version", version, "--namespace", NAMESPACE]
        words += ["--set", settings, "--set", "controller.args.controllers={policies}"]
        done = subprocess.run([str(real_part("helm")), *words], capture_output=True, text=True, check=False)
        assert bool(done.returncode) == is_old, done.stderr
        assert (f"mode={mode}: policies want Kubernetes 1.36 or newer" in done.stderr) == is_old
        assert (f"this is {version}" in done.stderr) == is_old
