"""Builds the certificates role, which keeps the webhook's certificate and the gateway's: two wings have one each."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from app.certs.controller import CONTROLLER, Keeper, Kept, Subject
from app.certs.metrics import create_series
from app.certs.patching import CONFIGURATIONS
from app.certs.webhooks import WebhookCertificates
from app.kube.client import KubeClient
from app.kube.metrics import create_controller_series, create_watch_series
from app.kube.resources import SECRETS
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as
from app.tenancy.authority.ensuring import AuthorityOptions, AuthoritySettings, ensure_authority
from app.tenancy.authority.names import ADMIN_SECRET, CA_SECRET, SERVING_SECRET


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, AuthoritySettings)
    gateway = settings.authority_options
    create_controller_series((CONTROLLER,), lease="")
    kinds = (SECRETS, *(CONFIGURATIONS if settings.webhook_service else ()))
    create_watch_series(tuple(resource.kind for resource in kinds))

    def keeper(client: KubeClient) -> Runnable:
        subjects = []
        if settings.webhook_service:
            keep = WebhookCertificates(client, settings).keep
            subjects.append(Subject("webhook", keep, (settings.webhook_secret,), settings.configuration))
        if gateway is not None:
            keep = partial(_keep_authority, client, gateway)
            subjects.append(Subject("gateway", keep, secrets=(CA_SECRET, SERVING_SECRET, ADMIN_SECRET)))
        create_series([secret for subject in subjects for secret in subject.secrets])
        return Keeper(client, subjects, namespace=settings.namespace, resync=settings.resync_seconds)

    return context.connected(keeper)


async def _keep_authority(client: KubeClient, options: AuthorityOptions, now: datetime) -> Kept:
    made = await ensure_authority(client, now=now, options=options)
    return Kept(made.ends, made.renewed, made.next_due)
