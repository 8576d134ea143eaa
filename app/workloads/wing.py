"""The descriptor of the wing."""

from __future__ import annotations

from app.wiring import Wing

WING = Wing("workloads", permissions="app.workloads.permissions:PERMISSIONS")
