"""`berth agent`: parses the flags and hands over to the runtime."""

from __future__ import annotations

from typing import Annotated

from app.cli.options import ABSENT, CLUSTER, Context, HealthAddress, HealthPort, LogLevel, given, option, paragraphs
from app.settings import agent as settings

SWITCHES = ("leader-elect", "keep-finished")
_GATEWAY, _WORK = "Gateway", "What is told"

EPILOG = paragraphs("""Examples:

  berth agent --gateway 10.133.133.1:30001 --gateway-ca ca.crt --tls-cert-file tls.crt --tls-private-key-file tls.key

Environment: BERTH_ and the flag in capitals stand for every flag; NAMESPACE for
the namespace of rules, UVS objects and mirrors. A flag beats the environment.

Exit status: 0 after a stop, 1 after a fault, 2 for a wrong flag or file.""")


def agent(
    gateway: Annotated[
        str | None, option("--gateway", panel=_GATEWAY, text="HOST:PORT of the gateway (required)")
    ] = ABSENT,
    gateway_name: Annotated[
        str | None,
        option("--gateway-name", panel=_GATEWAY, text="Name in its certificate (default: api-gateway.local)"),
    ] = ABSENT,
    gateway_ca: Annotated[
        str | None, option("--gateway-ca", panel=_GATEWAY, text="CA of its certificate, PEM (default: ca.crt)")
    ] = ABSENT,
    tls_cert_file: Annotated[
        str | None, option("--tls-cert-file", panel=_GATEWAY, text="The tenant's certificate, PEM (default: tls.crt)")
    ] = ABSENT,
    tls_private_key_file: Annotated[
        str | None, option("--tls-private-key-file", panel=_GATEWAY, text="Its private key, PEM (default: tls.key)")
    ] = ABSENT,
    tenant: Annotated[
        str | None,
        option("--tenant", panel=_GATEWAY, text="The tenant's name, to be held against the certificate"),
    ] = ABSENT,
    kubeconfig: Annotated[
        str | None, option("--kubeconfig", panel=CLUSTER, text="The tenant cluster (default: in-cluster)")
    ] = ABSENT,
    context: Context = ABSENT,
    namespace: Annotated[
        str | None,
        option(
            "--namespace",
            panel=CLUSTER,
            text="Namespace of rules, UVS objects, mirrors and the Lease (default: $NAMESPACE or universe)",
        ),
    ] = ABSENT,
    configmap_name: Annotated[
        str | None,
        option("--configmap-name", panel=_WORK, text="Names the namespaces to watch (default: workload-plugin-config)"),
    ] = ABSENT,
    configmap_namespace: Annotated[
        str | None, option("--configmap-namespace", panel=_WORK, text="Its namespace (default: universe)")
    ] = ABSENT,
    keep_finished: Annotated[
        bool | None,
        option("--keep-finished/--no-keep-finished", panel=_WORK, text="Pods that have finished keep their companions"),
    ] = ABSENT,
    resync_seconds: Annotated[
        float | None, option("--resync-seconds", panel=_WORK, text="How often everything is told anew (default: 60)")
    ] = ABSENT,
    leader_elect: Annotated[
        bool | None,
        option("--leader-elect/--no-leader-elect", panel=_WORK, text="Work only while holding the Lease (default: on)"),
    ] = ABSENT,
    bind_address: HealthAddress = ABSENT,
    health_check_port: HealthPort = ABSENT,
    log_level: LogLevel = ABSENT,
) -> int:
    """Tell the infra cluster what runs in this tenant cluster, and show here what runs there for it."""
    loaded = settings.load(given(locals()))
    # Imported late: the runtime brings the servers with it, which no other command needs.
    from app.runtime.agent import run_agent  # noqa: PLC0415

    return run_agent(loaded)
