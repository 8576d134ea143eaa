"""Puts the review of statuses together."""

from __future__ import annotations

from app.admission.parts import EXEMPT, Context, Parts
from app.claims.admission.status_check import ClaimStatusCheck
from app.claims.admission.stored import stored_claim, stored_network_pod
from app.claims.admission.views import BY_ADDRESS, BY_POD, Views
from app.claims.publishing.attachments import stored_attachment
from app.claims.settings import AdmissionSettings
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS


def statuses(context: Context, settings: AdmissionSettings) -> Parts:
    """The check, with a cache of claims, of Pods and of attachments, each with what it needs of them alone."""
    caches = context.caches
    views = Views(
        claims=caches.cache(
            RESOURCE_CLAIMS,
            stored_claim,
            indices={
                BY_ADDRESS: lambda claim: claim.addresses(),
                BY_POD: lambda claim: [claim.pod.uid] if claim.pod is not None else [],
            },
            volatile=True,
        ),
        pods=caches.cache(PODS, stored_network_pod, indices={BY_ADDRESS: lambda pod: pod.addresses()}, volatile=True),
        attachments=caches.cache(NETWORK_ATTACHMENTS, stored_attachment),
    )
    check = ClaimStatusCheck(
        views,
        denied=frozenset(settings.claims_deny_drivers),
        exempt=frozenset({EXEMPT, context.namespace}),
    )
    return Parts(checks=(check,))
