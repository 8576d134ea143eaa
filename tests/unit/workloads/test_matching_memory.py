"""A cached workload's size, by the benchmark that prints it. Bytes, not seconds."""

from __future__ import annotations

from bench.matching import MEMORY_GOAL, measure


def test_a_workload_of_usual_size_stays_under_its_limit() -> None:
    found = measure(workloads=400, calls=10, crowd=10)
    assert 500 < found.memory < MEMORY_GOAL
