"""How a gateway starts, follows its certificates, speaks, and stops."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509

import app.tenancy.proto
from app.certs.issuing import Issued, bridge, issue_authority, issue_serving, serving_names
from app.errors import UsageError
from app.tenancy.model import GATEWAY_NAME
from app.tenancy.proto.universe.workload.v1 import workload_rule_pb2 as pb
from tests.support.gateway_calls import fails, rules
from tests.support.tenancy import QUICK, Door, Infra, Pki, Start, TlsFiles
from tests.support.waiting import PATIENCE, eventually

CODE = grpc.StatusCode


def serial(door: Door) -> int:
    """The serial number of the certificate that the next handshake meets."""
    command = ["openssl", "s_client", "-connect", door.address, "-servername", GATEWAY_NAME, "-showcerts"]
    shown = subprocess.run(command, input=b"", capture_output=True, timeout=PATIENCE, check=False).stdout
    return x509.load_pem_x509_certificate(shown[shown.index(b"-----BEGIN") :]).serial_number


async def listed(channel: Any) -> Any:
    return await rules(channel).List(pb.ListWorkloadRulesRequest(), timeout=PATIENCE)


async def test_a_new_certificate_is_served_and_connections_stay(door: Door, pki: Pki) -> None:
    channel = door.tenant("tenant1")
    watch = rules(channel).Watch(pb.WatchWorkloadRulesRequest())
    assert (await watch.read()).synced
    before = await asyncio.to_thread(serial, door)
    renewed = pki.write_serving()
    assert await asyncio.to_thread(serial, door) == renewed.serial_number != before
    assert not watch.done()
    await listed(channel)
    await listed(door.tenant("tenant2"))
    watch.cancel()


async def test_another_authority_replaces_the_first(door: Door, pki: Pki, capsys: pytest.CaptureFixture[str]) -> None:
    """Client authorities follow their file as well: the old one's certificates open no new connection, and are logged."""
    other = issue_authority(common_name="other", now=datetime.now(UTC), days=30)
    names = serving_names(dns=[GATEWAY_NAME])
    issued = issue_serving(other, names=names, now=datetime.now(UTC), days=10)
    pki.files.certificate.write_bytes(issued.certificate_pem)
    pki.files.key.write_bytes(issued.key_pem)
    pki.files.client_ca.write_bytes(other.certificate_pem)
    await listed(door.channel(pki.client("tenant1.tenant.local", authority=other), ca=other.certificate_pem))
    old = door.channel(pki.tenant("tenant1"), ca=other.certificate_pem)
    assert (await fails(listed(old))).code() is CODE.UNAVAILABLE
    captured = capsys.readouterr()
    logged = [line for line in (captured.out + captured.err).splitlines() if "TLS handshake failed" in line]
    assert len(logged) == 1
    assert "the certificate of the client is refused" in logged[0]


async def test_an_intermediate_authority_is_trusted_by_itself(infra: Infra, start: Start, pki: Pki) -> None:
    """Its root need not be in the file, as with gRPC's own listener."""
    await infra.add_tenant("tenant1")
    root = issue_authority(common_name="root", now=datetime.now(UTC), days=30)
    middle = issue_authority(common_name="middle", now=datetime.now(UTC), days=30)
    signed = Issued(bridge(root, middle), middle.key)
    pki.files.client_ca.write_bytes(signed.certificate_pem)
    door = await start()
    await listed(door.channel(pki.client("tenant1.tenant.local", authority=signed)))


async def test_files_that_cannot_serve_leave_the_old_ones_in_service(door: Door, pki: Pki) -> None:
    before = await asyncio.to_thread(serial, door)
    key = pki.files.key.read_bytes()
    pki.files.key.write_bytes(issue_authority(common_name="x", now=datetime.now(UTC), days=2).key_pem)
    await eventually(lambda: any("is not the key of" in line for line in door.gateway.waiting()))
    assert await asyncio.to_thread(serial, door) == before
    await listed(door.tenant("tenant1"))
    pki.files.key.write_bytes(key)
    await eventually(lambda: not door.gateway.waiting())


@pytest.mark.parametrize("content", [None, b"garbage"])
async def test_a_gateway_without_usable_files_does_not_start(
    infra: Infra, pki: Pki, tmp_path: Path, content: Any
) -> None:
    files = TlsFiles(tmp_path / "c", tmp_path / "k", tmp_path / "ca")
    if content is not None:
        for path in (files.certificate, files.key, files.client_ca):
            path.write_bytes(content)
    with pytest.raises(UsageError, match="gateway TLS"):
        Door(infra.client, files.settings(), pki)


async def test_a_port_that_is_taken_is_said(door: Door, infra: Infra, pki: Pki) -> None:
    settings = pki.files.settings(port=door.gateway.port)
    with pytest.raises(UsageError, match=str(door.gateway.port)):
        await Door(infra.client, settings, pki).gateway.run(asyncio.Event())


async def test_a_stopping_gateway_ends_streams_so_that_agents_go_elsewhere(infra: Infra, pki: Pki) -> None:
    await infra.add_tenant("tenant1")
    door, stop = Door(infra.client, pki.files.settings(drain_seconds=600.0), pki), asyncio.Event()
    running = asyncio.create_task(door.gateway.run(stop))
    await eventually(lambda: not door.gateway.waiting())
    watch = rules(door.tenant("tenant1")).Watch(pb.WatchWorkloadRulesRequest())
    assert (await watch.read()).synced
    stop.set()
    error = await fails(watch)
    assert error.code() is CODE.UNAVAILABLE
    assert "stopping" in (error.details() or "")
    await running
    assert door.gateway.waiting()
    await door.close()


async def test_an_unknown_method_is_unimplemented(door: Door) -> None:
    call = door.tenant("tenant1").unary_unary("/universe.workload.v1.WorkloadRuleService/Nothing")
    assert (await fails(call(b""))).code() is CODE.UNIMPLEMENTED


async def test_garbage_on_the_wire_is_an_error_of_that_call(door: Door) -> None:
    channel = door.tenant("tenant1")
    call = channel.unary_unary("/universe.workload.v1.WorkloadRuleService/Create")
    assert (await fails(call(b"\xff" * 100))).code() is CODE.INVALID_ARGUMENT
    stream = channel.stream_unary("/universe.workload.v1.WorkloadService/WorkloadStream")()
    await stream.write(b"\xff" * 100)
    assert (await fails(stream)).code() is CODE.INVALID_ARGUMENT
    await listed(channel)


async def test_nothing_of_a_stranger_is_parsed(door: Door) -> None:
    call = door.tenant("stranger").unary_unary("/universe.workload.v1.WorkloadRuleService/Create")
    assert (await fails(call(b"\xff" * 100))).code() is CODE.PERMISSION_DENIED


async def test_every_call_is_reported(door: Door) -> None:
    await listed(door.tenant("tenant1"))
    await fails(rules(door.tenant("tenant1")).Get(pb.GetWorkloadRuleRequest(id="none")))
    service = "universe.workload.v1.WorkloadRuleService"
    await eventually(lambda: door.seen.calls == [(service, "List", "OK"), (service, "Get", "NOT_FOUND")])


def test_generating_the_protos_anew_gives_what_is_there(tmp_path: Path) -> None:
    """As `make protos` does it: the generated modules were not forgotten, nor edited."""
    source = Path(app.tenancy.proto.__file__ or "").parent
    protos = sorted(str(path.relative_to(source)) for path in source.rglob("*.proto"))
    outputs = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]
    subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "grpc_tools.protoc", f"-I{source}", *outputs, *protos],
        check=True,
        timeout=PATIENCE,
    )
    made = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*_pb2*.py*")}
    assert len(made) == 3 * len(protos)
    for path, text in made.items():
        lines = [
            "from app.tenancy.proto." + line.removeprefix("from ") if line.startswith("from universe.") else line
            for line in text.splitlines()
        ]
        assert (source / path).read_text().splitlines() == lines, path


async def test_what_follows_the_first_readiness_happens_once(infra: Infra, pki: Pki) -> None:
    """Then all that stays in memory is loaded, and the caches are full."""
    found: list[list[str]] = []
    limits = replace(QUICK, tick=0.001)
    settings = pki.files.settings(drain_seconds=0.0)
    door = Door(infra.client, settings, pki, limits=limits, settled=lambda: found.append(door.gateway.waiting()))
    stop = asyncio.Event()
    running = asyncio.create_task(door.gateway.run(stop))
    await eventually(lambda: found)
    await infra.add_tenant("tenant1")
    await eventually(lambda: door.sources.tenants.get("", "tenant1"))
    stop.set()
    await running
    assert found == [[]]
