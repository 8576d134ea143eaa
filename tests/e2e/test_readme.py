"""What the README has typed in the sandbox, with Berth in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.users import Kubectl
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")]


def test_a_rule_gives_a_pod_its_companion_as_the_page_has_it(sandbox: Path) -> None:
    """Every line in its order, as it is typed."""
    blocks = re.findall(r"^```\n(.*?)^```$", (ROOT / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    (block,) = (text for text in blocks if "examples/workload-api" in text)
    environment = os.environ | {"KUBECONFIG": str(sandbox / "kubeconfig")}
    try:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert re.search(r"^tenant1-rule1-\S+ +1/1 +Running .* dpu1-host-[ab] ", done.stdout, re.MULTILINE)
        assert re.search(r"^uvspod\.\S+/tenant1-rule1-\S+ +success", done.stdout, re.MULTILINE)
    finally:
        tenant, infra = Kubectl(sandbox / "tenant1.kubeconfig"), Kubectl(sandbox / "icp.kubeconfig")
        examples = ROOT / "examples" / "workload-api"
        tenant.run("delete", *(f"--filename={examples}/tenant1-{name}.yaml" for name in ("rule1", "pod1")))
        wait_until(lambda: not infra.run("get", "pods", "--namespace", "tenant-tenant1", "--output", "name"))
