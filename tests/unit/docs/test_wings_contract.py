"""The contract of import-linter between wings finds what it is for."""

from __future__ import annotations

import tomllib
from copy import deepcopy

import grimp
import pytest

from tests.support.paths import ROOT
from tests.support.wings_contract import WingsContract

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("app", include_external_packages=True)


@pytest.mark.parametrize(
    ("importer", "imported", "kept"),
    [
        ("app.networks.plan", "app.workloads.model", True),
        ("app.networks.plan", "app.placement.plan", True),
        ("app.networks.plan", "app.admission.parts", True),
        ("app.networks.plan", "app.networks.interfaces", True),
        ("app.networks.plan", "app.workloads.webhook", False),
        ("app.workloads.model", "app.rmd.agent.metrics", False),
        ("app.workloads.model", "app.doctor.objects", False),
        ("app.rmd.agent.agent", "app.runtime.manager", False),
        ("app.workloads.checks", "app.tenancy.agent.outages", True),
        ("app.rmd.checks.rmd", "app.doctor.objects", True),
        ("app.claims.sections", "app.status.roles", True),
    ],
)
def test_a_wing_may_import_of_another_what_makes_no_requests_and_nothing_above(
    graph: grimp.ImportGraph, importer: str, imported: str, *, kept: bool
) -> None:
    options = next(contract for contract in CONTRACTS if contract["type"] == "wings")
    contract = WingsContract("wings", {"root_packages": ["app"]}, options)
    assert contract.check(deepcopy(graph), verbose=False).kept
    assert {importer, imported} <= graph.modules
    changed = deepcopy(graph)
    changed.add_import(importer=importer, imported=imported)
    found = contract.check(changed, verbose=False)
    assert found.kept is kept
    assert kept is not any(chain[:2] == (importer, imported) for chain in found.metadata["chains"])
