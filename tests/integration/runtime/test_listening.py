"""Ports that the kernel does not give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENCE

FIRST = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
LISTENING = """
import os
from app.errors import UsageError
from app.serving.listener import listen
if os.geteuid() == 0:
    os.setuid(65534)  # takes the capabilities as well
try:
    listen("--port", "127.0.0.1", 443)
except UsageError as error:
    print(error)
"""


@pytest.mark.skipif(
    not FIRST.exists() or int(FIRST.read_text()) <= 443, reason="the kernel gives port 443 to everyone here"
)
def test_a_port_that_the_kernel_refuses_is_named_with_its_flag() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LISTENING], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert done.stdout == "--port 443: cannot listen on 127.0.0.1: Permission denied\n"
