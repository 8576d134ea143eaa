"""`berth certs patch`, `install` and `unregister`: the certificate commands that change a cluster once."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.certs.bundles import parse_bundle
from app.certs.files import write_files
from app.certs.patching import Patched, ServiceName, patch_bundle
from app.certs.unregistering import unregister as unregister_all
from app.cli.options import paragraphs
from app.errors import Transient, UsageError
from app.registration.install import Installed
from app.registration.install import install as install_once
from app.registration.objects import FailurePolicy, Installation
from app.text import stamp

if TYPE_CHECKING:
    from app.kube.transport import AioKubeClient

PATCH_EPILOG = paragraphs("""Examples:

  berth certs patch --ca certs/ca-bundle.crt berth

  berth certs patch --kubeconfig admin.kubeconfig --ca ca.crt --service kube-system/berth berth other-webhooks

What a webhook trusted before stays in its caBundle until it expires.""")

INSTALL_EPILOG = paragraphs("""Examples:

  berth certs install -namespace kube-system -name network-resources-injector -failure-policy Ignore

  berth certs install --dir /etc/tls --every 3600

Takes the flags of Network Resources Injector's installer. Any number of replicas may run it at once; the Secret named
like --name is the lock and holds the CA and the certificate. Nothing is ever deleted, and each run repairs what an
earlier one left undone. A Service that is there keeps its targetPort.""")

UNREGISTER_EPILOG = paragraphs("""Examples:

  berth certs unregister --name berth

  berth certs unregister --name berth --service kube-system/berth-webhook

For an uninstallation: while a configuration is there, Pods may wait for a webhook that is not. Deletes only what
carries the label app.kubernetes.io/part-of=berth or calls nothing but the Service; what is gone is no error.""")

_Kubeconfig = Annotated[
    str | None, typer.Option("--kubeconfig", help="Cluster to change (default: in-cluster)", show_default=False)
]
_Context = Annotated[str | None, typer.Option("--context", help="Context of the kubeconfig", show_default=False)]


def patch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Webhook configurations", show_default=False)],
    authority: Annotated[Path, typer.Option("--ca", help="PEM file of the CA, or of several", show_default=False)],
    service: Annotated[
        str, typer.Option("--service", metavar="NS/NAME", help="Only webhooks that call this Service")
    ] = "",
    kubeconfig: _Kubeconfig = None,
    context: _Context = None,
) -> int:
    """Make webhook configurations trust a CA; touches nothing but caBundle."""
    try:
        authorities = parse_bundle(authority.read_bytes(), source=str(authority))
    except OSError as error:
        raise UsageError(f"--ca: cannot read {authority}: {error.strerror}") from error
    if not authorities:
        raise UsageError(f"--ca: {authority} holds no PEM certificate")
    target = _service(service)

    async def run() -> list[Patched]:
        async with await _connect(kubeconfig, context) as client:
            now = datetime.now(UTC)
            return [
                result
                for name in dict.fromkeys(names)
                for result in await patch_bundle(client, name, authorities=authorities, service=target, now=now)
            ]

    for result in asyncio.run(run()):
        done = f"{result.changed} of {result.webhooks} webhooks patched" if result.changed else "up to date"
        print(f"{result.kind} {result.name}: {done}")
    return 0


def install(
    *,
    namespace: Annotated[str, typer.Option("--namespace", help="Namespace Berth runs in")] = "kube-system",
    name: Annotated[str, typer.Option("--name", help="Prefix of every object")] = "network-resources-injector",
    failure_policy: Annotated[
        str, typer.Option("--failure-policy", help="Ignore or Fail: what happens to Pods while Berth is down")
    ] = "Fail",
    timeout_seconds: Annotated[
        int | None,
        typer.Option(
            "--timeout-seconds",
            min=1,
            max=30,
            help="How long the API server waits for Berth (default: what is registered, or 10)",
            show_default=False,
        ),
    ] = None,
    directory: Annotated[Path, typer.Option("--dir", help="Where tls.crt and tls.key are written")] = Path("/etc/tls"),
    every: Annotated[int, typer.Option("--every", min=0, help="Stay, and repeat after so many seconds (0: once)")] = 0,
    kubeconfig: _Kubeconfig = None,
    context: _Context = None,
    _logtostderr: Annotated[bool, typer.Option("--logtostderr/--no-logtostderr", hidden=True)] = False,
    _alsologtostderr: Annotated[bool, typer.Option("--alsologtostderr/--no-alsologtostderr", hidden=True)] = False,
    _verbosity: Annotated[str, typer.Option("-v", hidden=True)] = "",
    _vmodule: Annotated[str, typer.Option("--vmodule", hidden=True)] = "",
    _log_dir: Annotated[str, typer.Option("--log_dir", hidden=True)] = "",
    _stderrthreshold: Annotated[str, typer.Option("--stderrthreshold", hidden=True)] = "",
    _log_backtrace_at: Annotated[str, typer.Option("--log_backtrace_at", hidden=True)] = "",
    _log_link: Annotated[str, typer.Option("--log_link", hidden=True)] = "",
    _logbuflevel: Annotated[str, typer.Option("--logbuflevel", hidden=True)] = "",
) -> int:
    """Write the serving certificate and register the webhooks, from inside the cluster (an init container)."""
    installation = Installation(
        namespace=namespace, name=name, failure_policy=_failure_policy(failure_policy), timeout_seconds=timeout_seconds
    )
    asyncio.run(_install(installation, directory, every=every, kubeconfig=kubeconfig, context=context))
    return 0


def unregister(
    name: Annotated[
        str, typer.Option("--name", help="Name of the mutating and of the validating configuration")
    ] = "berth",
    service: Annotated[
        str, typer.Option("--service", metavar="NS/NAME", help="What calls nothing but this Service is ours too")
    ] = "",
    kubeconfig: _Kubeconfig = None,
    context: _Context = None,
) -> int:
    """Delete Berth's webhook configurations, so that nothing is called that is about to go."""
    target = _service(service)

    async def run() -> list[str]:
        async with await _connect(kubeconfig, context) as client:
            return await unregister_all(client, name, service=target)

    for line in asyncio.run(run()):
        print(line)
    return 0


async def _install(
    installation: Installation, directory: Path, *, every: int, kubeconfig: str | None, context: str | None
) -> None:
    written: dict[str, bytes] = {}
    stop = asyncio.Event()
    if every:  # the first process of a container gets no default action for these signals
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with await _connect(kubeconfig, context) as client:
        while not stop.is_set():
            try:
                result = await install_once(client, installation, now=datetime.now(UTC))
                if result.files != written:
                    write_files(directory, result.files)
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


def _report(result: Installed, installation: Installation, directory: Path) -> None:
    origin = "issued" if result.issued else f"taken from Secret {installation.namespace}/{installation.name}"
    print(f"certificate {origin}, written to {directory}; next renewal due {stamp(result.next_due)}")
    print(
        f"Service {installation.service}, MutatingWebhookConfiguration {installation.mutating} and "
        f"ValidatingWebhookConfiguration {installation.validating} are in place",
        flush=True,
    )


def _failure_policy(text: str) -> FailurePolicy:
    match text.strip().lower():
        case "ignore":
            return "Ignore"
        case "fail":
            return "Fail"
    raise UsageError(f"--failure-policy: unknown failure policy type {text!r}; want Ignore or Fail")


def _service(text: str) -> ServiceName | None:
    namespace, slash, name = text.partition("/")
    if (text and not (slash and namespace and name)) or "/" in name:
        raise UsageError(f"--service: want NAMESPACE/NAME, got {text!r}")
    return ServiceName(namespace, name) if text else None


async def _connect(kubeconfig: str | None, context: str | None) -> AioKubeClient:
    # Imported late: the official client takes longer to import than `berth certs make` takes to run.
    from app.kube.transport import connect  # noqa: PLC0415

    return await connect(kubeconfig=kubeconfig, context=context)
