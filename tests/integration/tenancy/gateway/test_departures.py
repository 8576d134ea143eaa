"""Clients that go away in the middle of something: the streams end, and nobody's log is filled."""

from __future__ import annotations

from typing import Any

import pytest

from app.kube.resources import PODS
from app.tenancy.proto.universe.resource.v1 import universe_resource_pb2 as resource_pb
from app.workloads.model import COMPANION
from tests.support.gateway_calls import POD, Sender, resources
from tests.support.tenancy import Door, Infra
from tests.support.waiting import eventually


@pytest.mark.parametrize("way", ["cancel", "close"])
async def test_a_client_that_leaves_frees_its_streams(
    door: Door, infra: Infra, way: str, caplog: pytest.LogCaptureFixture, capsys: Any
) -> None:
    channel = door.tenant("tenant1", **{"grpc.http2.lookahead_bytes": 1024, "grpc.http2.bdp_probe": 0})
    for number in range(20):
        metadata = {"name": f"c{number}", "labels": {COMPANION: "tenant"}, "annotations": {"p": "x" * 60_000}}
        await infra.client.create(PODS, {**POD, "metadata": metadata}, namespace="tenant-tenant1")
    await eventually(lambda: len(door.sources.companions) == 20)
    stuck = resources(channel).Watch(resource_pb.WatchRequest())
    reading = resources(channel).Watch(resource_pb.WatchRequest())
    sender = Sender(channel)
    await sender.update("a")
    await reading.read()
    await eventually(lambda: door.seen.open.get("tenant1") == 3)
    if way == "close":
        await channel.close()
    else:
        for call in (stuck, reading, sender.call):
            call.cancel()
    await eventually(lambda: door.seen.open["tenant1"] == 0)
    assert {code for _, _, code in door.seen.calls} == {"CANCELLED"}
    assert "Traceback" not in caplog.text + capsys.readouterr().out
