"""The descriptor of the wing, with the role that keeps certificates."""

from __future__ import annotations

from app.wiring import Argument, Chart, Role, Wing

CERTIFICATES = Role(
    name="certificates",
    settings="app.certs.settings:CertificatesSettings",
    build="app.runtime.certificates:build",
    summary="Keep certificates in Secrets, and webhook configurations trusting them.",
    examples=(
        "berth certificates --namespace berth",
        "berth certificates --namespace berth --webhook-service berth-webhook --configuration berth --gateway",
    ),
    notes="""Keeps the webhook's certificate in a Secret and its CA in every caBundle of the configurations that call
the Service, with --ui-service the certificate of berth ui, and with --gateway what berth tenant authority makes. Any
number of replicas may run at once. The annotation berth.dev/renew on the Secret of webhook or page (certificate, ca, or
revoke after a theft) renews it at once.""",
    chart=Chart(
        enabled="berth.keepsCertificates",
        arguments=(
            Argument("namespace", "berth.namespace"),
            Argument("days", "certificates.days"),
            Argument("ca_days", "certificates.authorityDays"),
            Argument("webhook_service", "berth.webhookService", always=True),
            Argument("webhook_secret", "berth.webhookSecret", when="webhook.enabled"),
            Argument("configuration", "berth.fullname", when="webhook.enabled"),
            Argument("ui_service", "berth.uiService"),
            Argument("ui_secret", "berth.uiSecret", when="berth.keepsUiCertificate"),
            Argument("gateway", "gateway.enabled", always=True),
            Argument("gateway_service", "berth.gatewayService", when="gateway.enabled"),
            Argument("gateway_dns", "gateway.certificate.dnsNames", when="gateway.enabled"),
            Argument("gateway_address", "gateway.certificate.addresses", when="gateway.enabled"),
        ),
        grace=(5,),
    ),
    when_down="certificates are not renewed",
    when_refused={
        "secrets": "certificates are not renewed: when they expire, every call of the webhook or to the gateway fails",
        "": "a new CA is not written into caBundle: the API server will refuse the webhook's certificate",
    },
)

WING = Wing(
    "certs",
    permissions="app.certs.permissions:PERMISSIONS",
    metrics={"app.certs.controller": ("certificates",)},
    roles=(CERTIFICATES,),
)
