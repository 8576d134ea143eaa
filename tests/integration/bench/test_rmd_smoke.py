"""The measurement of RMD works from end to end, small: requests are counted, nothing is timed here."""

from __future__ import annotations

from pathlib import Path

from bench import rmd
from bench.rmd_load import Size


async def test_a_small_run_counts_each_reservation_once(tmp_path: Path) -> None:
    size = Size(nodes=2, each=3, rounds=1)
    (found,) = await rmd.measure(tmp_path, size)
    assert found.requests["POST"] == size.reservations
    assert found.requests.keys() == {"GET", "POST"}
    assert 0 < found.held <= found.ready
    said = rmd.summary([found], size)
    assert said["requests to daemons for each reservation"] == round(sum(found.requests.values()) / 6, 3)
