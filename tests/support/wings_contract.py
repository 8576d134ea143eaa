"""A contract of import-linter: what a wing may import of another wing, and that it imports nothing above.

The wings are those of the registry, so a new one is held to it without being named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output
from importlinter.application import contract_utils

from app.registry import WINGS


class WingsContract(Contract):
    """Of another wing, a wing imports the model and pure modules: those that import none of `clients`, directly or not.

    And none of the packages `above`.
    """

    type_name = "wings"

    clients: Any = fields.SetField(subfield=fields.StringField())
    above: Any = fields.SetField(subfield=fields.StringField())
    ignore_imports: Any = fields.SetField(subfield=fields.ImportExpressionField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001  as import-linter calls it
        """Kept without a chain from what a wing imports of another to a client, and without an import of what is above."""
        contract_utils.remove_ignored_imports_and_report(
            graph=graph, ignore_imports=self.ignore_imports, unmatched_alerting=contract_utils.AlertLevel.ERROR
        )
        chains = [
            (importer, *chain)
            for importer, imported, wing in _out_of_wings(graph)
            if wing
            for client in sorted(self.clients)
            if (chain := graph.find_shortest_chain(importer=imported, imported=client))
        ]
        chains += [
            (importer, imported)
            for importer, imported, _ in _out_of_wings(graph)
            if any(f"{imported}.".startswith(f"{package}.") for package in self.above)
        ]
        return ContractCheck(kept=not chains, metadata={"chains": chains})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each chain, from the wing that imports to the client, or to what is above."""
        for chain in check.metadata["chains"]:
            output.print_error(f"- {' -> '.join(chain)}")


def _out_of_wings(graph: ImportGraph) -> Iterator[tuple[str, str, str]]:
    """Importer and imported of each import that leaves a wing, and the other wing, "" where it is none."""
    wing_of = {
        module: wing.name
        for wing in WINGS
        for module in (f"app.{wing.name}", *graph.find_descendants(f"app.{wing.name}"))
    }
    for importer, wing in sorted(wing_of.items()):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            if wing_of.get(imported) != wing:
                yield importer, imported, wing_of.get(imported, "")
