"""`berth certs`: makes, renews and shows the certificates in a directory, and puts them to use in a cluster.

Parses and prints; the work is in `app.certs` and `app.registration`.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app import registration
from app.certs import certificate_set, folder, issuing, patching
from app.cli import cluster, completing, options
from app.errors import Transient, UsageError
from app.explain.rendering import Plain, structured
from app.text import stamp

if TYPE_CHECKING:
    from app.kube.client import KubeClient

certs_app = options.group(
    "certs",
    "Make, renew and show certificates, and make webhook configurations trust them.",
    epilog=options.epilog(
        "berth certs make --dir certs --service berth --namespace kube-system --dns localhost --ip 127.0.0.1",
        "berth certs renew --dir certs",
        "berth certs show --dir certs -o json",
        "berth certs patch --ca certs/ca-bundle.crt berth",
    ),
)

_Directory = Annotated[Path, typer.Option("--dir", help="Directory of the certificates", show_default=False)]
_POLICIES: dict[str, registration.FailurePolicy] = {"ignore": "Ignore", "fail": "Fail"}


@certs_app.command(
    epilog=options.epilog(
        "berth certs make --dir certs   # for localhost",
        "berth certs make --dir certs --service berth --namespace kube-system --client kube-apiserver",
        text="""Writes ca.crt, ca.key, ca-bundle.crt, tls.crt, tls.key and client-<CN>.crt, client-<CN>.key. A CA that
is already in the directory is used again. Only the owner can read the keys.""",
    )
)
def make(
    *,
    directory: _Directory,
    service: Annotated[str, typer.Option(help="Service that the webhook is called through")] = "",
    namespace: Annotated[str, typer.Option(help="Namespace of the Service")] = "default",
    dns: Annotated[list[str] | None, typer.Option(help="One more DNS name; repeatable")] = None,
    addresses: Annotated[list[str] | None, typer.Option("--ip", help="One more IP address; repeatable")] = None,
    clients: Annotated[
        list[str] | None, typer.Option("--client", help="CN of a client certificate to make; repeatable")
    ] = None,
    groups: Annotated[
        list[str] | None, typer.Option("--client-group", help="O of the client certificates; repeatable")
    ] = None,
    days: Annotated[int, typer.Option(help="Days that certificates are valid")] = certificate_set.DAYS,
    authority_days: Annotated[
        int, typer.Option("--ca-days", help="Days that a new CA is valid")
    ] = certificate_set.AUTHORITY_DAYS,
    algorithm: Annotated[issuing.Algorithm, typer.Option("--key-type", help="Kind of new keys")] = "ecdsa",
    new_authority: Annotated[
        bool, typer.Option("--new-ca/--no-new-ca", help="Make a new CA if there is one; the old one stays trusted")
    ] = False,
) -> None:
    """Make a serving certificate, client certificates and, if there is none, the CA that signs them."""
    present = folder.read_files(directory)
    made = folder.make(
        present,
        names=issuing.serving_names(service=service, namespace=namespace, dns=dns or (), addresses=addresses or ()),
        clients=[(client, tuple(groups or ())) for client in clients or ()],
        now=datetime.now(UTC),
        days=days,
        authority_days=authority_days,
        algorithm=algorithm,
        new_authority=new_authority,
    )
    folder.write_files(directory, made)
    changed = sorted(name for name, content in made.items() if present.get(name) != content)
    print(f"wrote {', '.join(changed)} in {directory}")


@certs_app.command(
    epilog=options.epilog(
        "berth certs renew --dir certs",
        "berth certs renew --dir certs --force",
        text="""A certificate is due when less than a third of its lifetime is left. When the CA is due, ca-bundle.crt
keeps the old one beside the new, and tls.crt carries the new CA signed by the old one, so clients that
trust either CA keep working.""",
    )
)
def renew(
    directory: _Directory,
    force: Annotated[bool, typer.Option(help="Renew certificates that are not due too")] = False,
) -> None:
    """Renew what is due, and say when the next renewal is."""
    present = folder.read_files(directory)
    result = folder.renew(present, now=datetime.now(UTC), force=force)
    if result.files != present:
        folder.write_files(directory, result.files)
    for stem in result.renewed:
        print(f"renewed {stem}.crt")
    if "ca" in result.renewed:
        print("the CA is new: give ca-bundle.crt to its clients (berth certs patch --ca ca-bundle.crt NAME)")
    print(f"{'' if result.renewed else 'nothing is due; '}next renewal due {stamp(result.next_due)}")


@certs_app.command(epilog=options.epilog("berth certs show --dir certs", "berth certs show --dir certs -o json"))
def show(
    directory: _Directory,
    output: Annotated[Plain, options.output_option()] = "text",
) -> None:
    """Show subjects, names, validity and fingerprints of the certificates in a directory."""
    descriptions = folder.describe(folder.read_files(directory), now=datetime.now(UTC))
    if not descriptions:
        raise UsageError(f"{directory} holds no certificate; make some with berth certs make --dir {directory}")
    if output == "text":
        print(folder.render(descriptions))
    else:
        options.show(structured(descriptions, output))


@certs_app.command(
    epilog=options.epilog(
        "berth certs patch --ca certs/ca-bundle.crt berth",
        "berth certs patch --kubeconfig admin.kubeconfig --ca ca.crt --service kube-system/berth berth other-webhooks",
        text="What a webhook trusted before stays in its caBundle until it expires.",
    )
)
def patch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Webhook configurations", show_default=False)],
    authority: Annotated[Path, typer.Option("--ca", help="PEM file of the CA, or of several", show_default=False)],
    service: Annotated[str, typer.Option(metavar="NS/NAME", help="Only webhooks that call this Service")] = "",
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
) -> None:
    """Make webhook configurations trust a CA; changes only caBundle."""
    try:
        authorities = certificate_set.parse_bundle(authority.read_bytes(), source=str(authority))
    except OSError as error:
        raise UsageError(f"--ca: cannot read {authority}: {error.strerror}") from error
    if not authorities:
        raise UsageError(f"--ca: {authority} holds no PEM certificate")
    target = _service(service)

    async def work(client: KubeClient) -> list[patching.Patched]:
        now = datetime.now(UTC)
        return [
            result
            for name in dict.fromkeys(names)
            for result in await patching.patch_bundle(client, name, authorities=authorities, service=target, now=now)
        ]

    for result in cluster.in_cluster(work, kubeconfig, context):
        done = f"{result.changed} of {result.webhooks} webhooks patched" if result.changed else "up to date"
        print(f"{result.kind} {result.name}: {done}")


@certs_app.command(
    "install",
    epilog=options.epilog(
        "berth certs install -namespace kube-system -name network-resources-injector -failure-policy Ignore",
        "berth certs install --dir /etc/tls --every 3600",
        text="""Takes the flags of Network Resources Injector's installer. Any number of replicas may run it at once;
the Secret named like --name is the lock and holds the CA and the certificate. Nothing is ever deleted, and each run
repairs what an earlier one left undone. An existing Service keeps its targetPort.""",
    ),
)
def install_command(
    *,
    namespace: Annotated[
        str,
        typer.Option("--berth-namespace", "--namespace", help="Namespace of Berth; --namespace as the peer has it"),
    ] = "kube-system",
    name: Annotated[str, typer.Option(help="Prefix of every object")] = "network-resources-injector",
    failure_policy: Annotated[
        str,
        typer.Option(
            metavar=options.one_of(_POLICIES.values()),
            help="What happens to Pods while Berth is down",
            autocompletion=completing.among(_POLICIES.values()),
        ),
    ] = "Fail",
    timeout_seconds: Annotated[
        int | None,
        typer.Option(
            min=1, max=30, help="How long the API server waits for Berth (default: what is registered, or 10)"
        ),
    ] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Directory of tls.crt and tls.key")] = Path("/etc/tls"),
    every: Annotated[int, typer.Option(min=0, help="Keep running, and repeat after so many seconds (0: run once)")] = 0,
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
    _logtostderr: Annotated[bool, typer.Option("--logtostderr/--no-logtostderr", hidden=True)] = False,
    _alsologtostderr: Annotated[bool, typer.Option("--alsologtostderr/--no-alsologtostderr", hidden=True)] = False,
    _verbosity: Annotated[str, typer.Option("-v", hidden=True)] = "",
    _vmodule: Annotated[str, typer.Option("--vmodule", hidden=True)] = "",
    _log_dir: Annotated[str, typer.Option("--log_dir", hidden=True)] = "",
    _stderrthreshold: Annotated[str, typer.Option("--stderrthreshold", hidden=True)] = "",
    _log_backtrace_at: Annotated[str, typer.Option("--log_backtrace_at", hidden=True)] = "",
    _log_link: Annotated[str, typer.Option("--log_link", hidden=True)] = "",
    _logbuflevel: Annotated[str, typer.Option("--logbuflevel", hidden=True)] = "",
) -> None:
    """Write the serving certificate and register the webhooks, from inside the cluster (an init container)."""
    if (policy := _POLICIES.get(failure_policy.strip().lower())) is None:
        raise UsageError(f"--failure-policy: unknown failure policy type {failure_policy!r}; want Ignore or Fail")
    installation = registration.Installation(
        namespace=namespace, name=name, failure_policy=policy, timeout_seconds=timeout_seconds
    )
    stop = asyncio.Event()
    cluster.in_cluster(
        lambda client: _install(client, installation, directory, every=every, stop=stop),
        kubeconfig,
        context,
        stop=stop if every else None,
    )


@certs_app.command(
    epilog=options.epilog(
        "berth certs unregister --name berth",
        "berth certs unregister --name berth --service kube-system/berth-webhook",
        text="""For an uninstallation: with a configuration and without its webhook, new Pods are refused. Deletes only
configurations with the label app.kubernetes.io/part-of=berth, or that call the Service of --service alone. A
configuration that does not exist is no error.""",
    )
)
def unregister(
    name: Annotated[str, typer.Option(help="Name of the mutating and of the validating configuration")] = "berth",
    service: Annotated[
        str, typer.Option(metavar="NS/NAME", help="Also delete configurations that call this Service alone")
    ] = "",
    kubeconfig: cluster.Kubeconfig = None,
    context: cluster.Context = None,
) -> None:
    """Delete Berth's webhook configurations, before the webhook is removed."""
    target = _service(service)

    for line in cluster.in_cluster(
        lambda client: patching.unregister(client, name, service=target), kubeconfig, context
    ):
        print(line)


async def _install(
    client: KubeClient, installation: registration.Installation, directory: Path, *, every: int, stop: asyncio.Event
) -> None:
    written: dict[str, bytes] = {}
    while not stop.is_set():
        try:
            result = await registration.install(client, installation, now=datetime.now(UTC))
            if result.files != written:
                folder.write_files(directory, result.files)
                written = result.files
                _report(result, installation, directory)
        except Transient as error:
            # The certificate that is served stays good for a third of its life: try again at the next turn.
            if not (every and written):
                raise
            print(f"not renewed, next try in {every} s: {error}", flush=True)
        if not every:
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every)


def _report(result: registration.Installed, installation: registration.Installation, directory: Path) -> None:
    origin = "issued" if result.issued else f"taken from Secret {installation.namespace}/{installation.name}"
    print(f"certificate {origin}, written to {directory}; next renewal due {stamp(result.next_due)}")
    print(
        f"Service {installation.service}, MutatingWebhookConfiguration {installation.mutating} and "
        f"ValidatingWebhookConfiguration {installation.validating} are in place",
        flush=True,
    )


def _service(text: str) -> patching.ServiceName | None:
    namespace, slash, name = text.partition("/")
    if (text and not (slash and namespace and name)) or "/" in name:
        raise UsageError(f"--service: want NAMESPACE/NAME, got {text!r}")
    return patching.ServiceName(namespace, name) if text else None
