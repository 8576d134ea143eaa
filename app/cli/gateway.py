"""`berth gateway`: parses the flags and hands over to the runtime."""

from __future__ import annotations

from typing import Annotated

from app.cli.options import (
    ABSENT,
    SERVING,
    Context,
    HealthPort,
    HostLabel,
    InfraKubeconfig,
    LogLevel,
    ServersAddress,
    TenantAllow,
    TenantNodeLabel,
    given,
    option,
    paragraphs,
)
from app.settings import gateway as settings

_TLS, _LIMITS = "TLS", "Limits of a tenant"

EPILOG = paragraphs("""Examples:

  berth gateway --tls-cert-file tls.crt --tls-private-key-file tls.key --client-ca ca.crt

  berth gateway --kubeconfig infra.kubeconfig --port 30001

Environment: BERTH_ and the flag in capitals stand for every flag, lists with commas.
A flag beats the environment.

Exit status: 0 after a drained stop, 1 after a fault, 2 for a wrong flag or file.""")


def gateway(
    port: Annotated[int | None, option("--port", panel=SERVING, text="gRPC port (default: 9090)")] = ABSENT,
    bind_address: ServersAddress = ABSENT,
    health_check_port: HealthPort = ABSENT,
    drain_seconds: Annotated[
        float | None,
        option("--drain-seconds", panel=SERVING, text="How long calls under way may take after SIGTERM (default: 5)"),
    ] = ABSENT,
    tls_cert_file: Annotated[
        str | None, option("--tls-cert-file", panel=_TLS, text="Serving certificate, PEM (default: tls.crt)")
    ] = ABSENT,
    tls_private_key_file: Annotated[
        str | None, option("--tls-private-key-file", panel=_TLS, text="Its private key, PEM (default: tls.key)")
    ] = ABSENT,
    client_ca: Annotated[
        str | None,
        option("--client-ca", panel=_TLS, text="CAs of tenants' and the admin's certificates, PEM (default: ca.crt)"),
    ] = ABSENT,
    admin_names: Annotated[
        str | None,
        option("--admin-names", panel=_TLS, text="Comma list of the cloud admin's names (default: cloud-admin.local)"),
    ] = ABSENT,
    admin_ca: Annotated[
        str | None,
        option("--admin-ca", panel=_TLS, text="CAs of --client-ca that issue the cloud admin's, PEM (default: any)"),
    ] = ABSENT,
    max_message_bytes: Annotated[
        int | None, option("--max-message-bytes", panel=_LIMITS, text="Largest message read (default: 4194304)")
    ] = ABSENT,
    streams_per_tenant: Annotated[
        int | None, option("--streams-per-tenant", panel=_LIMITS, text="Streams open at a time (default: 8)")
    ] = ABSENT,
    calls_per_second: Annotated[
        float | None, option("--calls-per-second", panel=_LIMITS, text="Unary calls, for long (default: 50)")
    ] = ABSENT,
    calls_burst: Annotated[
        int | None, option("--calls-burst", panel=_LIMITS, text="Unary calls, at once (default: 200)")
    ] = ABSENT,
    workloads_per_tenant: Annotated[
        int | None,
        option(
            "--workloads-per-tenant",
            panel=_LIMITS,
            text="Workloads taken, of 4 KiB each in all, and 8 rules for all (default: 20000)",
        ),
    ] = ABSENT,
    writes_per_tenant: Annotated[
        int | None,
        option("--writes-per-tenant", panel=_LIMITS, text="Writes to the API server under way (default: 4)"),
    ] = ABSENT,
    host_label: HostLabel = ABSENT,
    tenant_node_label: TenantNodeLabel = ABSENT,
    tenant_allow: TenantAllow = ABSENT,
    kubeconfig: InfraKubeconfig = ABSENT,
    context: Context = ABSENT,
    log_level: LogLevel = ABSENT,
) -> int:
    """Serve tenants and the cloud admin over gRPC with mutual TLS."""
    loaded = settings.load(given(locals()))
    # Imported late: the runtime brings the servers with it, which no other command needs.
    from app.runtime.gateway import run_gateway  # noqa: PLC0415

    return run_gateway(loaded)
