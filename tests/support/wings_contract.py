"""A contract of import-linter: what a wing may import of another wing.

The wings are those of the registry, so a new one is held to it without being named here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

from app.registry import WINGS


class WingsContract(Contract):
    """Of another wing, a wing imports the model and pure modules: those that import none of `clients`, directly or not."""

    type_name = "wings"

    clients: Any = fields.SetField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: FBT001  as import-linter calls it
        """Kept without a chain from what a wing imports of another to a client."""
        chains = [
            (importer, *chain)
            for importer, imported in _between_wings(graph)
            for client in sorted(self.clients)
            if (chain := graph.find_shortest_chain(importer=imported, imported=client))
        ]
        return ContractCheck(kept=not chains, metadata={"chains": chains})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each chain, from the wing that imports to the client."""
        for chain in check.metadata["chains"]:
            output.print_error(f"- {' -> '.join(chain)}")


def _between_wings(graph: ImportGraph) -> Iterator[tuple[str, str]]:
    """Importer and imported of each import from a wing of a module of another."""
    wing_of = {
        module: wing.name
        for wing in WINGS
        for module in (f"app.{wing.name}", *graph.find_descendants(f"app.{wing.name}"))
    }
    for importer, wing in sorted(wing_of.items()):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            if wing_of.get(imported, wing) != wing:
                yield importer, imported
