"""`berth webhook`: parses the flags and hands over to the runtime.

Every flag of Network Resources Injector is here under its name; the flags of its logging library are accepted
and, but for `-v`, ignored.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from app.settings import webhook as settings

SWITCHES = (
    "insecure",
    "enable-http2",
    "injectHugepageDownApi",
    "honor-resources",
    "logtostderr",
    "alsologtostderr",
)

_SERVING, _TLS, _SOURCE, _INJECTION, _LOGS = "Serving", "TLS", "Attachments", "Injection", "Logs"
_ABSENT = None

EPILOG = """Examples:

  berth webhook --tls-cert-file tls.crt --tls-private-key-file tls.key

  berth webhook --manifests nads --insecure

  berth webhook --client-ca ca.crt --client-ca old-ca.crt --workers 2

Environment: BERTH_ and the flag in capitals stand for every flag, lists with commas
(BERTH_DRAIN_SECONDS=10, BERTH_CLIENT_CA=a.crt,b.crt,
BERTH_INJECT_HUGEPAGE_DOWN_API=true); NAMESPACE for the namespace Berth runs in.
A flag beats the environment. One dash does as well as two (-insecure=true).

Exit status: 0 after a drained stop, 1 when stopped before that, 2 for a wrong flag or file."""


class WebhookCommand(TyperCommand):
    """Leaves the `--no-…` twin of each switch out of the help, where it would squeeze everything else."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        twins = [(param, param.secondary_opts) for param in self.params]
        for param, _ in twins:
            param.secondary_opts = []
        try:
            super().format_help(ctx, formatter)
        finally:
            for param, names in twins:
                param.secondary_opts = names


def _option(*names: str, panel: str, text: str, hidden: bool = False) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        *names, help=text, rich_help_panel=panel, hidden=hidden, show_default=False
    )
    return option


def webhook(
    port: Annotated[int | None, _option("--port", panel=_SERVING, text="TLS port (default: 8443)")] = _ABSENT,
    bind_address: Annotated[
        str | None, _option("--bind-address", panel=_SERVING, text="Address of both servers (default: 0.0.0.0)")
    ] = _ABSENT,
    health_check_port: Annotated[
        int | None,
        _option(
            "--health-check-port", panel=_SERVING, text="Plain port of /healthz, /readyz, /metrics (default: 8444)"
        ),
    ] = _ABSENT,
    workers: Annotated[
        int | None, _option("--workers", panel=_SERVING, text="Worker processes (default: 1)")
    ] = _ABSENT,
    deadline_seconds: Annotated[
        float | None, _option("--deadline-seconds", panel=_SERVING, text="Longest time for one review (default: 8)")
    ] = _ABSENT,
    drain_seconds: Annotated[
        float | None,
        _option("--drain-seconds", panel=_SERVING, text="How long to serve on after SIGTERM, unready (default: 5)"),
    ] = _ABSENT,
    tls_cert_file: Annotated[
        str | None, _option("--tls-cert-file", panel=_TLS, text="Serving certificate, PEM (default: cert.pem)")
    ] = _ABSENT,
    tls_private_key_file: Annotated[
        str | None, _option("--tls-private-key-file", panel=_TLS, text="Its private key, PEM (default: key.pem)")
    ] = _ABSENT,
    insecure: Annotated[
        bool | None,
        _option("--insecure/--no-insecure", panel=_TLS, text="Do not ask the API server for a client certificate"),
    ] = _ABSENT,
    client_ca: Annotated[
        list[str] | None,
        _option(
            "--client-ca", panel=_TLS, text="CA of client certificates; repeatable (default: the service account's CA)"
        ),
    ] = _ABSENT,
    certificate_poll_seconds: Annotated[
        float | None,
        _option("--certificate-poll-seconds", panel=_TLS, text="How often the TLS files are looked at (default: 10)"),
    ] = _ABSENT,
    tls_min_version: Annotated[
        str | None,
        _option("--tls-min-version", panel=_TLS, text="VersionTLS12 or VersionTLS13 (default: VersionTLS12)"),
    ] = _ABSENT,
    tls_cipher_suites: Annotated[
        str | None, _option("--tls-cipher-suites", panel=_TLS, text="Comma list of IANA cipher names")
    ] = _ABSENT,
    tls_curve_preferences: Annotated[
        str | None, _option("--tls-curve-preferences", panel=_TLS, text="Comma list of IANA curve numbers")
    ] = _ABSENT,
    enable_http2: Annotated[
        bool | None,
        _option("--enable-http2/--no-enable-http2", panel=_TLS, text="Accepted; Berth speaks HTTP/1.1 only"),
    ] = _ABSENT,
    kubeconfig: Annotated[
        str | None, _option("--kubeconfig", panel=_SOURCE, text="Cluster to read from (default: in-cluster)")
    ] = _ABSENT,
    context: Annotated[str | None, _option("--context", panel=_SOURCE, text="Context of the kubeconfig")] = _ABSENT,
    manifests: Annotated[
        str | None,
        _option("--manifests", panel=_SOURCE, text="Directory of YAML files instead of a cluster, reloaded on change"),
    ] = _ABSENT,
    namespace: Annotated[
        str | None,
        _option("--namespace", panel=_SOURCE, text="Namespace Berth runs in (default: $NAMESPACE or kube-system)"),
    ] = _ABSENT,
    network_resource_name_keys: Annotated[
        str | None,
        _option(
            "--network-resource-name-keys",
            panel=_INJECTION,
            text="Annotation keys on attachments that name a resource (default: k8s.v1.cni.cncf.io/resourceName)",
        ),
    ] = _ABSENT,
    existing_resources: Annotated[
        str | None,
        _option(
            "--existing-resources", panel=_INJECTION, text="top-up, skip or add what Pods ask for (default: top-up)"
        ),
    ] = _ABSENT,
    honor_resources: Annotated[
        bool | None,
        _option("--honor-resources/--no-honor-resources", panel=_INJECTION, text="Same as --existing-resources=add"),
    ] = _ABSENT,
    inject_hugepage_down_api: Annotated[
        bool | None,
        _option(
            "--injectHugepageDownApi/--no-injectHugepageDownApi",
            panel=_INJECTION,
            text="Publish hugepage requests and limits in /etc/podnetinfo",
        ),
    ] = _ABSENT,
    node_selector_conflict: Annotated[
        str | None,
        _option(
            "--node-selector-conflict",
            panel=_INJECTION,
            text="override (with a warning) or deny a Pod whose own value differs (default: override)",
        ),
    ] = _ABSENT,
    default_network_namespace: Annotated[
        str | None,
        _option(
            "--default-network-namespace",
            panel=_INJECTION,
            text="Where default networks without a namespace are looked up (default: kube-system)",
        ),
    ] = _ABSENT,
    log_level: Annotated[
        str | None, _option("--log-level", panel=_LOGS, text="debug, info, warning or error (default: info)")
    ] = _ABSENT,
    verbosity: Annotated[
        int | None, _option("-v", "--v", panel=_LOGS, text="4 and more mean --log-level debug")
    ] = _ABSENT,
    _logtostderr: Annotated[
        bool | None, _option("--logtostderr/--no-logtostderr", panel=_LOGS, text="", hidden=True)
    ] = _ABSENT,
    _alsologtostderr: Annotated[
        bool | None, _option("--alsologtostderr/--no-alsologtostderr", panel=_LOGS, text="", hidden=True)
    ] = _ABSENT,
    _vmodule: Annotated[str | None, _option("--vmodule", panel=_LOGS, text="", hidden=True)] = _ABSENT,
    _log_dir: Annotated[str | None, _option("--log_dir", "--log-dir", panel=_LOGS, text="", hidden=True)] = _ABSENT,
    _stderrthreshold: Annotated[str | None, _option("--stderrthreshold", panel=_LOGS, text="", hidden=True)] = _ABSENT,
    _log_backtrace_at: Annotated[
        str | None, _option("--log_backtrace_at", panel=_LOGS, text="", hidden=True)
    ] = _ABSENT,
    _log_link: Annotated[str | None, _option("--log_link", panel=_LOGS, text="", hidden=True)] = _ABSENT,
    _logbuflevel: Annotated[str | None, _option("--logbuflevel", panel=_LOGS, text="", hidden=True)] = _ABSENT,
) -> int:
    """Answer AdmissionReviews on /mutate and /validate over TLS."""
    flags = dict(locals())
    given = {name: value for name, value in flags.items() if value is not None and not name.startswith("_")}
    chatty = given.pop("verbosity", 0)
    if chatty >= 4:
        given.setdefault("log_level", "debug")
    if client_ca is not None:
        given["client_ca"] = tuple(client_ca)
    # Imported late: the runtime brings the whole server with it, which no other command needs.
    from app.runtime.role import run_webhook  # noqa: PLC0415

    return run_webhook(settings.load(given))
