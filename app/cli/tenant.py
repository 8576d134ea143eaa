"""`berth tenant`: adds, shows, changes and removes the tenants of an infra cluster.

Parses, asks and prints; the work is in `app.tenancy`.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.certs.certificate_set import DAYS
from app.cli import cluster, options, tenant_commands
from app.cli.tenant_commands import (
    Name,
    NewName,
    Yes,
    check_name,
    confirmed,
    host_app,
    in_infra,
    placement,
    print_lines,
    resume,
    suspend,
)
from app.errors import UsageError
from app.explain.rendering import Plain
from app.tenancy.authority import AuthorityOptions, locate_authority
from app.tenancy.model import ADMIN_NAME, GATEWAY_NAME
from app.tenancy.tenants import bundles, changes, enrolling
from app.wiring import RELEASE_NAMESPACE
from app.workloads.model import tenant_namespace

if TYPE_CHECKING:
    from app.kube.client import KubeClient

_DURATION = re.compile(r"([0-9]{1,6})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

tenant_app = options.group(
    "tenant",
    "Add, show, suspend and remove the tenants of an infra cluster, and make its gateway's certificates.",
    epilog=options.epilog(
        "berth tenant authority --address 10.133.133.1",
        "berth tenant add tenant1 --host host-a --host host-b --out tenant1",
        "berth tenant list",
        "berth tenant show tenant1",
        "berth tenant host add tenant1 host-c",
        "berth tenant rotate tenant1 --out tenant1",
        "berth tenant suspend tenant1",
        "berth tenant remove tenant1",
    ),
)

_Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Directory of the bundle (default: tenant-NAME)", show_default=False),
]
_Days = Annotated[int, typer.Option("--days", min=1, help="Days that the certificate is valid")]
_AuthorityCert = Annotated[
    Path | None, typer.Option("--ca-cert", help="PEM file of the CA that signs", show_default=False)
]
_AuthorityKey = Annotated[Path | None, typer.Option("--ca-key", help="PEM file of its key", show_default=False)]
_Gateway = Annotated[str, typer.Option("--gateway-name", help="Name that the gateway's certificate answers to")]
_Home = Annotated[
    str,
    cluster.namespace_option(
        "--berth-namespace",
        text="Namespace of Berth, that of the gateway's Secrets (default: the one that has its CA, else universe)",
    ),
]
_AgentNamespace = Annotated[
    str,
    typer.Option(
        "--agent-namespace",
        callback=cluster.dns_label("--agent-namespace"),
        help="Namespace of the agent in the tenant's cluster, that of secret.yaml",
    ),
]


@tenant_app.command(
    epilog=options.epilog(
        "berth tenant authority",
        "berth tenant authority --dns gateway.example --address 10.133.133.1 --out certificates",
        text="""Makes what is missing of the Secrets berth-gateway-ca, berth-gateway-tls and berth-cloud-admin in the
namespace and renews what is due, so it may be run at any time; berth certificates --gateway keeps doing it.
The gateway answers to api-gateway.local, its Service's names and what --dns and --address add. With --out, gateway/ and
admin/ in that directory hold the same as files.""",
    ),
)
def authority(
    *,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory for certificates and keys as files")
    ] = None,
    dns: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="One more name of the gateway; repeatable")
    ] = None,
    addresses: Annotated[
        list[str] | None, typer.Option("--address", metavar="IP", help="One more address of the gateway; repeatable")
    ] = None,
    home: _Home = "",
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
) -> None:
    """Make or renew the certificates of the gateway and of the cloud admin."""

    async def work(client: KubeClient) -> list[str]:
        place = home or await locate_authority(client)
        authority = AuthorityOptions(namespace=place, dns=tuple(dns or ()), addresses=tuple(addresses or ()))
        return await enrolling.certify(client, options=authority, directory=out, now=datetime.now(UTC))

    print_lines(in_infra(work, kubeconfig, context), kubeconfig, context)


@tenant_app.command(
    epilog=options.epilog(
        "berth tenant add tenant1 --host host-a --host host-b",
        "berth tenant add tenant2 --name agent.tenant2.example   # its own certificates, so no bundle",
        "berth tenant add tenant3 --move tenant1   # tenant3 takes over the cluster of tenant1",
        text="""Writes ca.crt, tls.crt, tls.key, gateway-name and secret.yaml, the same as a Secret for the tenant's
cluster: kubectl apply -f DIR/secret.yaml there. Signs with the CA in Secret berth-gateway-ca, which is made if there
is none, or with --ca-cert and --ca-key. A tenant that exists keeps its certificates and hosts;
--force issues another certificate, berth tenant host changes the hosts.""",
    ),
)
def add(
    *,
    name: NewName,
    hosts: Annotated[
        list[str] | None, typer.Option("--host", help="A host of the tenant; its DPUs get its label; repeatable")
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="CERT_NAME", help="Name of the tenant's own certificates; repeatable"),
    ] = None,
    out: _Out = None,
    days: _Days = DAYS,
    ca_cert: _AuthorityCert = None,
    ca_key: _AuthorityKey = None,
    gateway: _Gateway = GATEWAY_NAME,
    home: _Home = "",
    agent_namespace: _AgentNamespace = RELEASE_NAMESPACE,
    force: Annotated[
        bool, typer.Option(help="Issue another certificate to a tenant that exists", show_default=False)
    ] = False,
    move: Annotated[
        str, typer.Option(metavar="TENANT", help="Take over the cluster of this tenant", show_default=False)
    ] = "",
    admin_names: Annotated[str, typer.Option(help="Comma list of names that no tenant may have")] = ADMIN_NAME,
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
) -> None:
    """Make a tenant, its namespace, and the certificate bundle of its agent."""
    check_name(name)
    issuing = bundles.Issuing(
        _directory(name, out),
        days=days,
        gateway=gateway,
        authority_files=_authority_files(ca_cert, ca_key),
        namespace=home,
        agent_namespace=agent_namespace,
    )
    admins = tuple(admin.strip() for admin in admin_names.split(",") if admin.strip())
    adding = changes.Adding(
        name, hosts=tuple(hosts) if hosts else None, names=tuple(names or ()), force=force, admin_names=admins
    )
    now = datetime.now(UTC)

    async def work(client: KubeClient) -> list[str]:
        cluster = await changes.cluster_to_move(client, move, name) if move else ""  # before anything is made
        lines = await enrolling.add(client, adding, issuing, now=now)
        if not move:
            return lines
        return [*lines, *await changes.move_cluster(client, cluster, source=move, target=name, now=now)]

    print_lines(in_infra(work, kubeconfig, context), kubeconfig, context)


tenant_app.add_typer(host_app)


@tenant_app.command("list", epilog=options.epilog("berth tenant list", "berth tenant list -o json"))
def list_command(
    output: Annotated[tenant_commands.Form, options.output_option()] = "text",
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
) -> None:
    """List the tenants with their certificates and state."""
    tenants = in_infra(changes.list_tenants, kubeconfig, context)
    if not tenants and output == "text":
        print("no tenants; add one with berth tenant add NAME", file=sys.stderr)
    elif text := tenant_commands.render_tenants(tenants, output):
        print(text)


@tenant_app.command(
    epilog=options.epilog(
        "berth tenant show tenant1",
        "berth tenant show tenant1 -o json",
        text="""Shows the conditions of the tenant, its hosts and DPUs, its certificates, and how many objects its
namespace has.""",
    ),
)
def show(
    *,
    name: Name,
    output: Annotated[Plain, options.output_option()] = "text",
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
) -> None:
    """Show one tenant: its state, hosts, DPUs and certificates."""
    check_name(name)

    async def work(client: KubeClient) -> enrolling.Summary:
        return await enrolling.summarize(client, name, placement=await placement(client), now=datetime.now(UTC))

    summary = in_infra(work, kubeconfig, context)
    print(tenant_commands.render_summary(summary, output))


@tenant_app.command(
    epilog=options.epilog(
        "berth tenant rotate tenant1 --overlap 24h",
        "berth tenant rotate tenant1 --now",
        text="""Older certificates are accepted until the overlap ends; with --now they are refused at once.""",
    ),
)
def rotate(
    *,
    name: Name,
    overlap: Annotated[
        str, typer.Option(metavar="TIME", help="How long older ones stay valid: 90s, 15m, 24h, 7d")
    ] = "24h",
    now: Annotated[bool, typer.Option(help="Refuse older ones at once", show_default=False)] = False,
    out: _Out = None,
    days: _Days = DAYS,
    ca_cert: _AuthorityCert = None,
    ca_key: _AuthorityKey = None,
    gateway: _Gateway = GATEWAY_NAME,
    home: _Home = "",
    agent_namespace: _AgentNamespace = RELEASE_NAMESPACE,
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
) -> None:
    """Issue a new certificate to a tenant, and end the older ones."""
    check_name(name)
    ends, moment = timedelta() if now else _duration(overlap), datetime.now(UTC)
    issuing = bundles.Issuing(
        _directory(name, out),
        days=days,
        gateway=gateway,
        authority_files=_authority_files(ca_cert, ca_key),
        namespace=home,
        agent_namespace=agent_namespace,
    )

    async def work(client: KubeClient) -> list[str]:
        return await enrolling.rotate(client, name, issuing, now=moment, overlap=ends)

    print_lines(in_infra(work, kubeconfig, context), kubeconfig, context)


tenant_app.command(
    epilog=options.epilog(
        "berth tenant suspend tenant1",
        "berth tenant suspend tenant1 --yes",
        text="""The gateway ends the streams of the tenant's agent and refuses its calls. What the tenant has in the
infra cluster runs on. The command says what that is and asks; berth tenant resume ends the suspension.""",
    )
)(suspend)
tenant_app.command(epilog=options.epilog("berth tenant resume tenant1"))(resume)


@tenant_app.command(
    epilog=options.epilog(
        "berth tenant remove tenant1",
        "berth tenant remove tenant1 --yes",
        text="Suspends the tenant, then deletes its Tenant object and its namespace and everything in it.",
    ),
)
def remove(
    *,
    name: Name,
    yes: Yes = False,
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
) -> int:
    """Remove a tenant, its namespace and everything in it."""
    check_name(name)
    print(in_infra(lambda client: enrolling.describe(client, name), kubeconfig, context))
    if not confirmed(f"Remove tenant {name} for good?", "nothing removed", yes=yes):
        return 1
    lines = in_infra(lambda client: enrolling.remove(client, name), kubeconfig, context)
    print_lines(lines, kubeconfig, context)
    return 0


def _directory(name: str, out: Path | None) -> Path:
    return Path(tenant_namespace(name)) if out is None else out


def _authority_files(certificate: Path | None, key: Path | None) -> tuple[Path, Path] | None:
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--ca-cert and --ca-key go together")
    return certificate, key


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise UsageError(f"--overlap: want a time such as 90s, 15m, 24h or 7d, got {text!r}")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
