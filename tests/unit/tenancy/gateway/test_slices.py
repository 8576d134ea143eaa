"""Long work lets other work on the event loop have its turn."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.kube.client import Page
from app.kube.turns import AdaptiveTurns
from app.tenancy.gateway.reading import field_of, passing
from app.tenancy.gateway.service import Service, Slices
from app.tenancy.gateway.settings import Limits
from app.tenancy.messages import rule_message
from app.tenancy.proto import rule_pb

OBJECTS, PAGE = 10_000, 500


SLICE = 5
"""Objects of a list that are encoded in one turn."""


class Rules(Service):
    """Lists them in one namespace."""

    _namespace = "tenant-a"

    async def all(self, make: Any) -> bytes:
        entry = field_of(rule_pb.ListWorkloadRulesResponse, "rules")
        return await self._listed(cast("Any", None), make, entry, hint="")


async def test_a_list_of_ten_thousand_objects_lets_others_go_on() -> None:
    """Between two turns of another task the list makes no more than a slice of its messages."""
    made, most, last = 0, 0, 0

    class Client:
        async def list_page(self, _resource: Any, *, continue_token: str = "", **_more: Any) -> Page:
            start = int(continue_token or 0)
            items = [{"metadata": {"name": f"r{number}"}} for number in range(start, start + PAGE)]
            return Page(items, "1", str(start + PAGE) if start + PAGE < OBJECTS else "")

    def make(item: Any) -> Any:
        nonlocal made
        made += 1
        return rule_message(item)

    async def other() -> None:
        nonlocal most, last
        while True:
            most, last = max(most, made - last), made
            await asyncio.sleep(0)

    backend = SimpleNamespace(client=Client(), storing=None, limits=Limits(), turns=AdaptiveTurns(total=16, each=4))
    watching = asyncio.create_task(other())
    listed = await Rules(cast("Any", backend)).all(make)
    watching.cancel()
    assert made == OBJECTS
    assert 0 < most <= SLICE
    rules = rule_pb.ListWorkloadRulesResponse.FromString(listed).rules
    assert [rule.id for rule in rules] == [f"r{number}" for number in range(OBJECTS)]


async def test_large_objects_end_a_slice_early() -> None:
    slices, turns = Slices(1000), 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.create_task(other())
    for _ in range(10):
        await slices.worked(64 * 1024)
    watching.cancel()
    assert turns >= 9


@pytest.mark.parametrize("size", [0, 1, 127, 128, 16_383, 16_384, 300_000])
def test_an_encoded_answer_is_the_same_bytes(size: int) -> None:
    rules = [rule_pb.WorkloadRule(id="x" * size), rule_pb.WorkloadRule(id="y", owner="z")]
    whole = rule_pb.ListWorkloadRulesResponse(rules=rules)
    entry = field_of(rule_pb.ListWorkloadRulesResponse, "rules")
    encoded = b"".join(entry(rule.SerializeToString()) for rule in rules)
    assert encoded == whole.SerializeToString()
    serialize = passing(rule_pb.ListWorkloadRulesResponse.SerializeToString)
    assert serialize(encoded) == serialize(whole) == encoded
