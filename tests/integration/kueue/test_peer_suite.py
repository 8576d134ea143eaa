"""AppWrapper's own end-to-end tests (`test/e2e` of its module): with its manager, and with Berth in its place."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.queued_cluster import QueuedCluster
from tests.support.real_parts import needs, real_part

JSON = dict[str, Any]
STAND_IN = False
pytestmark = needs("appwrapper-e2e")
WITHOUT = ("PyTorch", "Ray", "JobSet", "Compound", "Deleting a Running Component")
"""Parts of the names of tests that need operators of other kinds, which do not run here."""
DIFFERENT = ("There must be no more than 8 podspecs", "A failed Batch Job will be Reset up to retryLimit")
"""With Berth: it takes as many podSets as the Workload of the installed Kueue, and a Job uses its `backoffLimit` first. The
migration page says both.
"""


@pytest.mark.timeout(1800)
async def test_they_pass(queues: QueuedCluster, tmp_path: Path) -> None:
    """One that fails is run twice more: they have limits of time, which a busy machine exceeds."""
    report = tmp_path / "report.json"
    left_out = WITHOUT if queues.side == "codeflare" else (*WITHOUT, *DIFFERENT)
    command = (
        str(real_part("appwrapper-e2e")),
        "--ginkgo.label-filter=Kueue || Webhook",  # its queues are made where `Kueue` alone passes the filter
        *(f"--ginkgo.skip={name}" for name in left_out),
        "--ginkgo.flake-attempts=3",
        "--ginkgo.timeout=28m",
        "--ginkgo.no-color",
        f"--ginkgo.json-report={report}",
    )
    done = await asyncio.to_thread(_run, command, queues.kubeconfig)
    assert done.returncode == 0, done.stdout[-6000:]
    states = _states(json.loads(await asyncio.to_thread(report.read_text)))
    assert len(states) >= 20, states
    assert set(states.values()) == {"passed"}


def _run(command: tuple[str, ...], kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _states(report: list[JSON]) -> dict[str, str]:
    """What became of each test that was run, by its name."""
    return {
        test["LeafNodeText"]: test["State"]
        for suite in report
        for test in suite["SpecReports"] or ()
        if test["LeafNodeType"] == "It" and test["State"] != "skipped"
    }
