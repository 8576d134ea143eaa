"""`berth crds`: prints the CustomResourceDefinitions that a cluster needs, to be applied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.options import alone, epilog
from app.definitions import ALL, GROUPS, read_texts

if TYPE_CHECKING:
    Choice = str
else:
    Choice = Literal[(*GROUPS, "all")]

_EPILOG = epilog(
    *(f"berth crds {cluster} | kubectl apply --server-side -f -" for cluster in GROUPS),
    text="""infra: what the gateway and the controller need; tenant: what the agent needs; appwrappers:
what a cluster with AppWrappers needs; rmd: what one with daemons of RMD needs. The definition of
NetworkAttachmentDefinitions comes with Multus and is not printed.""",
)


crds_app = alone()


@crds_app.command(epilog=_EPILOG)
def crds(
    cluster: Annotated[
        Choice, typer.Argument(help=f"What the cluster is: {', '.join(GROUPS)}, or all of these")
    ] = "all",
) -> None:
    """Print the CustomResourceDefinitions of Berth's kinds as YAML."""
    kinds = ALL if cluster == "all" else GROUPS[cluster]
    print("\n---\n".join(text.strip() for text in read_texts(kinds)))
