"""What `kubectl kustomize` builds, with bounds for its time and its output."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress

from app.errors import UsageError
from app.kube.documents import MOST_BYTES
from app.text import MESSAGE, one_line, printable

SECONDS = 120.0
"""Kustomizations may name repositories, which are fetched first."""
_MOST_ERRORS = 64 * 1024


def build(directory: str, *, seconds: float = SECONDS) -> str:
    """The manifests of a kustomization as YAML.

    Raises UsageError where there is no kubectl, or with what it writes where it fails.
    """
    kubectl = shutil.which("kubectl")
    shown = printable(directory)
    if kubectl is None:
        raise UsageError(f"-k {shown}: kubectl is not on PATH: install it, or pipe the manifests to berth explain -f -")
    try:
        status, out, errors = asyncio.run(_run(kubectl, "kustomize", "--", directory, seconds=seconds))
    except TimeoutError:
        raise UsageError(f"-k {shown}: kubectl kustomize has not finished after {seconds:g} seconds") from None
    except OSError as error:
        raise UsageError(f"-k {shown}: cannot run kubectl: {error.strerror or error}") from error
    if len(out) > MOST_BYTES:
        raise UsageError(f"-k {shown}: kubectl kustomize writes more than {MOST_BYTES >> 20} MiB")
    if status:
        said = printable(one_line(errors.decode(errors="replace"), MESSAGE)) or f"exit status {status}"
        raise UsageError(f"-k {shown}: kubectl kustomize: {said}")
    try:
        return out.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"-k {shown}: kubectl kustomize writes what is not UTF-8 text") from error


async def _run(*command: str, seconds: float) -> tuple[int, bytes, bytes]:
    """Exit status and output, which ends early where there is too much. Nothing of it runs on afterwards."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe, start_new_session=True
    )
    assert process.stdout is not None and process.stderr is not None  # noqa: S101, PT018  both are pipes
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as group:
            errors = group.create_task(_first(process.stderr, _MOST_ERRORS, drain=True))
            out = await _first(process.stdout, MOST_BYTES + 1)
            if len(out) > MOST_BYTES:
                _end(process.pid)
        status = await asyncio.wait_for(process.wait(), seconds)
    finally:
        _end(process.pid)
        await process.wait()
    return status, out, errors.result()


async def _first(stream: asyncio.StreamReader, limit: int, *, drain: bool = False) -> bytes:
    """The first bytes; with `drain` the rest is read too, so that the writer does not wait."""
    found = bytearray()
    while len(found) < limit and (chunk := await stream.read(min(limit - len(found), 1 << 16))):
        found += chunk
    while drain and await stream.read(1 << 16):
        pass
    return bytes(found)


def _end(group: int) -> None:
    """End what kubectl has started, too."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
