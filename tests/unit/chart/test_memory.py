"""What the chart requests for the roles and how it limits them, beside what `python -m bench.memory --keep` found."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from app.kube import quantity
from bench.memory import KEPT
from bench.servers import ROOT

MIB = 1 << 20
ROOM = 1.2
"""What is requested has to suffice with a fifth more than was measured, and so has the limit."""
MOST_ROOM = 1.5
"""A limit that is far from what a role can take protects its node from nothing."""
MEASURED: dict[str, dict[str, float]] = json.loads(KEPT.read_text())

PEAKS = {role: figures["peak"] for role, figures in MEASURED.items() if "peak" in figures}
"""Of the roles that take the same in every installation of a size."""


def of_chart(role: str) -> tuple[int, int]:
    """Bytes that are requested, and the limit."""
    values = yaml.safe_load((ROOT / "charts/berth/values.yaml").read_text())
    resources = values[role]["resources"]
    requested, limit = (quantity.parse(resources[kind]["memory"]) for kind in ("requests", "limits"))
    return int(requested), int(limit)


@pytest.mark.parametrize("role", MEASURED)
def test_requests_of_a_role_suffice_for_what_it_takes_idle(role: str) -> None:
    requested, limit = of_chart(role)
    assert int(MEASURED[role]["idle"] * MIB * ROOM) <= requested < limit


@pytest.mark.parametrize("role", PEAKS)
def test_limits_of_a_role_are_near_the_most_that_it_takes(role: str) -> None:
    _, limit = of_chart(role)
    assert ROOM <= limit / MIB / PEAKS[role] <= MOST_ROOM


@pytest.mark.parametrize("role", MEASURED)
def test_the_page_about_sizes_has_what_was_measured(role: str) -> None:
    page = (ROOT / "docs/scaling.md").read_text()
    idle = f"{MEASURED[role]['idle']:.0f} MiB"
    assert re.search(rf"^\| {role}: memory, idle \| {idle} \|$", page, re.MULTILINE)


@pytest.mark.parametrize("role", PEAKS)
def test_the_page_has_the_peak_and_the_limit(role: str) -> None:
    page = (ROOT / "docs/scaling.md").read_text()
    limit = of_chart(role)[1] // MIB
    assert re.search(rf"^\| {role} \| {PEAKS[role]:.0f} MiB \| {limit}Mi \|$", page, re.MULTILINE)
