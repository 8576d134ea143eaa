"""The list of Berth's roles, in the order of the help. Code that treats all roles alike reads it."""

from __future__ import annotations

from app.wiring import Role

WEBHOOK = Role(
    name="webhook",
    command=("webhook",),
    settings="app.settings.webhook:WebhookSettings",
    run="app.runtime.webhook:run_webhook",
    summary="Answer AdmissionReviews on /mutate and /validate over TLS.",
    examples=(
        "berth webhook --tls-cert-file tls.crt --tls-private-key-file tls.key",
        "berth webhook --manifests nads --insecure",
        "berth webhook --client-ca ca.crt --client-ca old-ca.crt --workers 2",
    ),
    notes="One dash is enough (-insecure=true). Lists in variables have commas (BERTH_CLIENT_CA=a.crt,b.crt).",
    ignored=(
        "--logtostderr/--no-logtostderr",
        "--alsologtostderr/--no-alsologtostderr",
        "--vmodule",
        "--log_dir",
        "--log-dir",
        "--stderrthreshold",
        "--log_backtrace_at",
        "--log_link",
        "--logbuflevel",
    ),
)
CONTROLLER = Role(
    name="controller",
    command=("controller",),
    settings="app.settings.controller:ControllerSettings",
    run="app.runtime.controller:run_controller",
    summary="Reconcile companions and tenants in the infra cluster.",
    examples=("berth controller", "berth controller --controllers workloads --kubeconfig infra.kubeconfig"),
)
GATEWAY = Role(
    name="gateway",
    command=("gateway",),
    settings="app.settings.gateway:GatewaySettings",
    run="app.runtime.gateway:run_gateway",
    summary="Serve tenants and the cloud admin over gRPC with mutual TLS.",
    examples=(
        "berth gateway --tls-cert-file tls.crt --tls-private-key-file tls.key --client-ca ca.crt",
        "berth gateway --kubeconfig infra.kubeconfig --port 30001",
    ),
)
AGENT = Role(
    name="agent",
    command=("agent",),
    settings="app.settings.agent:AgentSettings",
    run="app.runtime.agent:run_agent",
    summary="Report the workloads of this tenant cluster to the infra cluster, and show here what runs there for them.",
    examples=(
        "berth agent --gateway 10.0.0.1:9090 --gateway-ca ca.crt --tls-cert-file a.crt --tls-private-key-file a.key",
    ),
)
CERTIFICATES = Role(
    name="certificates",
    command=("certs", "keep"),
    settings="app.settings.certificates:CertificatesSettings",
    run="app.runtime.certificates:run_certificates",
    summary="Keep certificates in Secrets, and webhook configurations trusting them.",
    examples=(
        "berth certs keep --namespace berth",
        "berth certs keep --namespace berth --webhook-service berth-webhook --configuration berth --gateway",
    ),
    notes="""Keeps the webhook's certificate in a Secret and its CA in every caBundle of the configurations that call
the Service, and with --gateway what berth tenant authority makes. Any number of replicas may run at once. The
annotation berth.dev/renew on the webhook's Secret (certificate, ca, or revoke after a theft) renews it at once.""",
)

ROLES = (WEBHOOK, CONTROLLER, GATEWAY, AGENT, CERTIFICATES)
