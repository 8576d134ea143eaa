"""Certificates are issued at the present."""

from __future__ import annotations

from tests.support.clock import now  # noqa: F401  # a fixture
