"""Options and rules that every test folder shares."""

from __future__ import annotations

import gc
import itertools
import logging
import os
import sysconfig
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from app import logs

# As in an activated environment: `kubectl` is the pinned one, not the machine's.
os.environ["PATH"] = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
_SLOWEST = 10
_SHARED_LOOPS = tuple(f"tests/integration/{name}/" for name in ("doctor", "kueue", "node", "operators", "why"))
"""Folders in which a cluster serves a whole module: the tests of a module live in one event loop."""
_OWN_CLUSTERS = ("tests/e2e/test_helm.py", "tests/e2e/test_install.py")
# A slow machine is no fault of what is tested.
settings.register_profile("berth", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("berth")
# What is imported and collected stays, so a collection of garbage meanwhile finds none.
gc.disable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="run the end-to-end tests against this API server (on loopback, without controllers) instead of the "
        "sandbox's; NAME is icp, tenant1 (the default) or tenant2; repeatable",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """`--dist loadfile`, with the tests that share the sandbox of `tests/e2e` as one file: it starts once."""
    return _Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


class _Scheduling(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "tests/e2e" if file.startswith("tests/e2e/") and file not in _OWN_CLUSTERS else file


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The files that took longest, with the set-up of their fixtures; a run of a few files prints no list."""
    seconds: Counter[str] = Counter()
    for report in itertools.chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > _SLOWEST:
        terminalreporter.section(f"{_SLOWEST} slowest files")
        for file, duration in seconds.most_common(_SLOWEST):
            terminalreporter.line(f"{duration:6.1f} s  {file}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith(_SHARED_LOOPS) and item.get_closest_marker("asyncio") is not None:
            item.add_marker(pytest.mark.asyncio(loop_scope="module"), append=False)


def pytest_collection_finish() -> None:
    gc.enable()
    # What has been imported stays: `_no_leftovers` need not look at it after each test.
    gc.collect()
    gc.freeze()


def _uncached(**options: Any) -> None:
    """A logger that a test has used must not keep the configuration of that test."""
    _configure(**options | {"cache_logger_on_first_use": False})


_configure, logs.structlog.configure = logs.structlog.configure, _uncached


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """What a command sets up in this process, it sets up for all tests that follow, and these read their logs."""
    before, root = logs.structlog.get_config(), logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    _uncached(**before)
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True, scope="session")
def _no_leftovers_of_the_session() -> Iterator[None]:
    """At last everything is looked at, also what was taken for lasting."""
    yield
    gc.unfreeze()
    gc.collect()


@pytest.fixture(autouse=True, scope="module")
def _no_leftovers_of_the_module() -> Iterator[None]:
    """What earlier modules have left, such as caches, lasts: `_no_leftovers` need not look at it either."""
    # Not when a module ends: the last test still holds what its fixtures made.
    gc.collect()
    gc.freeze()
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    """What a test leaves open warns while the test ends, and not in the middle of another."""
    before = _promotions()
    yield
    # The two young generations have all that the test made, unless something has moved it on meanwhile.
    gc.collect(1 if _promotions() == before else 2)


def _promotions() -> int:
    """How often objects may have come into the oldest generation."""
    return sum(generation["collections"] for generation in gc.get_stats()[1:])
