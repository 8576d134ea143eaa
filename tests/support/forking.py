"""`berth`, or another module, as a process of the tests that is forked from one which has imported the program already.

The forked process has the arguments, the environment, the folder and the streams of one that was started. Tests of the
start itself, and all of `tests/e2e`, start the program as its users do.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import subprocess
import sys
from typing import Any

from app.devtools.forking import ForkServer
from tests.support.paths import ROOT

_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def clean_environment() -> dict[str, str]:
    """The environment of the tests without what it says to Berth."""
    said = ("NAMESPACE", "KUBECONFIG")
    return {name: value for name, value in os.environ.items() if not name.startswith("BERTH_") and name not in said}


class BerthProcess(subprocess.Popen[Any]):
    """`subprocess.Popen` of `berth` with these arguments; it cannot have options that only an exec gives a process.

    `module` is run in place of `berth`, as `python -m` does it.
    """

    def __init__(self, *arguments: str, module: str = "app", **options: Any) -> None:
        options.setdefault("cwd", ROOT)
        super().__init__([sys.executable, "-m", module, *arguments], **options)

    def _execute_child(self, *arguments: Any) -> None:
        """What Popen calls with the pipes that it has made."""
        given = inspect.signature(super()._execute_child).bind(*arguments).arguments
        _, _, module, *rest = given["args"]
        streams = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        self._forked = _server().start(
            rest,
            environment=os.environ if given["env"] is None else given["env"],
            streams=[number if descriptor == -1 else descriptor for number, descriptor in enumerate(streams)],
            folder=str(given["cwd"]),
            module=module,
            session=given["start_new_session"],
        )
        self.pid = self._forked.pid
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """What Popen calls in place of waitpid(2): the process is a child of the server."""
        status = self._forked.wait_status(block=not wait_flags & os.WNOHANG)
        return (0, 0) if status is None else (self.pid, status)

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and self._forked.wait_status(block=False) is not None:
            self.wait()
        return self.returncode


@functools.cache
def _server() -> ForkServer:
    """There is one for each process of tests."""
    server = ForkServer(ROOT)
    atexit.register(server.close)
    return server
