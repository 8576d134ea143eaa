"""Child processes and the ports they listen on."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from pathlib import Path

import pytest

from tests.patience import PATIENCE


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
        self._reader.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return status
