"""Has the API server of a cluster call a webhook that runs on this machine."""

from __future__ import annotations

from app.claims.model import DEFINITIONS_NAME
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.registration import Terms, further_webhooks, objects_to, pods_to
from app.registry import webhooks_of
from app.wire import JSON
from app.wiring import ReviewKind

_MUTATED: tuple[ReviewKind, ...] = ("appwrapper-defaults", "pod-templates")
_CHECKED: tuple[ReviewKind, ...] = (
    *("appwrappers", "rmd-pods", "rmdworkloads"),
    *("claim-pods", "claim-definitions", "device-classes"),
)

_TERMS = Terms(timeout_seconds=30)
"""The longest that an API server takes: all of a cluster shares the CPUs of this machine."""


async def register(
    client: KubeClient, *, port: int, bundle: str, infra: bool, every: bool = False, token: str = ""
) -> None:
    """For what is written from now on; in the infra cluster for what tenants run there, too.

    With `every` for AppWrappers, RMD and claims as well. `bundle` is the base64 value of caBundle. The `token` proves
    the API server to the webhook.
    """

    def calling(path: str) -> JSON:
        return {"url": f"https://127.0.0.1:{port}{path}", "caBundle": bundle}

    mutating = pods_to(calling("/mutate"), name="berth", webhook="mutate.berth.dev", terms=_TERMS)
    validating = objects_to(calling("/validate"), name="berth", webhook="validate.berth.dev", terms=_TERMS)
    if infra:
        validating["webhooks"] += further_webhooks("tenants", validating["webhooks"][0], exempt=_TERMS.exempt)
    if every:
        exempt = _TERMS.exempt
        sources = {"berth.ownNamespace": exempt, "berth.claimTemplatesName": (DEFINITIONS_NAME,)}
        for kind in _MUTATED:
            mutating["webhooks"] += further_webhooks(kind, mutating["webhooks"][0], exempt=exempt)
        for kind in _CHECKED:
            validating["webhooks"] += further_webhooks(kind, validating["webhooks"][0], exempt=exempt, sources=sources)
        # As in the chart: a driver must be able to write its status without Berth.
        called = validating["webhooks"][0] | {"failurePolicy": "Ignore"}
        validating["webhooks"] += further_webhooks("claim-status", called, exempt=exempt)
    proven = {f"{webhook.name}.berth.dev" for webhook in webhooks_of() if webhook.proven}
    for webhook in (*mutating["webhooks"], *validating["webhooks"]):
        if token and webhook["name"] in proven:
            webhook["clientConfig"] = {**webhook["clientConfig"], "url": f"{webhook['clientConfig']['url']}/{token}"}
    await client.apply(MUTATING_WEBHOOKS, "berth", mutating)
    await client.apply(VALIDATING_WEBHOOKS, "berth", validating)
