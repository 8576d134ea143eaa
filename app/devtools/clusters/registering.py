"""Has the API server of a cluster call a webhook that runs on this machine."""

from __future__ import annotations

from app.claims.model import DEFINITIONS_NAME
from app.devtools.clusters.release import labels_of
from app.kube.client import KubeClient
from app.kube.resources import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.registration import Terms, further_webhooks, objects_to, pods_to
from app.registry import ALWAYS_REVIEWED, REVIEWED, webhooks_of
from app.wire import JSON
from app.wiring import RELEASE_NAMESPACE

_TERMS = Terms(exempt=("kube-system", RELEASE_NAMESPACE), timeout_seconds=30)
"""The longest that an API server takes: all of a cluster shares the CPUs of this machine."""


async def register(
    client: KubeClient, *, address: str, bundle: str, infra: bool, every: bool = False, token: str = ""
) -> None:
    """For what is written from now on; in the infra cluster for what tenants run there, too.

    The webhook is at `address` (`host:port`). With `every` for AppWrappers, RMD and claims as well. `bundle` is the
    base64 value of caBundle. The `token` proves the API server to the webhook.
    """

    def calling(path: str) -> JSON:
        return {"url": f"https://{address}{path}", "caBundle": bundle}

    mutating = pods_to(calling("/mutate"), name="berth", webhook="mutate.berth.dev", terms=_TERMS)
    validating = objects_to(calling("/validate"), name="berth", webhook="validate.berth.dev", terms=_TERMS)
    if infra:
        validating["webhooks"] += further_webhooks("tenants", validating["webhooks"][0], exempt=_TERMS.exempt)
    if every:
        exempt = _TERMS.exempt
        sources = {"berth.ownNamespace": exempt, "berth.claimTemplatesName": (DEFINITIONS_NAME,)}
        for kind, answer in REVIEWED.items():
            if kind in ALWAYS_REVIEWED:
                continue
            webhooks = (mutating if answer == "mutate" else validating)["webhooks"]
            # As in the chart: a driver must be able to write its status without Berth.
            called = webhooks[0] | ({"failurePolicy": "Ignore"} if kind == "claim-status" else {})
            webhooks += further_webhooks(kind, called, exempt=exempt, sources=sources)
    proven = {f"{webhook.name}.berth.dev" for webhook in webhooks_of() if webhook.proven}
    for webhook in (*mutating["webhooks"], *validating["webhooks"]):
        if token and webhook["name"] in proven:
            webhook["clientConfig"] = {**webhook["clientConfig"], "url": f"{webhook['clientConfig']['url']}/{token}"}
    for resource, configuration in ((MUTATING_WEBHOOKS, mutating), (VALIDATING_WEBHOOKS, validating)):
        configuration["metadata"]["labels"] = labels_of("webhook")
        await client.apply(resource, "berth", configuration)
