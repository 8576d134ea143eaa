"""An API server that accepts connections and answers nothing, as one that is stopped."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
import yaml

COMMANDS = (["status"], ["doctor"], ["why", "pod/web-0"], ["tenant", "list"])


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
async def test_what_is_waited_for_is_said(tmp_path: Path, words: list[str]) -> None:
    """The command is still waiting when it says so: only then the connection is cut."""
    said, connections = asyncio.Event(), list[asyncio.StreamWriter]()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        await said.wait()
        writer.transport.abort()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        kubeconfig = tmp_path / "kubeconfig"
        named = {"cluster": {"server": url}, "user": {"token": "t"}, "context": {"cluster": "c", "user": "c"}}
        lists = {f"{kind}s": [{"name": "c", kind: value}] for kind, value in named.items()}
        kubeconfig.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "c", **lists}))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", *words, "--kubeconfig", str(kubeconfig)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        line = (await process.stderr.readline()).decode()
        assert line == f"note: the API server at {url} has not answered yet (kubeconfig {kubeconfig}, context c)\n"
        assert connections
        said.set()
        server.close()
        assert b"Error: " in await process.stderr.read()
        assert await process.wait() == 1
