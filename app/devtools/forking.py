"""Processes of Berth that are forked from one which has imported it already.

To import the program is most of what a start costs. A forked process has the arguments, the environment, the folder
and the streams that it is given; it is a child of the server, which says when it ends. Where the process that holds
the `ForkServer` ends, the server and all that it forked end too, on Linux also after SIGKILL.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import json
import os
import runpy
import select
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict

_NUMBER = struct.Struct("!I")
"""The length of a request, with which its descriptors go; a process id, and a status of wait(2)."""
_WAKES = 64
_PR_SET_PDEATHSIG = 1
"""Of Linux' prctl(2)."""
_PROGRAM = "app"
_STREAMS = 3


class _Request(TypedDict):
    module: str
    arguments: list[str]
    environment: dict[str, str]
    folder: str | None
    session: bool


class _Running(NamedTuple):
    """The process of a server, and the connection by which it is asked."""

    process: subprocess.Popen[bytes]
    connection: socket.socket


class Forked:
    """A process that the server forked; `pid` is its id. Close it, or let it go, when its end does not matter."""

    def __init__(self, pid: int, exit_pipe: int) -> None:
        self.pid = pid
        self._pipe: int | None = exit_pipe
        self._status: int | None = None

    def poll(self) -> int | None:
        """As `subprocess.Popen.poll`: None while it runs, negative where a signal ended it."""
        status = self.wait_status(block=False)
        return None if status is None else os.waitstatus_to_exitcode(status)

    def wait_status(self, *, block: bool) -> int | None:
        """What wait(2) would say of it; None while it runs, where that is not waited for."""
        if self._pipe is not None and (block or select.select([self._pipe], [], [], 0)[0]):
            status = os.read(self._pipe, _NUMBER.size)
            self.close()
            # A server that was killed says nothing, and what it forked ends with it.
            self._status = _NUMBER.unpack(status)[0] if status else signal.SIGKILL
        return self._status

    def close(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    __del__ = close


class ForkServer:
    """Forks processes at request. Its own process is started on first use, and again where it was ended.

    Modules are imported from `folder` first where that is given, else from this installation alone. Usable from many
    threads at once.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        streams: Sequence[int],
        folder: str | None = None,
        module: str = _PROGRAM,
        session: bool = False,
    ) -> Forked:
        """Start `berth` with these arguments, or another module as `python -m` does; `streams` are its 0, 1 and 2.

        Without a `folder` it works in the one that this process was in at the first start. This call waits until the
        process is there. Raises OSError where there is no server and none can be started.
        """
        request = _Request(
            module=module,
            arguments=list(arguments),
            environment=dict(environment),
            folder=folder,
            session=session,
        )
        message = json.dumps(request).encode()
        server = self._server()
        try:
            return self._forked(server, message, streams)
        except ConnectionError:  # it was ended, and what it forked with it
            self._end(server)
            return self._forked(self._server(), message, streams)

    @property
    def pid(self) -> int | None:
        """None before the first start, and after the end."""
        return self._running.process.pid if self._running is not None else None

    def close(self) -> None:
        """End the server, and with it what it forked."""
        if self._running is not None:
            self._end(self._running)

    def _server(self) -> _Running:
        with self._lock:
            if self._running is None:
                self._running = self._started()
            return self._running

    def _end(self, server: _Running) -> None:
        with self._lock:
            if self._running is server:
                self._running = None
            server.connection.close()
        server.process.wait()

    def _started(self) -> _Running:
        ours, theirs = socket.socketpair()
        # -P: what lies in the directory of this process is not for import.
        flags = ["-P"] if self._folder is None else []
        with theirs:
            process = subprocess.Popen(  # noqa: S603  this interpreter, without a shell
                [sys.executable, *flags, "-m", __name__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                cwd=self._folder,
                env=os.environ | {"GRPC_VERBOSITY": "NONE"},  # read when it is imported; see `app.__main__`
            )
        return _Running(process, ours)

    def _forked(self, server: _Running, message: bytes, streams: Sequence[int]) -> Forked:
        answer, exit_pipe = os.pipe()
        try:
            with self._lock:
                if self._running is not server:
                    raise ConnectionResetError("the fork server was closed")
                socket.send_fds(server.connection, [_NUMBER.pack(len(message))], [*streams, exit_pipe])
                server.connection.sendall(message)
        except OSError:
            os.close(answer)
            raise
        finally:
            os.close(exit_pipe)
        number = os.read(answer, _NUMBER.size)
        if not number:
            os.close(answer)
            raise ConnectionResetError("the fork server ended")
        (pid,) = _NUMBER.unpack(number)
        return Forked(pid, answer)


class _Server:
    """The process that forks: it serves one connection until that ends."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._exit_pipes: dict[int, int] = {}
        self._woken, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()

    def serve(self) -> _Request | None:
        """In a process that was forked what it has to run; None when the connection has ended."""
        for end in (self._woken, self._waker):
            end.setblocking(False)
        signal.set_wakeup_fd(self._waker.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for readable in (self._connection, self._woken):
            self._selector.register(readable, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    self._woken.recv(_WAKES)
                    self._reap()
                    continue
                received = self._received()
                if received is None or self._fork(*received):
                    return received and received[0]

    def _received(self) -> tuple[_Request, list[int]] | None:
        """A request with its descriptors; None when there is no more."""
        head, descriptors, _, _ = socket.recv_fds(self._connection, _NUMBER.size, _STREAMS + 1)
        if not head:
            return None
        (length,), message = _NUMBER.unpack(head), b""
        while len(message) < length:
            part = self._connection.recv(length - len(message))
            if not part:
                return None
            message += part
        return json.loads(message), descriptors

    def _fork(self, request: _Request, descriptors: list[int]) -> bool:
        """Whether this is the forked process."""
        *streams, exit_pipe = descriptors
        importlib.import_module(request["module"])  # the next one has it
        server = os.getpid()
        pid = os.fork()
        if pid:
            self._exit_pipes[pid] = exit_pipe
            os.write(exit_pipe, _NUMBER.pack(pid))
            for stream in streams:
                os.close(stream)
            return False
        _follow(server)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for held in (self._selector, self._connection, self._woken, self._waker):
            held.close()
        for pipe in (exit_pipe, *self._exit_pipes.values()):
            os.close(pipe)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        if request["session"]:
            os.setsid()
        return True

    def _reap(self) -> None:
        while self._exit_pipes:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            pipe = self._exit_pipes.pop(pid)
            with contextlib.suppress(BrokenPipeError):  # its end does not matter to who asked for it
                os.write(pipe, _NUMBER.pack(status))
            os.close(pipe)


def _follow(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exit where that has happened already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _references() -> list[str]:
    """What the roles load when they start."""
    from app.registry import ROLES, WINGS  # noqa: PLC0415

    roles = [reference for role in ROLES for reference in (role.settings, role.build, "app.runtime.process:run_role")]
    wings = [reference for wing in WINGS for reference in (wing.parts, wing.permissions, *wing.settings.values())]
    controllers = [controller.build for wing in WINGS for controller in wing.controllers]
    return [
        reference
        for reference in ("app.cli.main:run", "app.kube.transport:Session", *roles, *wings, *controllers)
        if reference
    ]


def _become(request: _Request) -> Callable[[], object]:
    """Take on what the process was asked for, and say what it has to call."""
    if request["folder"] is not None:
        os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = ["berth", *request["arguments"]]
    module = request["module"]
    # As `python -m` does it, so that the workers of a webhook begin as they would there.
    sys.modules.pop("app.__main__" if module == _PROGRAM else module, None)
    return functools.partial(runpy.run_module, module, run_name="__main__", alter_sys=True)


def _end(main: Callable[[], object]) -> None:
    """As the interpreter ends, but for its memory, which it shares with the process that it was forked from."""
    status: object = 0
    try:
        main()
    except SystemExit as end:
        status = end.code
        if not isinstance(status, int | None):
            sys.stderr.write(f"{status}\n")
            status = 1
    except BaseException:  # noqa: BLE001 - as the interpreter
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what the interpreter calls
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else 0)


def _main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the processes, and for who holds the server
    from app.wiring import resolve  # noqa: PLC0415

    for reference in _references():
        resolve(reference)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        request = _Server(connection).serve()
    if request is not None:
        _end(_become(request))


if __name__ == "__main__":
    _main()
