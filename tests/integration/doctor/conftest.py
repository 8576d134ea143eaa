"""A cluster to examine, and one with Berth in it: made once for a module, and as it was made for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
import pytest_asyncio

from tests.integration.doctor.baseline import Baseline
from tests.integration.doctor.installation import Place, a_place
from tests.integration.doctor.patient import Patient, a_patient
from tests.integration.doctor.rmd_patient import with_rmd
from tests.support.rmd_cluster import RmdCluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ward(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Patient]:
    async with a_patient(tmp_path_factory.mktemp("ward")) as patient:
        yield patient


@pytest.fixture(scope="module")
def untouched(ward: Patient) -> Baseline:
    return Baseline(ward.cluster)


@pytest.fixture
def patient(ward: Patient, untouched: Baseline) -> Iterator[Patient]:
    yield ward
    ward.later = timedelta()
    untouched.restore()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def installed(
    ward: Patient, untouched: Baseline, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Place, Baseline]]:
    """What was there before it is noted down first."""
    async with a_place(ward, tmp_path_factory.mktemp("place")) as place:
        at_work = Baseline(ward.cluster)
        untouched.restore()
        yield place, at_work


@pytest.fixture
def place(patient: Patient, installed: tuple[Place, Baseline]) -> Place:
    place, at_work = installed
    at_work.restore()
    return place


@pytest_asyncio.fixture(loop_scope="module")
async def rmd(patient: Patient) -> RmdCluster:
    return await with_rmd(patient)
