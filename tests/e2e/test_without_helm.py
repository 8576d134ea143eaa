"""What the README has typed without Helm: from an empty folder and two bare clusters to a companion."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.reader import ADDRESS, NODE_PORT, Reader
from tests.support.paths import ROOT
from tests.support.ports import lasting_port
from tests.support.processes import Background
from tests.support.waiting import PATIENCE, Refused, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")]
SECTION = (ROOT / "README.md").read_text().partition("\n### Without Helm\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```\n(.*?)^```$", SECTION, re.DOTALL | re.MULTILINE)
ROLES = ("gateway", "controller", "webhook", "agent")
BERTH = f'berth() {{ "{sys.executable}" -m app "$@"; }}'
EXAMPLES = ROOT / "examples" / "workload-api"


class Typed:
    """Each line of a block as it stands, with ports of this machine: another program may have those of the page."""

    def __init__(self, directory: Path, roles: contextlib.ExitStack) -> None:
        self._directory = directory
        self._roles = roles
        self._gateway = str(lasting_port())

    def type(self, block: str, kubeconfig: Path) -> list[str]:
        """The roles that were started, in their order."""
        environment = {"KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT), "HOME": str(self._directory)}
        here = block.replace("\\\n", " ").replace(ADDRESS, "127.0.0.1").replace(NODE_PORT, self._gateway)
        started = []
        for line in here.splitlines():
            words = shlex.split(line)
            if words[0] == "berth" and words[1] in ROLES:
                self._start(words[1:], environment)
                started.append(words[1])
                continue
            done = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", f"{BERTH}; {line}"],
                cwd=self._directory,
                env=os.environ | environment,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
            assert done.returncode == 0, f"$ {line}\n{done.stdout}\n{done.stderr}"
        return started

    def _start(self, words: list[str], environment: dict[str, str]) -> None:
        ports = [f"--health-check-port={lasting_port()}"]
        ports += [f"--port={lasting_port()}"] if words[0] == "webhook" else []
        variables = [f"{name}={value}" for name, value in environment.items()]
        command = ["env", *variables, sys.executable, "-m", "app", *words, *ports]
        process = Background(command, directory=self._directory)
        self._roles.callback(process.stop)
        process.wait_for('"msg":"ready"')


@pytest.fixture
def typed(tmp_path: Path) -> Iterator[Typed]:
    with contextlib.ExitStack() as roles:
        yield Typed(tmp_path, roles)


def test_from_an_empty_folder_to_a_companion(reader: Reader, typed: Typed) -> None:
    infra, tenant = BLOCKS
    assert typed.type(infra, reader.kubeconfig("icp")) == ["gateway", "controller", "webhook"]
    assert typed.type(tenant, reader.kubeconfig("tenant1")) == ["agent"]
    kubectl = reader.kubectl("tenant1")
    kubectl.run("apply", *(f"--filename={EXAMPLES}/tenant1-{name}.yaml" for name in ("pod1", "rule1")))

    def companion() -> str:
        pods = reader.kubectl("icp").run("get", "pods", "--namespace", "tenant-tenant1", "--output", "wide")
        found = re.search(r"^tenant1-rule1-\S+ +1/1 +Running .* (dpu1-host-[ab]) ", pods, re.MULTILINE)
        if found is None:
            raise Refused(pods)
        return found[1]

    node = wait_until(companion)
    host = kubectl.run("get", "pod", "tenant1-pod1", "--output", "jsonpath={.spec.nodeName}")
    assert node == f"dpu1-{host}"
