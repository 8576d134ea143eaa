"""`berth crds`: prints the CustomResourceDefinitions that a cluster needs, to be applied."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from app import definitions
from app.cli.options import alone, epilog

_EPILOG = epilog(
    "berth crds infra | kubectl apply --server-side -f -",
    "berth crds tenant | kubectl apply --server-side -f -",
    "berth crds appwrappers | kubectl apply --server-side -f -",
    "berth crds rmd | kubectl apply --server-side -f -",
    text="""infra: what the gateway and the controller need; tenant: what the agent needs; appwrappers:
what a cluster with AppWrappers needs; rmd: what one with daemons of RMD needs. The definition of
NetworkAttachmentDefinitions comes with Multus and is not printed.""",
)


crds_app = alone()


@crds_app.command(epilog=_EPILOG)
def crds(
    cluster: Annotated[
        Literal["infra", "tenant", "appwrappers", "rmd", "all"],
        typer.Argument(help="What the cluster is: infra, tenant, appwrappers, rmd, or all of these"),
    ] = "all",
) -> None:
    """Print the CustomResourceDefinitions of Berth's kinds as YAML."""
    kinds = definitions.ALL if cluster == "all" else definitions.GROUPS[cluster]
    print("\n---\n".join(text.strip() for text in definitions.read_texts(kinds)))
