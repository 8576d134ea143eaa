"""`berth tenant authority`: makes and renews the certificates that tenants, the gateway and the cloud admin meet by."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.options import paragraphs
from app.cli.tenant_cluster import Context, Kubeconfig, Namespace, run_in_cluster

if TYPE_CHECKING:
    from app.kube.client import KubeClient

EPILOG = paragraphs("""Examples:

  berth tenant authority

  berth tenant authority --dns gateway.example --address 10.133.133.1 --out certificates

Makes what is missing of the Secrets berth-gateway-ca, berth-gateway-tls and berth-cloud-admin in the namespace and
renews what is due, so it may be run again at any time; berth certs keep --gateway does it all the time. The gateway
answers to api-gateway.local, its
Service's names and what --dns and --address add. With --out, gateway/ and admin/ in that directory hold the same as
files.""")


def authority(
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Directory for certificates and keys as files", show_default=False),
    ] = None,
    dns: Annotated[
        list[str] | None, typer.Option("--dns", metavar="NAME", help="One more name of the gateway; repeatable")
    ] = None,
    addresses: Annotated[
        list[str] | None,
        typer.Option("--address", metavar="IP", help="One more address of the gateway; repeatable"),
    ] = None,
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """Make or renew the certificates of the gateway and of the cloud admin."""
    # Imported late, as the client of the cluster.
    from app.tenancy.authority.ensuring import AuthorityOptions, locate_authority  # noqa: PLC0415
    from app.tenancy.tenants.certifying import certify  # noqa: PLC0415

    async def work(client: KubeClient) -> list[str]:
        options = AuthorityOptions(
            namespace=namespace or await locate_authority(client),
            dns=tuple(dns or ()),
            addresses=tuple(addresses or ()),
        )
        return await certify(client, options=options, directory=out, now=datetime.now(UTC))

    for line in run_in_cluster(work, kubeconfig, context):
        print(line)
    return 0
