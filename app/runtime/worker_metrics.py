"""Exposes metrics of the parent over its workers' processes: memory, CPU time, open files, number of replacements.

The client library collects such figures for one process only.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterable
from multiprocessing.context import SpawnProcess

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_CPU = "process_cpu_seconds"
_COMBINE: dict[str, Callable[[list[float]], float]] = {
    "process_virtual_memory_bytes": sum,
    "process_resident_memory_bytes": sum,
    "process_start_time_seconds": lambda values: values[0],
    _CPU: sum,
    # A limit is each process's own: the worst of them is what counts.
    "process_open_fds": max,
    "process_max_fds": min,
}
"""The parent's value comes first."""


class WorkerTotals(Collector):
    """Collects over the parent and the processes that `alive` lists; `restarts` are the replaced workers so far."""

    def __init__(self, alive: Callable[[], Iterable[SpawnProcess]], restarts: Callable[[], int]) -> None:
        self._alive, self._restarts = alive, restarts

    def collect(self) -> Iterable[Metric]:
        yield CounterMetricFamily(
            "worker_restarts",
            "Worker processes that ended and were replaced (--workers)",
            value=float(self._restarts()),
        )
        pids = [os.getpid(), *(process.pid for process in self._alive() if process.pid is not None)]
        families: dict[str, list[Metric]] = {}
        for pid in pids:
            for family in _figures(pid):
                families.setdefault(family.name, []).append(family)
        for name, found in families.items():
            if (combine := _COMBINE.get(name)) is None:
                continue
            value = combine([family.samples[0].value for family in found])
            if name == _CPU:  # a total must not shrink when a worker is gone
                gone = resource.getrusage(resource.RUSAGE_CHILDREN)
                value += gone.ru_utime + gone.ru_stime
            total = Metric(name, found[0].documentation, found[0].type)
            total.add_sample(found[0].samples[0].name, {}, value)
            yield total


def _figures(pid: int) -> list[Metric]:
    """None of a process that ended meanwhile."""
    with contextlib.suppress(OSError):
        return list(ProcessCollector(pid=lambda: pid, registry=None).collect())
    return []
