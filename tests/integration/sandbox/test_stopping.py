"""What a cluster that stops leaves behind: nothing that still answers, and no open socket."""

from __future__ import annotations

import asyncio
import ssl

import pytest

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
