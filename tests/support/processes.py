"""Child processes: any program, and `berth` with its log and its health port."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.forking import BerthProcess, clean_environment
from tests.support.waiting import PATIENCE, eventually


class Background:
    """A child process whose output is read while it runs; stopped with SIGTERM."""

    def __init__(self, arguments: list[str], *, directory: Path | None = None) -> None:
        self.lines: list[str] = []
        self._fresh: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            self._fresh.put(line)
        self._fresh.put(None)

    def wait_for(self, text: str, *, seconds: float = PATIENCE) -> None:
        end = time.monotonic() + seconds
        while True:
            try:
                line = self._fresh.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                pytest.fail(f"{text!r} was not printed; output:\n{''.join(self.lines)[-4000:]}")
            if text in line:
                return

    def stop(self, *, seconds: float = PATIENCE) -> int:
        self.process.terminate()
        status = self.process.wait(seconds)
        self._reader.join(60)  # what it has started may hold its output open
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status


class Berth:
    """A `berth` process whose log is kept, as lines and, where they are JSON, as `events`."""

    def __init__(self, *arguments: str, module: str = "app") -> None:
        """With `clean_environment`; `module` is run in place of `berth`."""
        self.process: subprocess.Popen[bytes] = BerthProcess(
            *arguments, module=module, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=clean_environment()
        )
        self.lines: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        reader = asyncio.StreamReader(limit=1 << 24)
        stream = self.process.stderr
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), stream
        )
        async for line in reader:
            self.lines.append(line.decode())
            with contextlib.suppress(ValueError):
                self.events.append(json.loads(line))
        transport.close()

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def event(self, message: str) -> dict[str, Any] | None:
        return next((event for event in self.events if event["msg"] == message), None)

    def said(self, message: str, **fields: Any) -> int:
        """How often it logged the message with these fields."""
        return sum(event["msg"] == message and fields.items() <= event.items() for event in self.events)

    async def get(self, path: str, *, seconds: float = PATIENCE) -> tuple[int, str]:
        """Status and text of the health server's answer, once there is one; status 0 where it gives none."""
        await eventually(lambda: self.returncode is not None or self.event("listening"))
        event = self.event("listening")
        assert event is not None, self.lines[-20:]
        return await asyncio.to_thread(_get, event["health"] + path, seconds)

    async def ready(self) -> bool:
        """What /readyz says."""
        assert self.returncode is None, self.lines[-20:]
        return self.event("listening") is not None and (await self.get("/readyz", seconds=10))[0] == 200

    async def until_ready(self) -> None:
        await eventually(self.ready)

    async def series(self) -> set[tuple[str, tuple[tuple[str, str], ...]]]:
        """Names and labels of all that is counted, but what every Python process counts."""
        status, text = await self.get("/metrics")
        while status != 200:  # the health server is about to start
            await asyncio.sleep(0.02)
            status, text = await self.get("/metrics")
        families = text_string_to_metric_families(text)
        return {
            (sample.name, tuple(sorted(sample.labels.items())))
            for family in families
            for sample in family.samples
            if not sample.name.startswith(("python_", "process_"))
        }

    async def values(self) -> dict[tuple[str, str], float]:
        """Gauges by name and kind ("" where they have none)."""
        _, text = await self.get("/metrics")
        families = [family for family in text_string_to_metric_families(text) if family.type == "gauge"]
        return {
            (sample.name, sample.labels.get("kind", "")): sample.value
            for family in families
            for sample in family.samples
        }

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    async def end(self, number: int = signal.SIGTERM) -> int:
        """Its exit status."""
        with contextlib.suppress(ProcessLookupError):
            self.send(number)
        return await self.ended()

    async def ended(self) -> int:
        """Its exit status, when it has ended by itself."""
        await eventually(lambda: self.returncode is not None)
        await self._reading
        return self.process.returncode

    async def kill(self) -> None:
        await self.end(signal.SIGKILL)


class Role:
    """A role of Berth with its flags, which may be ended at any step and started again."""

    def __init__(self, role: str, *flags: str) -> None:
        self._command = (role, *flags, "--bind-address=127.0.0.1", "--health-check-port=0")
        self._berth: Berth | None = None

    @property
    def pid(self) -> int:
        assert self._berth is not None
        return self._berth.process.pid

    async def start(self) -> None:
        """Returns when it is ready."""
        self._berth = Berth(*self._command)
        await self._berth.until_ready()

    async def get(self, path: str) -> tuple[int, str]:
        """Status and text of the health server's answer."""
        assert self._berth is not None
        return await self._berth.get(path)

    async def kill(self) -> None:
        """It has no time to end anything."""
        assert self._berth is not None
        await self._berth.kill()

    async def stop(self) -> None:
        assert self._berth is not None
        assert await self._berth.end() == 0, self._berth.lines[-20:]


def _get(url: str, seconds: float) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=seconds) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""
