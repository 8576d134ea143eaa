"""The page in a real browser: every view, at all widths, in both color schemes, by keyboard alone, without scripts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from app.kube.resources import EVENTS
from app.ui.catalog import VIEWS
from tests.integration.ui.test_callers import files, page_for
from tests.integration.ui.test_reviews import event
from tests.integration.ui.test_trial import RULE
from tests.support.browser import chromium, needs_chromium, tab
from tests.support.fabric import Fabric
from tests.support.page import page_of
from tests.support.sandbox import Sandboxed, sandboxed

__all__ = ["files", "sandboxed"]
pytestmark = needs_chromium
JSON = dict[str, Any]
HOSTILE = "<img src=x onerror=\"document.title='taken'\">"
LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
MARK = "\u202e"
"""Writes what follows from right to left."""
QUERIES = {"why": "?q=pod/stuck", "objects": "?kind=pods"}
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str, networks: str = "") -> JSON:
    annotations = {"k8s.v1.cni.cncf.io/networks": networks} if networks else {}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


@pytest.fixture(autouse=True, scope="module")
def objects(sandboxed: Sandboxed) -> None:
    sandboxed.request("POST", PODS, pod("stuck", "missing"))
    sandboxed.request("POST", PODS, pod("hostile", HOSTILE))
    node = {"metadata": {"name": "a-node-with-a-name-that-is-as-long-as-names-of-nodes-are-in-large-clusters"}}
    sandboxed.request("POST", "/api/v1/nodes", node)
    fabric = Fabric(sandboxed)
    sandboxed.request("POST", PODS, pod(LONG, f"net{MARK}gpj"))
    fabric.dpu(LONG, "host-c")
    fabric.tenant("acme", "host-a", "host-b", "a-host-with-a-name-that-is-as-long-as-names-of-hosts-may-be")
    fabric.dpu("dpu-a", "host-a", "acme")
    fabric.dpu("dpu-b", "host-b")
    fabric.companion("runs", "acme", "dpu-a", cpu="2")
    fabric.companion("waits", "acme", host="host-b")
    fabric.attachment("default", "fast", "nvidia.com/bf3")
    fabric.pod("default", "on-fast", networks="fast", **{"nvidia.com/bf3": "1"})
    fabric.workload("near", "acme", "wbe")
    fabric.make(EVENTS, event("denied", "2026-11-29T10:00:00Z", HOSTILE))
    fabric.node("rmd-1", {"intel.com/l3_cache_ways": "8"})
    fabric.reservations("rmd-1", **{"team/web": {"ID": "1", "Cache Max": "2", "Cache Min": "2"}, HOSTILE: {"ID": "2"}})
    fabric.claim(
        "default", "claim", {"driver": "nics.example.com", "pool": "n", "device": "nic-0"}, ips=["10.0.0.1/24"]
    )
    fabric.rule("fails", "acme", result="error", message=HOSTILE)


@pytest.mark.parametrize("view", VIEWS, ids=[view.name for view in VIEWS])
async def test_a_view_is_sound_at_all_widths_in_both_schemes(sandboxed: Sandboxed, view: Any) -> None:
    async with page_of(sandboxed.kubeconfig()) as page, chromium() as browser:
        for scheme in ("light", "dark"):
            for width in (320, 1024, 2560):
                size = {"width": width, "height": 900}
                url = f"{page.url}/{view.name}{QUERIES.get(view.name, '')}"
                async with tab(browser, url, color_scheme=scheme, viewport=size) as shown:
                    await expect(shown.page.get_by_role("heading", level=1)).to_have_text(view.title)
                    await expect(shown.page.get_by_role("searchbox")).to_be_visible()
                    await shown.is_sound()
                    if width != 1024:
                        await shown.is_accessible()


async def colors(browser: Browser, url: str, scheme: Any) -> str:
    async with tab(browser, url, color_scheme=scheme) as shown:
        return str(await shown.page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))


async def test_the_schemes_differ(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page, chromium() as browser:
        assert await colors(browser, page.url, "light") != await colors(browser, page.url, "dark")


async def test_a_change_is_seen_without_a_reload(sandboxed: Sandboxed) -> None:
    home = sandboxed.namespace()
    async with (
        page_of(sandboxed.kubeconfig()) as page,
        chromium() as browser,
        tab(browser, f"{page.url}/objects?kind=pods&namespace={home}") as shown,
    ):
        main = shown.page.get_by_role("main")
        await expect(main).to_contain_text("There are none")
        await shown.page.evaluate("window.here = true")
        sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", pod("arrives"))
        await expect(main).to_contain_text("arrives")
        sandboxed.request("DELETE", f"/api/v1/namespaces/{home}/pods/arrives")
        await expect(main).to_contain_text("There are none")
        assert await shown.page.evaluate("window.here") is True
        await shown.is_sound()


async def test_a_change_leaves_the_keyboard_where_it_is(sandboxed: Sandboxed) -> None:
    home = sandboxed.namespace()
    sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", pod("first"))
    async with (
        page_of(sandboxed.kubeconfig()) as page,
        chromium() as browser,
        tab(browser, f"{page.url}/objects?kind=pods&namespace={home}") as shown,
    ):
        link = shown.page.get_by_role("link", name=f"Pod {home}/first")
        await link.focus()
        sandboxed.request("POST", f"/api/v1/namespaces/{home}/pods", pod("second"))
        await expect(shown.page.get_by_role("main")).to_contain_text("second")
        await expect(link).to_be_focused()


async def test_an_object_is_found_by_keyboard_alone(sandboxed: Sandboxed) -> None:
    async with (
        page_of(sandboxed.kubeconfig()) as page,
        chromium() as browser,
        tab(browser, f"{page.url}/overview") as shown,
    ):
        keyboard = shown.page.keyboard
        await keyboard.press("Tab")
        await expect(shown.page.get_by_role("link", name="Skip to the content")).to_be_focused()
        field = shown.page.get_by_role("searchbox")
        for _ in range(3 + len(VIEWS)):
            await keyboard.press("Tab")
            if await field.evaluate("element => element === document.activeElement"):
                break
        await expect(field).to_be_focused()
        await keyboard.type("pod/stuck")
        await keyboard.press("Enter")
        await shown.page.wait_for_url("**/why?q=pod*")
        await expect(shown.page.get_by_role("main")).to_contain_text("Pod default/stuck")
        chain = shown.page.locator("svg a")
        await expect(chain.first).to_be_visible()
        for _ in range(40):
            await keyboard.press("Tab")
            if await shown.page.evaluate("document.activeElement.closest('svg') !== null"):
                break
        assert await shown.page.evaluate("document.activeElement.closest('svg') !== null")
        await keyboard.press("Enter")
        await shown.page.wait_for_load_state()
        assert "/why?" in shown.page.url


async def test_it_works_without_scripts(sandboxed: Sandboxed) -> None:
    async with (
        page_of(sandboxed.kubeconfig()) as page,
        chromium() as browser,
        tab(browser, f"{page.url}/overview", java_script_enabled=False) as shown,
    ):
        await shown.page.get_by_role("searchbox").fill("pod/stuck")
        await shown.page.get_by_role("button", name="Ask").click()
        await expect(shown.page.get_by_role("main")).to_contain_text("Pod default/stuck")
        await shown.page.get_by_role("link", name="Objects").click()
        await expect(shown.page.get_by_role("main")).to_contain_text("Pod default/hostile")


async def test_a_name_of_253_characters_is_no_wider_than_a_small_window(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page, chromium() as browser:
        for scheme, width in (("light", 320), ("dark", 2560)):
            size = {"width": width, "height": 900}
            async with tab(browser, f"{page.url}/why?q=pod/{LONG}", color_scheme=scheme, viewport=size) as shown:
                await expect(shown.page.get_by_role("main")).to_contain_text(f"Pod default/{LONG}")
                assert MARK not in await shown.page.content()
                await shown.is_sound()
                await shown.is_accessible()


async def test_a_rule_is_tried_by_keyboard_alone(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page, chromium() as browser, tab(browser, f"{page.url}/try") as shown:
        keyboard, field = shown.page.keyboard, shown.page.get_by_label("as YAML")
        for _ in range(10 + len(VIEWS)):
            await keyboard.press("Tab")
            if await field.evaluate("element => element === document.activeElement"):
                break
        await expect(field).to_be_focused()
        await keyboard.insert_text(RULE)
        await keyboard.press("Tab")
        await expect(shown.page.get_by_role("button", name="Try")).to_be_focused()
        await keyboard.press("Enter")
        await expect(shown.page.get_by_role("main")).to_contain_text("matches 0 of 1 workload")


@pytest.mark.parametrize("script", [True, False])
async def test_a_rule_is_tried_in_the_page(sandboxed: Sandboxed, script: bool) -> None:  # noqa: FBT001
    async with (
        page_of(sandboxed.kubeconfig()) as page,
        chromium() as browser,
        tab(browser, f"{page.url}/try", java_script_enabled=script, viewport={"width": 320, "height": 900}) as shown,
    ):
        field = shown.page.get_by_label("as YAML")
        await field.fill(RULE.replace("[web]", f"['{HOSTILE.replace(chr(39), chr(34))}']"))
        await shown.page.get_by_role("button", name="Try").click()
        main = shown.page.get_by_role("main")
        await expect(main).to_contain_text("matches 0 of 1 workload")
        await expect(main).to_contain_text("<img src=x")
        await expect(field).to_have_value(re.compile("TenantWorkloadRule"))
        assert await shown.page.locator("img").count() == 0
        if script:
            await shown.is_sound()
            await shown.is_accessible()


@pytest.mark.parametrize(
    "path",
    [
        "/why?q=pod/hostile",
        "/objects?kind=pods",
        f"/why?q={HOSTILE}",
        "/overview",
        "/tenants",
        "/rules",
        "/rmd",
        "/reviews",
    ],
)
async def test_what_the_cluster_says_runs_nothing(sandboxed: Sandboxed, path: str) -> None:
    async with (
        page_of(sandboxed.kubeconfig()) as page,
        chromium() as browser,
        tab(browser, page.url + path) as shown,
    ):
        sandboxed.request("POST", PODS, pod("hostile-too", HOSTILE))
        await shown.page.wait_for_function("window.htmx !== undefined")
        assert await shown.page.locator("img").count() == 0
        assert "taken" not in await shown.page.title()
        await shown.is_sound()
        if "pod/hostile" in path:
            await expect(shown.page.get_by_role("main")).to_contain_text("<img src=x onerror=")
    sandboxed.request("DELETE", f"{PODS}/hostile-too")


async def test_a_caller_logs_in_and_out(sandboxed: Sandboxed, files: Any) -> None:
    async with page_for(sandboxed, files) as callers, chromium() as browser:
        token = callers.token("browser", "system:masters")["Authorization"].removeprefix("Bearer ")
        async with tab(browser, f"{callers.page.url}/overview", ignore_https_errors=True) as shown:
            await expect(shown.page.get_by_role("heading", level=1)).to_have_text("Log in")
            await shown.is_accessible()
            await shown.page.get_by_label("Token").fill(token)
            await shown.page.get_by_role("button", name="Log in").click()
            await expect(shown.page.get_by_role("heading", level=1)).to_have_text("Overview")
            assert await shown.page.evaluate("document.cookie") == ""
            await expect(shown.page.get_by_role("banner")).to_contain_text("browser")
            await shown.page.get_by_role("button", name="Log out").click()
            await expect(shown.page.get_by_role("heading", level=1)).to_have_text("Log in")
            assert shown.foreign == []


async def test_the_page_may_not_be_framed(sandboxed: Sandboxed, tmp_path: Path) -> None:
    async with page_of(sandboxed.kubeconfig()) as page, chromium() as browser:
        frame = tmp_path / "frame.html"
        frame.write_text(f'<iframe src="{page.url}/overview"></iframe>')
        async with tab(browser, frame.as_uri()) as shown:
            await shown.page.wait_for_timeout(0)
            assert any("frame" in complaint.lower() for complaint in shown.complaints)
