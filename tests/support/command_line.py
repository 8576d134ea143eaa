"""`berth` and `kubectl` as they are typed."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

from tests.support.forking import BerthProcess, clean_environment
from tests.support.waiting import PATIENCE


def berth(*arguments: str, stdin: str = "", columns: int = 80, **env: str) -> subprocess.CompletedProcess[str]:
    """With `clean_environment` and without colors; what `env` says counts."""
    inherited = clean_environment()
    inherited.pop("FORCE_COLOR", None)
    with BerthProcess(
        *arguments,
        env=inherited | {"COLUMNS": str(columns), "NO_COLOR": "1"} | env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path.cwd(),
        text=True,
    ) as process:
        out, err = process.communicate(stdin, PATIENCE)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


async def start_kubectl(kubeconfig: Path, *arguments: str) -> asyncio.subprocess.Process:
    """kubectl, started; its cache is beside the kubeconfig."""
    command = ["kubectl", "--kubeconfig", str(kubeconfig), "--cache-dir", str(kubeconfig.parent / "cache")]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, *arguments, stdout=pipe, stderr=pipe)


async def kubectl(kubeconfig: Path, *arguments: str) -> str:
    """What kubectl prints; it has to succeed."""
    process = await start_kubectl(kubeconfig, *arguments)
    out, problem = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 0, problem
    return out.decode()
