"""`berth tenant`: adds, lists, rotates and removes the tenants of an infra cluster.

Parses, asks and prints; the work is in `app.tenancy`.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from app.certs.certificate_set import DAYS
from app.cli.options import PanelCommand, missing_command, paragraphs
from app.cli.tenant_authority import EPILOG as AUTHORITY_EPILOG
from app.cli.tenant_authority import authority
from app.cli.tenant_cluster import AgentNamespace, Context, Kubeconfig, Namespace, run_in_cluster
from app.cli.tenant_showing import Form, render_tenants
from app.errors import UsageError
from app.tenancy.model import ADMIN_NAME, GATEWAY_NAME
from app.tenancy.tenants.objects import name_problem
from app.workloads.model import SYSTEM_NAMESPACE, tenant_namespace

_EPILOG = paragraphs("""Examples:

  berth tenant authority --address 10.133.133.1

  berth tenant add tenant1 --host host-a --host host-b --out tenant1

  berth tenant list

  berth tenant rotate tenant1 --out tenant1

  berth tenant remove tenant1""")

_ADD_EPILOG = paragraphs("""Examples:

  berth tenant add tenant1 --host host-a --host host-b

  berth tenant add tenant2 --name agent.tenant2.example (no bundle: the tenant has certificates of its own)

Writes ca.crt, tls.crt, tls.key, gateway-name and secret.yaml, the same as a Secret for the tenant's cluster: kubectl
apply -f DIR/secret.yaml there. Signs with the CA in Secret berth-gateway-ca, which is made where there is none, or
with --ca-cert and --ca-key. A tenant that is there keeps its certificates; --force issues one more.""")

_LIST_EPILOG = paragraphs("""Examples:

  berth tenant list

  berth tenant list -o json""")

_ROTATE_EPILOG = paragraphs("""Examples:

  berth tenant rotate tenant1 --overlap 24h

  berth tenant rotate tenant1 --now

The certificates before the new one are accepted until the overlap ends; with --now they are refused at once.""")

_REMOVE_EPILOG = paragraphs("""Examples:

  berth tenant remove tenant1

  berth tenant remove tenant1 --yes

Cuts the tenant's agent, then deletes its Tenant object and its namespace with all that is in it.""")

_DURATION = re.compile(r"([0-9]{1,6})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

tenant_app = typer.Typer(
    name="tenant",
    help="Add, list, rotate and remove the tenants of an infra cluster, and make its gateway's certificates.",
    epilog=_EPILOG,
    rich_markup_mode="rich",
)

_Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tenant", show_default=False)]
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


tenant_app.command("authority", cls=PanelCommand, epilog=AUTHORITY_EPILOG)(authority)


@tenant_app.callback(invoke_without_command=True)
def tenant(context: typer.Context) -> None:
    """Add, list, rotate and remove the tenants of an infra cluster, and make its gateway's certificates."""
    if context.invoked_subcommand is None:
        raise missing_command(context)


@tenant_app.command("add", cls=PanelCommand, epilog=_ADD_EPILOG)
def add_command(
    *,
    name: _Name,
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
    namespace: Namespace = "",
    agent_namespace: AgentNamespace = SYSTEM_NAMESPACE,
    force: Annotated[
        bool,
        typer.Option(
            "--force/--no-force", help="Issue one more certificate to a tenant that is there", show_default=False
        ),
    ] = False,
    admin_names: Annotated[
        str, typer.Option("--admin-names", help="Comma list of names that no tenant may have")
    ] = ADMIN_NAME,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """Make a tenant, its namespace, and the certificate bundle of its agent."""
    from app.tenancy.tenants.enrolling import Adding, Issuing, add  # noqa: PLC0415 - as the client of the cluster below

    _check_name(name)
    issuing = Issuing(
        _out(name, out),
        days=days,
        gateway=gateway,
        authority_files=_authority_files(ca_cert, ca_key),
        namespace=namespace,
        agent_namespace=agent_namespace,
    )
    admins = tuple(admin.strip() for admin in admin_names.split(",") if admin.strip())
    adding = Adding(
        name, hosts=tuple(hosts) if hosts else None, names=tuple(names or ()), force=force, admin_names=admins
    )
    for line in run_in_cluster(lambda client: add(client, adding, issuing, now=datetime.now(UTC)), kubeconfig, context):
        print(line)
    return 0


@tenant_app.command("list", cls=PanelCommand, epilog=_LIST_EPILOG)
def list_command(
    output: Annotated[Form, typer.Option("-o", "--output", help="Form of the answer")] = "table",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """List the tenants with their certificates and state."""
    from app.tenancy.tenants.changes import list_tenants  # noqa: PLC0415 - as the client of the cluster below

    tenants = run_in_cluster(list_tenants, kubeconfig, context)
    if tenants or output != "table":
        text = render_tenants(tenants, output)
        if text:
            print(text)
    else:
        print("no tenants; add one with berth tenant add NAME", file=sys.stderr)
    return 0


@tenant_app.command("rotate", cls=PanelCommand, epilog=_ROTATE_EPILOG)
def rotate_command(
    *,
    name: _Name,
    overlap: Annotated[
        str, typer.Option("--overlap", metavar="TIME", help="How long those before stay good: 90s, 15m, 24h, 7d")
    ] = "24h",
    now: Annotated[
        bool, typer.Option("--now/--no-now", help="Refuse those before at once", show_default=False)
    ] = False,
    out: _Out = None,
    days: _Days = DAYS,
    ca_cert: _AuthorityCert = None,
    ca_key: _AuthorityKey = None,
    gateway: _Gateway = GATEWAY_NAME,
    namespace: Namespace = "",
    agent_namespace: AgentNamespace = SYSTEM_NAMESPACE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """Issue a new certificate to a tenant, and let those before it end."""
    from app.tenancy.tenants.enrolling import Issuing, rotate  # noqa: PLC0415 - as the client of the cluster below

    _check_name(name)
    ends = timedelta() if now else _duration(overlap)
    issuing = Issuing(
        _out(name, out),
        days=days,
        gateway=gateway,
        authority_files=_authority_files(ca_cert, ca_key),
        namespace=namespace,
        agent_namespace=agent_namespace,
    )
    moment = datetime.now(UTC)
    for line in run_in_cluster(
        lambda client: rotate(client, name, issuing, now=moment, overlap=ends), kubeconfig, context
    ):
        print(line)
    return 0


@tenant_app.command("remove", cls=PanelCommand, epilog=_REMOVE_EPILOG)
def remove_command(
    *,
    name: _Name,
    yes: Annotated[bool, typer.Option("--yes/--no-yes", "-y", help="Do not ask", show_default=False)] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> int:
    """Remove a tenant, its namespace and everything in it."""
    from app.tenancy.tenants.enrolling import describe, remove  # noqa: PLC0415 - as the client of the cluster below

    _check_name(name)
    goes = run_in_cluster(lambda client: describe(client, name), kubeconfig, context)
    print(goes)
    if not yes:
        if not (sys.stdin is not None and sys.stdin.isatty()):
            raise UsageError("nothing removed: there is no terminal to confirm on; use --yes")
        if not typer.confirm(f"Remove tenant {name} for good?"):
            print("nothing removed")
            return 1
    for line in run_in_cluster(lambda client: remove(client, name), kubeconfig, context):
        print(line)
    return 0


def _check_name(name: str) -> None:
    problem = name_problem(name)
    if problem:
        raise UsageError(f"NAME: {problem}")


def _out(name: str, out: Path | None) -> Path:
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
