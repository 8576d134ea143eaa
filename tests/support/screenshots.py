"""`python -m tests.support.screenshots`: pictures of the page for docs/ui.md, of a small cluster with some defects."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from app.kube.resources import EVENTS, PODS
from app.workloads.model import ADMIN_RULES
from tests.integration.ui.test_reviews import event
from tests.support.browser import CHROMIUM, chromium, tab
from tests.support.fabric import Fabric
from tests.support.page import Page, page_of
from tests.support.paths import ROOT
from tests.support.sandbox import Sandboxed, sandbox
from tests.support.waiting import eventually

FOLDER = ROOT / "docs/screenshots"
SHOTS = {
    "overview": "/overview",
    "fabric": "/fabric",
    "why": "/why?q=pod/trainer&namespace=default",
    "rules": "/rules",
    "reviews": "/reviews",
}
MOST = 150 * 1024
"""Bytes of a picture."""


def furnished(server: Sandboxed) -> None:
    """Two tenants; a host without a DPU, a DPU of no tenant, a rule with a typo, and a Pod that no node takes."""
    fabric = Fabric(server, ADMIN_RULES)
    unmatched = {
        "type": "Matched",
        "status": "False",
        "reason": "NoWorkloadMatches",
        "message": "no workload matches",
        "lastTransitionTime": "2026-11-29T10:00:00Z",
    }
    fabric.tenant("acme", "host-a", "host-b", "host-c")
    fabric.tenant("zeta", "host-d")
    for number, (host, tenant) in enumerate((("host-a", "acme"), ("host-b", ""), ("host-d", "zeta"))):
        fabric.dpu(f"dpu-{number}", host, tenant)
    fabric.companion("firewall-web-0", "acme", "dpu-0", cpu="2")
    fabric.companion("firewall-web-1", "acme", host="host-b")
    fabric.companion("storage-db-0", "zeta", "dpu-2", cpu="4")
    fabric.workload("web-0", "acme", "web")
    fabric.workload("wbe-1", "acme", "wbe-1")
    fabric.rule("firewall", "acme", matched=2, created=2, running=1)
    fabric.rule("storage", "acme", key="metadata.resourceNam", matched=0, conditions=[unmatched])
    fabric.rule("mirror", "zeta", result="error", message="spec.template.spec.hostNetwork: want false")
    fabric.attachment("default", "fast", "nvidia.com/bf3")
    fabric.attachment("default", "faster", "nvidia.com/bf4_vf")
    fabric.pod("default", "web-0", networks="fast", **{"nvidia.com/bf3": "1"})
    fabric.pod("default", "trainer", networks="faster", **{"nvidia.com/bf4_vf": "1"})
    said = "0/3 nodes are available: 3 Insufficient nvidia.com/bf4_vf."
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    path = PODS.path(namespace="default", name="trainer")
    pod = server.request("GET", path).body
    server.request("PUT", f"{path}/status", {**pod, "status": {"phase": "Pending", "conditions": [waits]}})
    denied = "there is no NetworkAttachmentDefinition default/fsat; there is default/fast"
    for number, name in enumerate(("web-7d4b9", "db-0")):
        fabric.make(EVENTS, event(name, f"2026-11-29T10:0{number}:00Z", denied))


async def taken(page: Page) -> None:
    """Writes the pictures."""

    async def examined() -> bool:
        return (await page.get("/api/overview")).json["doctor"] is not None

    await eventually(examined)
    async with chromium() as browser:
        for name, path in SHOTS.items():
            options = {"viewport": {"width": 1100, "height": 720}, "color_scheme": "light"}
            async with tab(browser, page.url + path, **options) as shown:
                await shown.is_sound()
                content = await shown.page.screenshot(animations="disabled")
            if len(content) > MOST:
                raise SystemExit(f"{name}: the picture has {len(content)} bytes: want at most {MOST}")
            (FOLDER / f"{name}.png").write_bytes(content)
            sys.stdout.write(f"wrote {FOLDER.relative_to(ROOT)}/{name}.png ({len(content) // 1024} KiB)\n")


async def _run(kubeconfig: Path) -> None:
    async with page_of(kubeconfig) as page:
        await taken(page)


def main() -> None:
    if CHROMIUM is None:
        raise SystemExit("no Chromium: apt-get install --yes --no-install-recommends chromium")
    with tempfile.TemporaryDirectory() as folder, sandbox(Path(folder)) as server:
        furnished(server)
        # The name of the cluster on the page is that of the file.
        kubeconfig = Path(folder) / "cluster.kubeconfig"
        kubeconfig.write_text(server.kubeconfig().read_text())
        asyncio.run(_run(kubeconfig))


if __name__ == "__main__":
    main()
