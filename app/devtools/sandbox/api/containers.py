"""What an API server asks the kubelet of a Pod: logs, and connections to a container.

A stand-in runs nothing: its log is one line that says so. A Pod that is a process of this machine has a log. Neither
takes a connection, and the refusal says why.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING

from app.devtools.sandbox.api.call import Call, Reply
from app.devtools.sandbox.api.failures import bad_request, invalid
from app.devtools.sandbox.api.reading import stored
from app.kinds.fielderrors import FieldError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from app.devtools.sandbox.state import ClusterState
    from app.wire import JSON

_POLL = 0.1
"""Seconds between two looks at a log that is followed."""
_TEXT = "text/plain"
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_WISHES = {
    "exec": "run a command in",
    "attach": "attach to",
    "portforward": "forward a port to",
}


async def log(state: ClusterState, call: Call) -> Reply:
    """GET of a container's log. A Pod without a node has an empty one."""
    lines, limit = _number(call, "tailLines", least=0), _number(call, "limitBytes", least=1)
    pod = stored(state, call)
    name = _container(pod, call.query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        return Reply(204, b"", _TEXT)
    restarts = _restarts(pod, name)
    previous, follows = call.flag("previous"), call.flag("follow")
    if previous and not restarts:
        raise bad_request(f'previous terminated container "{name}" in pod "{call.name}" not found')
    process = state.processes.get(pod["metadata"]["uid"])
    if process is None:
        said = f"{call.name} is a stand-in of the sandbox: it runs nothing, so container {name} has no output.\n"
        return Reply(200, _cut(said.encode(), lines, limit), _TEXT)
    if asked := [option for option in ("sinceSeconds", "sinceTime", "timestamps") if call.flag(option)]:
        raise bad_request(f"the sandbox does not know when a line was written: want a request without {asked[0]}")
    path = process.previous if previous else process.current
    whole = path.read_bytes() if path.exists() else b""
    if previous or not follows:
        return Reply(200, _cut(whole, lines, limit), _TEXT)
    return Reply(200, _followed(state, pod, path, lines), _TEXT)


async def connect(state: ClusterState, call: Call) -> Reply:
    """What opens a connection to a container. Raises StatusError 400: nothing here takes one."""
    pod = stored(state, call)
    wish = _WISHES[call.subresource]
    if call.subresource != "portforward":
        _container(pod, call.query.get("container", ""))
    if not pod["spec"].get("nodeName"):
        raise bad_request(f"pod {call.name} does not have a host assigned")
    process = state.processes.get(pod["metadata"]["uid"])
    if process is None:
        raise bad_request(f"pod {call.name} is a stand-in of the sandbox: it runs nothing, so one cannot {wish} it")
    reached = f"pod {call.name} is a process of this machine, at {process.address}"
    if call.subresource == "portforward":
        raise bad_request(f"the sandbox does not forward ports; {reached}: use its ports there")
    raise bad_request(f"the sandbox starts no containers, so one cannot {wish} one; {reached}")


def _number(call: Call, name: str, *, least: int) -> int | None:
    """A number among the options of a log. Raises StatusError 400 or 422."""
    text = call.query.get(name, "")
    if not text.lstrip("-").isdecimal():
        return call.integer(name)
    if int(text) < least:
        word = "greater than or equal to 0" if least == 0 else "greater than 0"
        fault = FieldError(name, "Invalid", f"must be {word}", int(text))
        raise invalid("", "PodLogOptions", call.name, [fault])
    return int(text)


def _container(pod: JSON, wanted: str) -> str:
    """The container that is meant. Raises StatusError 400 where there is none, or a choice."""
    metadata, spec = pod["metadata"], pod["spec"]
    names = [str(one["name"]) for kind in _CONTAINERS for one in spec.get(kind) or []]
    if wanted and wanted not in names:
        raise bad_request(f"container {wanted} is not valid for pod {metadata['name']}")
    mains = spec["containers"]
    if not wanted and len(mains) > 1:
        choice = f"choose one of: [{' '.join(names)}]"
        raise bad_request(f"a container name must be specified for pod {metadata['name']}, {choice}")
    return wanted or str(mains[0]["name"])


def _restarts(pod: JSON, container: str) -> int:
    """How often it was restarted. Raises StatusError 400 for a container that has not begun."""
    status = pod.get("status") or {}
    said = [one for kind in ("container", "initContainer") for one in status.get(f"{kind}Statuses") or []]
    found = next((one for one in said if one["name"] == container), None)
    if found is None:
        text = f'container "{container}" in pod "{pod["metadata"]["name"]}" is waiting to start: ContainerCreating'
        raise bad_request(text)
    return int(found.get("restartCount") or 0)


def _cut(content: bytes, lines: int | None, limit: int | None) -> bytes:
    if lines is not None:
        content = b"".join(content.splitlines(keepends=True)[-lines:] if lines else [])
    return content[:limit]


async def _followed(state: ClusterState, pod: JSON, path: Path, lines: int | None) -> AsyncIterator[bytes]:
    """What the file has and what is added to it, until the process or the cluster ends, or the process starts again."""
    with path.open("rb") as file:
        yield _cut(file.read(), lines, None)
        over = False
        while not over:
            # Before the last look, so that what was written until the end is read.
            over = _has_ended(state, pod["metadata"]) or not _is_at(path, file.fileno())
            if added := file.read():
                yield added
            elif not over:
                await asyncio.sleep(_POLL)


def _has_ended(state: ClusterState, metadata: JSON) -> bool:
    if state.storage.closed:
        return True
    now = state.storage.get(("", "pods"), metadata["namespace"], metadata["name"])
    if now is None or now["metadata"]["uid"] != metadata["uid"]:
        return True
    return (now.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file: at its next start, the process has another one."""
    with contextlib.suppress(OSError):
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    return False
