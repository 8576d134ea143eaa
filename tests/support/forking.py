"""`berth`, or another module, as a process that is forked from one which has imported the program already.

Half of what a test of a process cost was to import the same modules again. The forked process has the arguments, the
environment, the folder and the streams of one that was started, and it is a child of the tests: they wait for it and
send it signals. Tests of the start itself, and all of `tests/e2e`, start the program as its users do.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import gc
import importlib
import inspect
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypedDict

from tests.support.paths import ROOT

_PR_SET_CHILD_SUBREAPER = 36
_LIMIT = 1 << 20
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class _Request(TypedDict):
    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str
    session: bool


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
        request = _Request(
            module=module,
            arguments=rest,
            environment=dict(os.environ if given["env"] is None else given["env"]),
            folder=str(given["cwd"]),
            session=given["start_new_session"],
        )
        streams = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        server = _server()
        socket.send_fds(
            server, [json.dumps(request).encode()], [number if fd == -1 else fd for number, fd in enumerate(streams)]
        )
        self.pid = int(server.recv(_LIMIT))
        self._child_created = True
        self._close_pipe_fds(*(given[name] for name in _PIPES))


@functools.cache
def _server() -> socket.socket:
    """The connection to the process that forks; there is one for each process of tests."""
    # An orphan becomes a child of ours, and so we can wait for it.
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forking", str(theirs.fileno())],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=ROOT,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(connection: socket.socket) -> str:
    """Forks at each request; in a process that was forked the module that it is to run, "" when the tests end."""
    while True:
        message, streams, _, _ = socket.recv_fds(connection, _LIMIT, 3)
        if not message:
            return ""
        request: _Request = json.loads(message)
        importlib.import_module(request["module"])  # the next one has it
        result, answer = os.pipe()
        between = os.fork()
        if not between:
            forked = os.fork()
            if forked:
                os.write(answer, str(forked).encode())
                os._exit(0)
            for number in (result, answer):
                os.close(number)
            connection.close()
            _become(request, streams)
            return request["module"]
        os.waitpid(between, 0)  # from now on the process is a child of the tests
        connection.send(os.read(result, _LIMIT))
        for number in (result, answer, *streams):
            os.close(number)


def _become(request: _Request, streams: list[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if request["session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["berth", *request["arguments"]]


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt of the tests is theirs
    from app import __main__ as program  # noqa: PLC0415
    from app.cli import main  # noqa: F401, PLC0415
    from app.wiring import resolve  # noqa: PLC0415

    for reference in _references():
        resolve(reference)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        module = _serve(connection)
    if module:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.modules["__main__"] = program  # what worker processes import first
        _end(program.main if module == "app" else functools.partial(_run, module))


def _run(module: str) -> None:
    del sys.modules[module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _references() -> list[str]:
    """What the roles load when they start."""
    from app.registry import ROLES, WINGS  # noqa: PLC0415

    roles = [reference for role in ROLES for reference in (role.settings, role.build, "app.runtime.process:run_role")]
    wings = [reference for wing in WINGS for reference in (wing.parts, wing.permissions, *wing.settings.values())]
    controllers = [one.build for wing in WINGS for one in wing.controllers]
    return [one for one in ("app.kube.transport:Session", *roles, *wings, *controllers) if one]


def _end(main: Callable[[], object]) -> None:
    """As the interpreter ends, but for its memory, which it shares with the process that it was forked from."""
    status: int | str | None = 0
    try:
        main()
    except SystemExit as end:
        status = end.code  # type: ignore[assignment]
    except BaseException:  # noqa: BLE001 - as the interpreter
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0)


if __name__ == "__main__":
    _main()
