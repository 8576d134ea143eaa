"""What a cluster that stops leaves behind: nothing that still answers, and no open socket."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import aiohttp
import pytest

from app.devtools.sandbox.processes import PodLog
from app.devtools.sandbox.server import Cluster
from tests.support.waiting import PATIENCE


async def test_a_connection_whose_handshake_outlasts_the_cluster_is_cut() -> None:
    async with Cluster() as cluster:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(cluster.url.rpartition(":")[2]))
        await asyncio.sleep(0.1)  # accepted
    await writer.start_tls(ssl.create_default_context(cadata=cluster.ca_pem), server_hostname="127.0.0.1")
    try:
        writer.write(b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(reader.readexactly(1), PATIENCE)
    finally:
        writer.transport.abort()
        await asyncio.sleep(0.05)


async def test_a_log_that_is_followed_ends_with_the_cluster(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The cluster does not wait for its reader, and cuts nothing off."""
    log = tmp_path / "p.log"
    log.write_text("begun\n")
    async with Cluster() as cluster:
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": "n"}
        status = {"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": 0}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}
        pod = cluster.storage.create(("", "pods"), body | {"status": status})
        cluster.state.processes[pod["metadata"]["uid"]] = PodLog("127.0.0.1", log)
        cluster.add_token("t", "admin", ("system:masters",))
        context = ssl.create_default_context(cadata=cluster.ca_pem)
        async with aiohttp.ClientSession(headers={"Authorization": "Bearer t"}) as session:
            url = f"{cluster.url}/api/v1/namespaces/default/pods/p/log?follow=true"
            async with session.get(url, ssl=context) as answer:
                assert await answer.content.readline() == b"begun\n"
                stopping = asyncio.create_task(cluster.stop())
                assert await asyncio.wait_for(answer.content.read(), PATIENCE) == b""
            await asyncio.wait_for(stopping, PATIENCE)
    assert not [one for one in caplog.records if one.levelname == "ERROR"]
