"""A cluster to ask about: that of the doctor's tests."""

from __future__ import annotations

from tests.integration.doctor.conftest import installed, patient, place, rmd, untouched, ward

__all__ = ["installed", "patient", "place", "rmd", "untouched", "ward"]
