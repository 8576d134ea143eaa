"""`berth webhook`: parses the flags and hands over to the runtime.

Every flag of Network Resources Injector is here under its name; the flags of its logging library are accepted
and, but for `-v`, ignored.
"""

from __future__ import annotations

from typing import Annotated

from app.cli.options import (
    ABSENT,
    LOGS,
    PLACEMENT,
    SERVING,
    HealthPort,
    HostLabel,
    LogLevel,
    RefusedNames,
    ServersAddress,
    TenantAllow,
    given,
    option,
    paragraphs,
)
from app.settings import webhook as settings

SWITCHES = (
    "insecure",
    "enable-http2",
    "injectHugepageDownApi",
    "honor-resources",
    "confine-tenants",
    "events",
    "logtostderr",
    "alsologtostderr",
)

_TLS, _SOURCE, _INJECTION = "TLS", "Attachments", "Injection"

EPILOG = paragraphs("""Examples:

  berth webhook --tls-cert-file tls.crt --tls-private-key-file tls.key

  berth webhook --manifests nads --insecure

  berth webhook --client-ca ca.crt --client-ca old-ca.crt --workers 2

Environment: BERTH_ and the flag in capitals stand for every flag, lists with commas
(BERTH_DRAIN_SECONDS=10, BERTH_CLIENT_CA=a.crt,b.crt,
BERTH_INJECT_HUGEPAGE_DOWN_API=true); NAMESPACE for the namespace Berth runs in.
A flag beats the environment. One dash does as well as two (-insecure=true).

Exit status: 0 after a drained stop, 1 when stopped before that, 2 for a wrong flag or file.""")


def webhook(
    port: Annotated[int | None, option("--port", panel=SERVING, text="TLS port (default: 8443)")] = ABSENT,
    bind_address: ServersAddress = ABSENT,
    health_check_port: HealthPort = ABSENT,
    workers: Annotated[int | None, option("--workers", panel=SERVING, text="Worker processes (default: 1)")] = ABSENT,
    deadline_seconds: Annotated[
        float | None, option("--deadline-seconds", panel=SERVING, text="Longest time for one review (default: 8)")
    ] = ABSENT,
    drain_seconds: Annotated[
        float | None,
        option("--drain-seconds", panel=SERVING, text="How long to serve on after SIGTERM, unready (default: 5)"),
    ] = ABSENT,
    tls_cert_file: Annotated[
        str | None, option("--tls-cert-file", panel=_TLS, text="Serving certificate, PEM (default: cert.pem)")
    ] = ABSENT,
    tls_private_key_file: Annotated[
        str | None, option("--tls-private-key-file", panel=_TLS, text="Its private key, PEM (default: key.pem)")
    ] = ABSENT,
    insecure: Annotated[
        bool | None,
        option("--insecure/--no-insecure", panel=_TLS, text="Do not ask the API server for a client certificate"),
    ] = ABSENT,
    client_ca: Annotated[
        list[str] | None,
        option(
            "--client-ca", panel=_TLS, text="CA of client certificates; repeatable (default: the service account's CA)"
        ),
    ] = ABSENT,
    certificate_poll_seconds: Annotated[
        float | None,
        option("--certificate-poll-seconds", panel=_TLS, text="How often the TLS files are looked at (default: 10)"),
    ] = ABSENT,
    tls_min_version: Annotated[
        str | None,
        option("--tls-min-version", panel=_TLS, text="VersionTLS12 or VersionTLS13 (default: VersionTLS12)"),
    ] = ABSENT,
    tls_cipher_suites: Annotated[
        str | None, option("--tls-cipher-suites", panel=_TLS, text="Comma list of IANA cipher names")
    ] = ABSENT,
    tls_curve_preferences: Annotated[
        str | None, option("--tls-curve-preferences", panel=_TLS, text="Comma list of IANA curve numbers")
    ] = ABSENT,
    enable_http2: Annotated[
        bool | None,
        option("--enable-http2/--no-enable-http2", panel=_TLS, text="Accepted; Berth speaks HTTP/1.1 only"),
    ] = ABSENT,
    kubeconfig: Annotated[
        str | None, option("--kubeconfig", panel=_SOURCE, text="Cluster to read from (default: in-cluster)")
    ] = ABSENT,
    context: Annotated[str | None, option("--context", panel=_SOURCE, text="Context of the kubeconfig")] = ABSENT,
    manifests: Annotated[
        str | None,
        option("--manifests", panel=_SOURCE, text="Directory of YAML files instead of a cluster, reloaded on change"),
    ] = ABSENT,
    namespace: Annotated[
        str | None,
        option("--namespace", panel=_SOURCE, text="Namespace Berth runs in (default: $NAMESPACE or kube-system)"),
    ] = ABSENT,
    network_resource_name_keys: Annotated[
        str | None,
        option(
            "--network-resource-name-keys",
            panel=_INJECTION,
            text="Annotation keys on attachments that name a resource (default: k8s.v1.cni.cncf.io/resourceName)",
        ),
    ] = ABSENT,
    existing_resources: Annotated[
        str | None,
        option(
            "--existing-resources", panel=_INJECTION, text="top-up, skip or add what Pods ask for (default: top-up)"
        ),
    ] = ABSENT,
    honor_resources: Annotated[
        bool | None,
        option("--honor-resources/--no-honor-resources", panel=_INJECTION, text="Same as --existing-resources=add"),
    ] = ABSENT,
    inject_hugepage_down_api: Annotated[
        bool | None,
        option(
            "--injectHugepageDownApi/--no-injectHugepageDownApi",
            panel=_INJECTION,
            text="Publish hugepage requests and limits in /etc/podnetinfo",
        ),
    ] = ABSENT,
    node_selector_conflict: Annotated[
        str | None,
        option(
            "--node-selector-conflict",
            panel=_INJECTION,
            text="override (with a warning) or deny a Pod whose own value differs (default: override)",
        ),
    ] = ABSENT,
    default_network_namespace: Annotated[
        str | None,
        option(
            "--default-network-namespace",
            panel=_INJECTION,
            text="Where default networks without a namespace are looked up (default: kube-system)",
        ),
    ] = ABSENT,
    confine_tenants: Annotated[
        bool | None,
        option(
            "--confine-tenants/--no-confine-tenants",
            panel=PLACEMENT,
            text="Keep Pods in tenants' namespaces on the tenants' DPUs; reads namespaces (default: off)",
        ),
    ] = ABSENT,
    tenant_allow: TenantAllow = ABSENT,
    host_label: HostLabel = ABSENT,
    tenant_node_label: Annotated[
        str | None,
        option(
            "--tenant-node-label",
            panel=PLACEMENT,
            text="Label of DPU nodes that names their tenant (default: berth.dev/tenant)",
        ),
    ] = ABSENT,
    admin_names: RefusedNames = ABSENT,
    events: Annotated[
        bool | None,
        option("--events/--no-events", panel=SERVING, text="Tell the owner of a denied Pod by an Event (default: on)"),
    ] = ABSENT,
    log_level: LogLevel = ABSENT,
    verbosity: Annotated[
        int | None, option("-v", "--v", panel=LOGS, text="4 and more mean --log-level debug")
    ] = ABSENT,
    _logtostderr: Annotated[
        bool | None, option("--logtostderr/--no-logtostderr", panel=LOGS, text="", hidden=True)
    ] = ABSENT,
    _alsologtostderr: Annotated[
        bool | None, option("--alsologtostderr/--no-alsologtostderr", panel=LOGS, text="", hidden=True)
    ] = ABSENT,
    _vmodule: Annotated[str | None, option("--vmodule", panel=LOGS, text="", hidden=True)] = ABSENT,
    _log_dir: Annotated[str | None, option("--log_dir", "--log-dir", panel=LOGS, text="", hidden=True)] = ABSENT,
    _stderrthreshold: Annotated[str | None, option("--stderrthreshold", panel=LOGS, text="", hidden=True)] = ABSENT,
    _log_backtrace_at: Annotated[str | None, option("--log_backtrace_at", panel=LOGS, text="", hidden=True)] = ABSENT,
    _log_link: Annotated[str | None, option("--log_link", panel=LOGS, text="", hidden=True)] = ABSENT,
    _logbuflevel: Annotated[str | None, option("--logbuflevel", panel=LOGS, text="", hidden=True)] = ABSENT,
) -> int:
    """Answer AdmissionReviews on /mutate and /validate over TLS."""
    flags = given(locals())
    if (flags.pop("verbosity", None) or 0) >= 4:  # type: ignore[operator]  # Typer parsed a number
        flags.setdefault("log_level", "debug")
    if client_ca is not None:
        flags["client_ca"] = tuple(client_ca)
    # Imported late: the runtime brings the whole server with it, which no other command needs.
    from app.runtime.webhook import run_webhook  # noqa: PLC0415

    return run_webhook(settings.load(flags))
