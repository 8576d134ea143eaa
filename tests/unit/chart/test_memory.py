"""What the chart requests for the roles, beside the memory that `python -m bench.memory --keep` found they take."""

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
"""What is requested has to suffice with a fifth more than was measured."""
MEASURED: dict[str, float] = json.loads(KEPT.read_text())


@pytest.mark.parametrize("role", MEASURED)
def test_requests_of_a_role_suffice_for_what_it_takes_idle(role: str) -> None:
    values = yaml.safe_load((ROOT / "charts/berth/values.yaml").read_text())
    resources = values[role]["resources"]
    requested, limit = (quantity.parse(resources[kind]["memory"]) for kind in ("requests", "limits"))
    assert int(MEASURED[role] * MIB * ROOM) <= requested < limit


@pytest.mark.parametrize("role", MEASURED)
def test_the_page_about_sizes_has_what_was_measured(role: str) -> None:
    page = (ROOT / "docs/scaling.md").read_text()
    assert re.search(rf"^\| {role}: memory, idle \| {MEASURED[role]:.0f} MiB \|$", page, re.MULTILINE)
