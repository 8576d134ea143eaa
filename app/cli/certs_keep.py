"""`berth certs keep`: parses the flags and hands over to the runtime."""

from __future__ import annotations

from typing import Annotated

from app.cli.options import ABSENT, CLUSTER, Context, HealthAddress, HealthPort, LogLevel, given, option, paragraphs
from app.settings import certificates as settings

_WEBHOOK, _GATEWAY, _LIVES = "Webhook", "Gateway", "Certificates"

EPILOG = paragraphs("""Examples:

  berth certs keep --namespace berth

  berth certs keep --namespace berth --webhook-service berth-webhook --configuration berth --gateway

Keeps the webhook's certificate in a Secret and its CA in every caBundle of the configurations that call the Service,
and with --gateway what berth tenant authority makes. Any number of replicas may run at once. The annotation
berth.dev/renew on the webhook's Secret (certificate, ca, or revoke after a theft) has it renewed at once.

Environment: BERTH_ and the flag in capitals stand for every flag, lists with commas; NAMESPACE for the namespace.
A flag beats the environment.

Exit status: 0 after a stop, 1 after a fault, 2 for a wrong flag.""")


def keep(
    webhook_service: Annotated[
        str | None,
        option(
            "--webhook-service", panel=_WEBHOOK, text='Service it is called by; "" for none (default: berth-webhook)'
        ),
    ] = ABSENT,
    webhook_secret: Annotated[
        str | None,
        option("--webhook-secret", panel=_WEBHOOK, text="Secret of its certificate (default: berth-webhook-tls)"),
    ] = ABSENT,
    configuration: Annotated[
        list[str] | None,
        option("--configuration", panel=_WEBHOOK, text="Webhook configurations of a name; repeatable (default: berth)"),
    ] = ABSENT,
    gateway: Annotated[
        bool | None, option("--gateway/--no-gateway", panel=_GATEWAY, text="Keep the gateway's certificates too")
    ] = ABSENT,
    gateway_service: Annotated[
        str | None, option("--gateway-service", panel=_GATEWAY, text="Its Service (default: berth-gateway)")
    ] = ABSENT,
    gateway_dns: Annotated[
        list[str] | None, option("--gateway-dns", panel=_GATEWAY, text="One more name of the gateway; repeatable")
    ] = ABSENT,
    gateway_address: Annotated[
        list[str] | None,
        option("--gateway-address", panel=_GATEWAY, text="One more address of the gateway; repeatable"),
    ] = ABSENT,
    days: Annotated[
        int | None, option("--days", panel=_LIVES, text="Days that certificates are valid (default: 365)")
    ] = ABSENT,
    ca_days: Annotated[
        int | None, option("--ca-days", panel=_LIVES, text="Days that a new CA is valid (default: 3650)")
    ] = ABSENT,
    resync_seconds: Annotated[
        float | None,
        option("--resync-seconds", panel=_LIVES, text="How often everything is looked at anew (default: 60)"),
    ] = ABSENT,
    kubeconfig: Annotated[
        str | None, option("--kubeconfig", panel=CLUSTER, text="The cluster (default: in-cluster)")
    ] = ABSENT,
    context: Context = ABSENT,
    namespace: Annotated[
        str | None,
        option("--namespace", panel=CLUSTER, text="Of the Secrets and Services (default: $NAMESPACE or universe)"),
    ] = ABSENT,
    bind_address: HealthAddress = ABSENT,
    health_check_port: HealthPort = ABSENT,
    log_level: LogLevel = ABSENT,
) -> int:
    """Keep certificates in Secrets, and webhook configurations trusting them."""
    loaded = settings.load(given(locals()))
    # Imported late: the runtime brings the servers with it, which no other command needs.
    from app.runtime.certificates import run_certificates  # noqa: PLC0415

    return run_certificates(loaded)
