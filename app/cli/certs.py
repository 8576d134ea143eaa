"""`berth certs`: makes, renews and shows the certificates in a directory, and puts them to use in a cluster.

Parses and prints; the work is in `app.certs`. The commands that talk to a cluster are in `certs_cluster`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from app.certs.certificate_set import AUTHORITY_DAYS, DAYS
from app.certs.files import read_files, write_files
from app.certs.folder import make, renew
from app.certs.issuing import Algorithm, serving_names
from app.certs.showing import describe, render
from app.certs.wing import CERTIFICATES
from app.cli.certs_cluster import (
    INSTALL_EPILOG,
    PATCH_EPILOG,
    UNREGISTER_EPILOG,
    install,
    patch,
    unregister,
)
from app.cli.options import missing_command, paragraphs
from app.cli.roles import add_role
from app.errors import UsageError
from app.text import stamp
from app.wire import encode_json

_EPILOG = paragraphs("""Examples:

  berth certs make --dir certs --service berth --namespace kube-system --dns localhost --ip 127.0.0.1

  berth certs renew --dir certs

  berth certs show --dir certs -o json

  berth certs patch --ca certs/ca-bundle.crt berth

  berth certs keep --namespace berth""")

_MAKE_EPILOG = paragraphs("""Examples:

  berth certs make --dir certs (for localhost)

  berth certs make --dir certs --service berth --namespace kube-system --client kube-apiserver

Writes ca.crt, ca.key, ca-bundle.crt, tls.crt, tls.key and client-<CN>.crt, client-<CN>.key. A CA that is in the
directory already signs again. Keys are readable by their owner alone.""")

_RENEW_EPILOG = paragraphs("""Examples:

  berth certs renew --dir certs

  berth certs renew --dir certs --force

A certificate is due when less than a third of its lifetime is left. When the CA is due, ca-bundle.crt keeps the old
one beside the new, and tls.crt carries the new CA signed by the old one, so clients that trust either go on.""")

_SHOW_EPILOG = paragraphs("""Examples:

  berth certs show --dir certs

  berth certs show --dir certs -o json""")

certs_app = typer.Typer(
    name="certs",
    help="Make, renew and show certificates, and make webhook configurations trust them.",
    epilog=_EPILOG,
    rich_markup_mode="rich",
)

_Directory = Annotated[Path, typer.Option("--dir", help="Directory of the certificates", show_default=False)]


@certs_app.callback(invoke_without_command=True)
def certs(context: typer.Context) -> None:
    """Make, renew and show certificates, and make webhook configurations trust them."""
    if context.invoked_subcommand is None:
        raise missing_command(context)


@certs_app.command("make", epilog=_MAKE_EPILOG)
def make_command(
    *,
    directory: _Directory,
    service: Annotated[str, typer.Option("--service", help="Service that the webhook is called through")] = "",
    namespace: Annotated[str, typer.Option("--namespace", help="Namespace of the Service")] = "default",
    dns: Annotated[list[str] | None, typer.Option("--dns", help="One more DNS name; repeatable")] = None,
    addresses: Annotated[list[str] | None, typer.Option("--ip", help="One more IP address; repeatable")] = None,
    clients: Annotated[
        list[str] | None, typer.Option("--client", help="CN of a client certificate to make; repeatable")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--client-group", help="O of the client certificates; repeatable")
    ] = None,
    days: Annotated[int, typer.Option("--days", help="Days that certificates are valid")] = DAYS,
    authority_days: Annotated[int, typer.Option("--ca-days", help="Days that a new CA is valid")] = AUTHORITY_DAYS,
    algorithm: Annotated[Algorithm, typer.Option("--key-type", help="Kind of new keys")] = "ecdsa",
    new_authority: Annotated[
        bool, typer.Option("--new-ca/--no-new-ca", help="Make a new CA where there is one; the old one stays trusted")
    ] = False,
) -> int:
    """Make a serving certificate, client certificates and, where there is none, the CA that signs them."""
    present = read_files(directory)
    files = make(
        present,
        names=serving_names(service=service, namespace=namespace, dns=dns or (), addresses=addresses or ()),
        clients=[(client, tuple(groups or ())) for client in clients or ()],
        now=datetime.now(UTC),
        days=days,
        authority_days=authority_days,
        algorithm=algorithm,
        new_authority=new_authority,
    )
    write_files(directory, files)
    changed = sorted(name for name, content in files.items() if present.get(name) != content)
    print(f"wrote {', '.join(changed)} in {directory}")
    return 0


@certs_app.command("renew", epilog=_RENEW_EPILOG)
def renew_command(
    directory: _Directory,
    force: Annotated[bool, typer.Option("--force/--no-force", help="Renew certificates that are not due too")] = False,
) -> int:
    """Renew what is due, and say when the next renewal is."""
    present = read_files(directory)
    result = renew(present, now=datetime.now(UTC), force=force)
    if result.files != present:
        write_files(directory, result.files)
    for stem in result.renewed:
        print(f"renewed {stem}.crt")
    if "ca" in result.renewed:
        print("the CA is new: give ca-bundle.crt to its clients (berth certs patch --ca ca-bundle.crt NAME)")
    print(f"{'' if result.renewed else 'nothing is due; '}next renewal due {stamp(result.next_due)}")
    return 0


@certs_app.command("show", epilog=_SHOW_EPILOG)
def show_command(
    directory: _Directory,
    output: Annotated[Literal["text", "json"], typer.Option("-o", "--output", help="Form of the answer")] = "text",
) -> int:
    """Show subjects, names, validity and fingerprints of the certificates in a directory."""
    descriptions = describe(read_files(directory), now=datetime.now(UTC))
    if not descriptions:
        raise UsageError(f"{directory} holds no certificate; make some with berth certs make --dir {directory}")
    print(encode_json(descriptions).decode() if output == "json" else render(descriptions))
    return 0


certs_app.command("patch", epilog=PATCH_EPILOG)(patch)
certs_app.command("install", epilog=INSTALL_EPILOG)(install)
add_role(certs_app, CERTIFICATES)
certs_app.command("unregister", epilog=UNREGISTER_EPILOG)(unregister)
