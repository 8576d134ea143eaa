"""Runs a role as a process: logs, ports, signals, exit status."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import signal
import sys
from collections.abc import Awaitable, Callable

import structlog
import uvloop

from app import logs
from app.runtime.composing import context_of
from app.runtime.manager import Manager
from app.serving.listener import address, listen
from app.settings.source import RoleSettings
from app.tracing.context import opened_spans
from app.wiring import Role, resolve

_MOST_DESCRIPTORS = 65_536
"""More than our bounds on connections ever take."""
_ECHO_SECONDS = 0.25
"""A signal so soon after the first is the same wish: process groups and wrappers deliver one twice."""

_log = structlog.get_logger(__name__)


def run_role(role: Role, settings: RoleSettings) -> int:
    """Run a role until a signal and return the exit status. Raises UsageError for a mistake of the user."""
    logs.configure(settings.level)
    _raise_descriptor_limit()
    context = context_of(role, settings)
    context.alone = True
    try:
        with contextlib.ExitStack() as stack:
            context.spans = lambda: stack.enter_context(opened_spans(role.name))
            work = resolve(role.build)(context)
            health = listen("--health-check-port", settings.bind_address, settings.health_check_port)
            manager = Manager(work, role=role.name, health=health, metrics=context.metrics)

            async def run(stop: asyncio.Event) -> None:
                # Signals are handled by now: what waits for this line may send one.
                _log.info("listening", role=role.name, health=address(health, "http"), **context.listening)
                await manager.run(stop)

            uvloop.run(until_signal(run))
    except asyncio.CancelledError:
        _log.warning("stopped before everything was drained")
        return 1
    finally:
        sys.stderr.flush()
    return 0


async def until_signal(run: Callable[[asyncio.Event], Awaitable[None]]) -> None:
    """Run until SIGTERM or SIGINT, which sets the event; a second one ends the drain at once, with CancelledError."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    stop = asyncio.Event()
    asked_at = 0.0

    def on_signal(received: signal.Signals) -> None:
        nonlocal asked_at
        if not stop.is_set():
            # A log that ends without this line is that of a process that was killed.
            _log.info("stopping", signal=received.name)
            asked_at = loop.time()
            stop.set()
        elif loop.time() - asked_at >= _ECHO_SECONDS and task is not None:
            task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    await run(stop)


def _raise_descriptor_limit() -> None:
    """Raise the soft limit of open descriptors as far as the hard one allows; each connection takes one.

    Container runtimes start processes with 1,024, a limit for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < limit:
        with contextlib.suppress(OSError, ValueError):  # some sandboxes forbid it: then there is room for fewer
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
