"""The contract of import-linter between wings finds what it is for."""

from __future__ import annotations

import grimp
import pytest

from tests.support.wings_contract import WingsContract


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("app", include_external_packages=True)


@pytest.mark.parametrize(
    ("importer", "imported", "kept"),
    [
        ("app.networks.plan", "app.workloads.model", True),
        ("app.networks.plan", "app.placement.plan", True),
        ("app.networks.plan", "app.admission.parts", True),
        ("app.networks.plan", "app.networks.attachments", True),
        ("app.networks.plan", "app.workloads.webhook", False),
        ("app.workloads.model", "app.certs.metrics", False),
    ],
)
def test_a_wing_may_import_of_another_what_makes_no_requests(
    graph: grimp.ImportGraph, importer: str, imported: str, *, kept: bool
) -> None:
    options = {"clients": ["aiohttp", "grpc", "kubernetes", "prometheus_client"]}
    contract = WingsContract("wings", {"root_packages": ["app"]}, options)
    assert contract.check(graph, verbose=False).kept
    assert {importer, imported} <= graph.modules
    there = imported in graph.find_modules_directly_imported_by(importer)
    graph.add_import(importer=importer, imported=imported)
    try:
        found = contract.check(graph, verbose=False)
    finally:
        if not there:
            graph.remove_import(importer=importer, imported=imported)
    assert found.kept is kept
    assert kept is not any(chain[:2] == (importer, imported) for chain in found.metadata["chains"])
