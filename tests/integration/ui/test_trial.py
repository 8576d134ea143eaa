"""View `try`: a rule that is sent is judged, and nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from app.workloads.model import TENANT_RULES, WORKLOADS
from app.workloads.views.trial import MOST
from tests.support.fabric import Fabric
from tests.support.page import Answer, Page, page_of
from tests.support.sandbox import sandbox

JSON = dict[str, Any]
RULE = """
apiVersion: workload.infra.universe.nvidia.com/v1alpha1
kind: TenantWorkloadRule
metadata:
  name: rule
  namespace: tenant-acme
spec:
  workloadTerms:
  - matchExpressions:
    - {key: metadata.resourceName, operator: In, values: [web]}
  template:
    apiVersion: v1
    kind: Pod
    spec:
      containers:
      - {name: c, image: i}
"""
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{after}: &{after} [{','.join([f'*{before}'] * 9)}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.fixture(scope="module")
def fabric(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fabric]:
    with sandbox(tmp_path_factory.mktemp("served")) as server:
        made = Fabric(server, TENANT_RULES, WORKLOADS)
        made.workload("one", "acme", "web")
        made.workload("two", "acme", "wbe")
        made.workload("three", "zeta", "web")
        yield made


async def send(page: Page, text: str, path: str = "/api/try", **headers: str) -> Answer:
    given = {"origin": page.url, "content-type": "application/x-www-form-urlencoded"} | headers
    return await page.send(
        "POST", path, {name: value for name, value in given.items() if value}, urlencode({"text": text})
    )


async def test_a_rule_meets_the_workloads_that_it_may_see(fabric: Fabric) -> None:
    async with page_of(fabric.server.kubeconfig()) as page:
        outcome = (await send(page, RULE)).json["outcome"]
        assert (outcome["matched"], outcome["missed"], outcome["problems"]) == (1, 1, [])
        assert outcome["verdict"] == "matches 1 of 2 workloads"
        assert any("companion tenant-acme/rule-" in line for line in outcome["lines"])
        html = (await send(page, RULE, "/try")).text
        assert "The rule matches 1 of 2 workloads" in html
        assert "sse-connect" not in html
        assert "key: metadata.resourceName" in html


async def test_nothing_is_written(fabric: Fabric) -> None:
    async with page_of(fabric.server.kubeconfig()) as page:
        await send(page, RULE)
    path = TENANT_RULES.path(namespace="tenant-acme")
    assert fabric.server.request("GET", path).body["items"] == []


@pytest.mark.parametrize(
    ("text", "verdict", "problem"),
    [
        ("a: [", "cannot be read", "line:2:1"),
        ("", "cannot be read", "want one rule"),
        (f"{RULE}---{RULE}", "cannot be read", "there are 2 objects"),
        ("kind: Pod\napiVersion: v1", "cannot be read", "want one of TenantWorkloadRule"),
        (RULE.replace("name: rule", "labels: {}"), "cannot be read", "metadata.name: want"),
        (RULE.replace("tenant-acme", "A_b"), "cannot be read", "metadata.namespace: "),
        (RULE.replace("In, values", "Is, values"), "would be refused", "operator"),
        (
            RULE.replace("{name: c, image: i}", "{name: c, image: i}\n      hostNetwork: true"),
            "would be refused",
            "hostNetwork",
        ),
        (BOMB, "cannot be read", ""),
        (f"{RULE}{BOMB}", "cannot be read", ""),
        ("x" * (MOST + 1), "cannot be read", f"want at most {MOST}"),
        (RULE.replace("name: rule", "name: <b>bold</b>"), "would be refused", "metadata.name"),
    ],
)
async def test_what_is_wrong_with_a_rule_is_said(fabric: Fabric, text: str, verdict: str, problem: str) -> None:
    async with page_of(fabric.server.kubeconfig()) as page:
        answer = await send(page, text)
        assert answer.status == 200
        outcome = answer.json["outcome"]
        assert outcome["verdict"] == verdict
        assert problem in "; ".join(outcome["problems"])
        html = (await send(page, text, "/try")).text
        assert "<b>bold</b>" not in html


async def test_a_form_of_another_site_and_one_that_is_too_large_are_refused(fabric: Fabric) -> None:
    async with page_of(fabric.server.kubeconfig()) as page:
        for path in ("/try", "/api/try"):
            assert (await send(page, RULE, path, origin="https://elsewhere.example")).status == 403
            assert (await send(page, RULE, path, origin="")).status == 403
            assert (await send(page, "x" * 200_000, path)).status == 413
        many = urlencode([("text", "x")] * 20)
        assert (await page.send("POST", "/try", {"origin": page.url}, many)).status == 400
        assert (await send(page, RULE, "/overview")).status == 405
