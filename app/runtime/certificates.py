"""Composes the certificates role: a keeper of the webhook's certificate and of the gateway's."""

from __future__ import annotations

from datetime import datetime

from app.certs.controller import CONTROLLER, Keeper, Kept, Subject
from app.certs.metrics import create_series
from app.certs.patching import CONFIGURATIONS
from app.certs.webhooks import WebhookCertificates, WebhookOptions
from app.kube.client import KubeClient
from app.kube.metrics import create_controller_series, create_watch_series
from app.kube.resources import SECRETS
from app.runtime.background import connected, run_background
from app.runtime.manager import Runnable
from app.tenancy.authority.ensuring import ADMIN_SECRET, CA_SECRET, SERVING_SECRET, AuthorityOptions, ensure_authority
from app.tenancy.authority.settings import AuthoritySettings


def run_certificates(settings: AuthoritySettings) -> int:
    """Run until a signal and return the exit status."""
    return run_background(certificates_part(settings), settings, role="certificates")


def certificates_part(settings: AuthoritySettings) -> Runnable:
    """The keeper of these settings, to be run in a loop."""
    webhook, gateway = settings.webhook_options, settings.authority_options
    create_controller_series((CONTROLLER,), lease="")
    kinds = (SECRETS, *(CONFIGURATIONS if webhook else ()))
    create_watch_series(tuple(resource.kind for resource in kinds))

    def build(client: KubeClient) -> Runnable:
        subjects = [
            *([_webhook(client, webhook)] if webhook is not None else []),
            *([_gateway(client, gateway)] if gateway is not None else []),
        ]
        create_series([secret for subject in subjects for secret in subject.secrets])
        return Keeper(client, subjects, namespace=settings.namespace, resync=settings.resync_seconds)

    return connected(build, settings)


def _webhook(client: KubeClient, options: WebhookOptions) -> Subject:
    keep = WebhookCertificates(client, options).keep
    return Subject("webhook", keep, secrets=(options.secret,), configurations=options.configurations)


def _gateway(client: KubeClient, options: AuthorityOptions) -> Subject:
    async def keep(now: datetime) -> Kept:
        made = await ensure_authority(client, now=now, options=options)
        return Kept(made.ends, made.renewed, made.next_due)

    return Subject("gateway", keep, secrets=(CA_SECRET, SERVING_SECRET, ADMIN_SECRET))
