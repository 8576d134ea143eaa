"""One Pod of Berth's image as a process: its arguments and environment, its health, its end.

The process is this installation of Berth, whatever tag the image has: nothing but `berth` can be started, and only
with what `arguments` lets through. It speaks to the API server as the Pod's ServiceAccount.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import aiohttp

from app.devtools.clusters.node.arguments import IMAGE_COMMAND, confined, is_allowed_variable, refusal
from app.devtools.forking import Forked, ForkServer
from app.devtools.sandbox.processes import PodLog
from app.wire import JSON

_LOOK_SECONDS = 0.05
_PROBE_SECONDS = 2.0
_REFUSED = 126
"""The exit code of what is not started, as shells have it for what they may not run."""
_SLEEP = re.compile(r"(\d+(?:\.\d+)?)s?")
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")


class Container:
    """The process of one Pod, listening on `address`; a file gets what it prints, another one at each start."""

    def __init__(
        self,
        pod: JSON,
        *,
        server: ForkServer,
        address: str,
        kubeconfig: Path,
        places: Mapping[str, Path],
        log: PodLog,
    ) -> None:
        self._server = server
        self._pod = pod
        self._spec: JSON = pod["spec"]["containers"][0]
        self._address = address
        self._kubeconfig = kubeconfig
        self._places = places
        self._log = log
        self._process: Forked | None = None
        self._refused = False

    @property
    def pid(self) -> int | None:
        """None before it has started."""
        return self._process.pid if self._process is not None else None

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative where a signal ended it."""
        if self._refused:
            return _REFUSED
        return self._process.poll() if self._process is not None else None

    async def start(self) -> None:
        given = self._spec.get("args") or IMAGE_COMMAND
        arguments = [self._translated(one) for one in confined(given, address=self._address)]
        reason = refusal(given)
        self._refused = bool(reason)
        if self._log.current.exists():
            self._log.current.replace(self._log.previous)
        with self._log.current.open("ab") as log:
            log.write(f"$ berth {shlex.join(arguments)}\n".encode())
            if reason:
                log.write(f"not started: {reason}\n".encode())
        if not reason:
            self._process = await asyncio.to_thread(self._forked, arguments)

    def _forked(self, arguments: Sequence[str]) -> Forked:
        with self._log.current.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            streams = [nothing.fileno(), log.fileno(), log.fileno()]
            return self._server.start(arguments, environment=self.environment(), streams=streams)

    async def ready(self) -> bool:
        """What its readiness probe says; true for a container without one."""
        probe: JSON | None = (self._spec.get("readinessProbe") or {}).get("httpGet")
        if probe is None:
            return self.exit_code is None
        ports = {one.get("name"): one["containerPort"] for one in self._spec.get("ports") or []}
        port = str(ports.get(probe["port"], probe["port"]))
        if not port.isdecimal():
            return False
        # With a slash of ours, and no redirects: the path cannot name another host.
        url = f"http://{self._address}:{port}/{str(probe.get('path') or '').lstrip('/')}"
        timeout = aiohttp.ClientTimeout(total=_PROBE_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.get(url, allow_redirects=False) as answer,
            ):
                return answer.status == 200
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return False

    async def stop(self, *, grace: float) -> None:
        """The preStop hook (a sleep), SIGTERM, and SIGKILL after the rest of `grace` seconds."""
        if self.exit_code is not None or self._process is None:
            return
        pause = min(_sleep_before_stop(self._spec), grace)
        if await self._ended(pause):
            return
        self._signal(signal.SIGTERM)
        if not await self._ended(max(grace - pause, 1.0)):
            self.kill()
            await self._ended()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, number)

    async def _ended(self, seconds: float | None = None) -> bool:
        """Whether the process has ended within so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.exit_code is None:  # noqa: ASYNC110 - it may be seen by others too
                    await asyncio.sleep(_LOOK_SECONDS)
        return self.exit_code is not None

    def _translated(self, argument: str) -> str:
        """With the directories of this machine for the container's: of a flag's value, and of each item of a list."""
        if not self._places:
            return argument
        paths = "|".join(map(re.escape, self._places))
        return re.sub(rf"(^|[=,])({paths})(?=$|[/,])", lambda found: f"{found[1]}{self._places[found[2]]}", argument)

    def environment(self) -> dict[str, str]:
        """The variables that its process gets: those of the Pod that are allowed, and few of this process."""
        metadata = self._pod["metadata"]
        fields = {"metadata.name": metadata["name"], "metadata.namespace": metadata["namespace"]}
        fields |= {"status.podIP": self._address, "spec.nodeName": self._pod["spec"].get("nodeName", "")}
        found = {name: os.environ[name] for name in _KEPT if name in os.environ}
        for entry in (one for one in self._spec.get("env") or [] if is_allowed_variable(one["name"])):
            field = ((entry.get("valueFrom") or {}).get("fieldRef") or {}).get("fieldPath", "")
            found[entry["name"]] = str(entry.get("value", "")) if not field else str(fields.get(field, ""))
        return found | {
            "HOSTNAME": metadata["name"],
            "KUBECONFIG": str(self._kubeconfig),
            "BERTH_BIND_ADDRESS": self._address,
        }


def _sleep_before_stop(container: JSON) -> float:
    """Seconds of a preStop hook that sleeps; other hooks are not run."""
    hook: JSON = (container.get("lifecycle") or {}).get("preStop") or {}
    if "sleep" in hook:
        return float(hook["sleep"].get("seconds") or 0)
    command = (hook.get("exec") or {}).get("command") or []
    slept = _SLEEP.fullmatch(command[1]) if len(command) == 2 and command[0] in ("sleep", "/bin/sleep") else None
    return float(slept[1]) if slept else 0.0
