"""Has the API server of a cluster call a webhook that runs on this machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.claims.model import DEFINITIONS_NAME
from app.devtools.clusters.release import labels_of
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.registration import further_webhooks
from app.registry import REVIEWED, webhooks_of
from app.wire import JSON
from app.wiring import RELEASE_NAMESPACE

_EXEMPT = ("kube-system", RELEASE_NAMESPACE)
_SOURCES = {"berth.ownNamespace": (RELEASE_NAMESPACE,), "berth.claimTemplatesName": (DEFINITIONS_NAME,)}
_TIMEOUT_SECONDS = 30
"""The longest that an API server takes: all of a cluster shares the CPUs of this machine."""


async def register(
    client: KubeClient, *, address: str, bundle: str, settings: Mapping[str, Any], token: str = ""
) -> None:
    """For what is written from now on, as the chart registers a webhook with these settings.

    The webhook is at `address` (`host:port`). `bundle` is the base64 value of caBundle. The `token` proves the API
    server to the webhook.
    """
    proven = {f"{webhook.name}.berth.dev" for webhook in webhooks_of() if webhook.proven}
    for resource, answer in ((MUTATING_WEBHOOKS, "mutate"), (VALIDATING_WEBHOOKS, "validate")):
        url = f"https://{address}/{answer}"
        called: JSON = {
            "clientConfig": {"url": url, "caBundle": bundle},
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Fail",
            "sideEffects": "NoneOnDryRun",
            "timeoutSeconds": _TIMEOUT_SECONDS,
        } | ({"reinvocationPolicy": "IfNeeded"} if resource == MUTATING_WEBHOOKS else {})
        webhooks = list[JSON]()
        for kind in dict.fromkeys(webhook.kind for webhook in webhooks_of() if REVIEWED[webhook.kind] == answer):
            # A driver must be able to write its status without Berth.
            terms = called | ({"failurePolicy": "Ignore"} if kind == "claim-status" else {})
            webhooks += further_webhooks(kind, terms, exempt=_EXEMPT, sources=_SOURCES, settings=settings)
        for webhook in webhooks:
            if token and webhook["name"] in proven:
                webhook["clientConfig"] = {**webhook["clientConfig"], "url": f"{url}/{token}"}
        metadata = {"name": "berth", "labels": labels_of("webhook")}
        await client.apply(resource, "berth", resource.body(metadata, webhooks=webhooks))
