"""Names of the AppWrapper API."""

from __future__ import annotations

ANNOTATIONS = "workload.codeflare.dev.appwrapper/"
"""Prefix of the annotations of an AppWrapper, and of those of a podSet."""
