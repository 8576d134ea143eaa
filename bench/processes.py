"""What the kernel says of processes (CPU time, resident memory, children), and which cores they may use.

Reads /proc; where there is none, figures are 0 and nothing is pinned.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_PROC = Path("/proc")
_HELPER = "resource_tracker"
"""Python's own process beside those of `multiprocessing`."""


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time of these processes so far; its step is one clock tick (10 ms)."""
    ticks = 0
    for pid in pids:
        stat = _read(pid, "stat")
        if stat:
            # The name in parentheses may hold spaces; utime and stime are the 14th and 15th fields.
            values = stat.rpartition(")")[2].split()
            ticks += int(values[11]) + int(values[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def machine_seconds() -> tuple[float, float]:
    """CPU time of all cores of the machine so far: what was used, by whatever program, and all that there was."""
    try:
        values = [int(word) for word in (_PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    except OSError:
        return 0.0, 0.0
    # user, nice, system, idle, iowait, irq, softirq, steal
    ticks = os.sysconf("SC_CLK_TCK")
    return (sum(values) - values[3] - values[4]) / ticks, sum(values) / ticks


def resident_mib(pid: int) -> float:
    """Resident set of one process in MiB."""
    return _kib(pid, "status", "VmRSS:") / 1024


def peak_mib(pid: int) -> float:
    """The largest resident set in MiB that one process had so far."""
    return _kib(pid, "status", "VmHWM:") / 1024


def proportional_mib(pid: int) -> float:
    """In MiB: of a page that N processes have mapped, an N-th."""
    return _kib(pid, "smaps_rollup", "Pss:") / 1024


def private_mib(pid: int) -> float:
    """The memory in MiB that this process shares with no other."""
    return (_kib(pid, "smaps_rollup", "Private_Clean:") + _kib(pid, "smaps_rollup", "Private_Dirty:")) / 1024


def serving_pids(pid: int) -> list[int]:
    """The worker processes under `pid`, which have no children of their own, or `pid` itself where it has none."""
    children = [int(word) for word in _read(pid, f"task/{pid}/children").split()]
    workers = [worker for child in children if _HELPER not in _read(child, "cmdline") for worker in serving_pids(child)]
    return workers or [pid]


def cores() -> tuple[set[int], set[int]]:
    """The cores for servers and for the generator, disjoint; both empty (pin nothing) on a single core."""
    if not hasattr(os, "sched_getaffinity"):
        return set(), set()
    available = sorted(os.sched_getaffinity(0))
    return ({available[0]}, {available[-1]}) if len(available) > 1 else (set(), set())


def pin(pid: int, allowed: set[int]) -> None:
    """Bind a process (its threads to come included) to cores; an empty set binds nothing."""
    if allowed:
        os.sched_setaffinity(pid, allowed)


def _kib(pid: int, name: str, field: str) -> int:
    for line in _read(pid, name).splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    return 0


def _read(pid: int, name: str) -> str:
    try:
        return (_PROC / str(pid) / name).read_text(errors="replace")
    except OSError:
        return ""
