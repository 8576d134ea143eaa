"""Each answer of `/api/NAME` is as its schema says, and has no member that the schema does not name."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import urlencode

import pytest
from jsonschema import Draft202012Validator, ValidationError

from app.kube.resources import EVENTS
from app.ui.catalog import VIEWS
from tests.integration.ui.test_reviews import event
from tests.integration.ui.test_trial import RULE, send
from tests.support.fabric import Fabric
from tests.support.page import Page, page_of
from tests.support.sandbox import Sandboxed, sandboxed

__all__ = ["sandboxed"]
JSON = dict[str, Any]
HOSTILE = "<img src=x onerror=alert(1)>\u202e\u0000\U0001f4a9{{7*7}}"
LONG = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])
QUERIES = (
    ("why", {"q": "pod/hostile"}),
    ("why", {"q": HOSTILE}),
    ("why", {"q": f"node/{LONG}"}),
    ("why", {"q": "o"}),
    ("objects", {"kind": HOSTILE}),
    ("objects", {"kind": "nodes"}),
    ("objects", {"kind": "pods", "labels": HOSTILE}),
    ("rules", {"namespace": HOSTILE}),
    ("fabric", {"show": "problems"}),
)


@pytest.fixture(autouse=True, scope="module")
def objects(sandboxed: Sandboxed) -> None:
    """What their authors wrote is hostile, or is no text where one is expected."""
    fabric = Fabric(sandboxed)
    fabric.tenant("acme", "host-a", "host-b", status={"result": "error", "message": HOSTILE})
    fabric.dpu(LONG, "host-a", "acme")
    fabric.companion("runs", "acme", LONG, cpu="2")
    fabric.companion("waits", "acme", host="host-b")
    fabric.attachment("default", "fast", HOSTILE)
    fabric.pod("default", "hostile", networks=HOSTILE)
    fabric.workload("near", "acme", HOSTILE)
    fabric.make(EVENTS, event("denied", "2026-11-29T10:00:00Z", HOSTILE))
    fabric.node("rmd-1", {"intel.com/l3_cache_ways": "8"})
    fabric.reservations(
        "rmd-1", **{"team/web": {"ID": "1", "Cache Max": "2", "Cache Min": HOSTILE}, HOSTILE: {"ID": "2"}}
    )
    device = {"driver": "nics.example.com", "pool": "n", "device": "nic-0"}
    fabric.claim("default", "claim", device, ips=["10.0.0.1/24"])
    fabric.rule("fails", "acme", result="error", message=HOSTILE)


def strict(schema: JSON) -> JSON:
    """The schema, without members that it does not name."""
    closed = copy.deepcopy(schema)
    for definition in closed["$defs"].values():
        if "properties" in definition:
            definition["additionalProperties"] = False
    return closed


async def schemas(page: Page) -> dict[str, JSON]:
    return {name: strict(schema) for name, schema in (await page.get("/api/schema")).json.items()}


@pytest.mark.parametrize(("view", "query"), [*((view.name, {}) for view in VIEWS), *QUERIES])
async def test_an_answer_is_as_its_schema_says(sandboxed: Sandboxed, view: str, query: dict[str, str]) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        schema = (await schemas(page))[view]
        Draft202012Validator.check_schema(schema)
        answer = await page.get(f"/api/{view}?{urlencode(query)}")
        assert answer.status == 200, answer.text
        Draft202012Validator(schema).validate(answer.json)


async def test_a_rule_that_is_tried_is_answered_so_too(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        schema = (await schemas(page))["try"]
        for text in (RULE, RULE.replace("[web]", f"['{HOSTILE[:30]}']"), HOSTILE, ""):
            Draft202012Validator(schema).validate((await send(page, text)).json)


async def test_members_that_no_schema_names_and_wrong_types_are_found(sandboxed: Sandboxed) -> None:
    async with page_of(sandboxed.kubeconfig()) as page:
        schema = (await schemas(page))["objects"]
        model = (await page.get("/api/objects?kind=pods")).json
        (row, *_) = model["page"]["rows"]
        for members in ({"added": 1}, {"text": 1}):
            wrong = model | {"page": model["page"] | {"rows": [row | members]}}
            with pytest.raises(ValidationError):
                Draft202012Validator(schema).validate(wrong)
