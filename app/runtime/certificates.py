"""Builds the certificates role, which keeps the certificates of webhook, gateway and page."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from app.certs.controller import Keeper, Kept, Subject, WebhookCertificates
from app.kube.client import KubeClient
from app.kube.events import EventRecorder
from app.kube.kit import Kit
from app.settings.reconciling import RoleContext, Runnable
from app.settings.source import settings_as
from app.tenancy.authority import AuthorityOptions, AuthoritySettings, ensure_authority
from app.tenancy.model import ADMIN_SECRET, CA_SECRET, SERVING_SECRET


def build(context: RoleContext) -> Runnable:
    settings = settings_as(context.settings, AuthoritySettings)
    gateway = settings.authority_options

    def keeper(client: KubeClient, events: EventRecorder) -> Runnable:
        subjects = []
        if settings.webhook_service:
            keep = WebhookCertificates(client, settings).keep
            subjects.append(Subject("webhook", keep, (settings.webhook_secret,), settings.configuration))
        if settings.ui_service:
            keep = WebhookCertificates(client, _for_page(settings), dns=("localhost",)).keep
            subjects.append(Subject("ui", keep, (settings.ui_secret,)))
        if gateway is not None:
            keep = partial(_keep_authority, client, gateway)
            subjects.append(Subject("gateway", keep, secrets=(CA_SECRET, SERVING_SECRET, ADMIN_SECRET)))
        kit = Kit(client, events=events, resync=settings.resync_seconds)
        Keeper(kit, subjects, namespace=settings.namespace)
        return kit

    return context.elected(keeper)


def _for_page(settings: AuthoritySettings) -> AuthoritySettings:
    """Those of a certificate for the Service of the page, which no webhook configuration trusts."""
    own = {"webhook_service": settings.ui_service, "webhook_secret": settings.ui_secret, "configuration": ()}
    return settings.model_copy(update=own)


async def _keep_authority(client: KubeClient, options: AuthorityOptions, now: datetime) -> Kept:
    made = await ensure_authority(client, now=now, options=options)
    return Kept(made.ends, made.renewed, made.next_due)
