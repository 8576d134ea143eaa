"""Clusters with claims."""

from __future__ import annotations

from tests.support.control_plane import control_plane  # noqa: F401  # a fixture
