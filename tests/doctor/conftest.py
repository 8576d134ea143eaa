"""A cluster to examine, and one with Berth in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.doctor.installation import Place, a_place
from tests.doctor.patient import Patient, a_patient


@pytest_asyncio.fixture
async def patient(tmp_path: Path) -> AsyncIterator[Patient]:
    async with a_patient(tmp_path) as patient:
        yield patient


@pytest_asyncio.fixture
async def place(patient: Patient, tmp_path: Path) -> AsyncIterator[Place]:
    async with a_place(patient, tmp_path) as place:
        yield place
