"""Check `appwrappers`: which controllers act on AppWrappers; which of these have none, cannot run or cannot go."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Container, Iterator

from app.appwrappers.model import APP_WRAPPERS
from app.appwrappers.settings import AdmissionSettings, WrappedKindsSettings
from app.appwrappers.why.app_wrappers import MOST_JUDGED, UNJUDGED
from app.appwrappers.why.controllers import (
    INTEGRATION,
    KUEUE_CONFIG,
    PEER,
    integrates,
    kueue_configuration,
    names_in,
)
from app.definitions import definition_name
from app.doctor import acting, commands
from app.doctor.catalog import listed
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, error, info, or_default, warning
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, VALIDATING_WEBHOOKS
from app.text import several
from app.why.examined import examine_each
from app.why.model import Verdict
from app.wire import JSON, mapping
from app.wiring import OFF

_MOST = 100
_EXTERNAL = f"{APP_WRAPPERS.kind}.{APP_WRAPPERS.version}.{APP_WRAPPERS.group}"
"""How Kueue names a kind in `integrations.externalFrameworks`."""
_EXCLUSION = ("kubernetes.io/metadata.name", "NotIn")
_WEBHOOK, _PEERS_WEBHOOK = "appwrappers.berth.dev", "appwrapper-validating-webhook-configuration"


async def _controllers(cluster: Cluster) -> AsyncIterator[Finding]:
    """Of each controller, one has to act: ours, or that of the peer."""
    if await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, definition_name(APP_WRAPPERS)) is None:
        return
    ours = await cluster.controllers()
    async for finding in acting.beside(cluster, "appwrappers", "BERTH4001", PEER):
        yield finding
    if "appwrappers" in ours and not await _is_checked(cluster):
        yield error("BERTH4002", "", command=await commands.helm(cluster, "webhook.args.appwrappers=true"))
    if "appwrappers" in ours and await _trusts_records(cluster) and not await _writes_records(cluster):
        values = ("webhook.args.appwrappers=true", "webhook.args.appwrapperStrict=true")
        yield error("BERTH4008", "", command=await commands.helm(cluster, *values))
    if (configuration := await kueue_configuration(cluster)) is not None:
        async for finding in _beside_kueue(cluster, ours, configuration):
            yield finding


async def _beside_kueue(cluster: Cluster, ours: Container[str], configuration: JSON) -> AsyncIterator[Finding]:
    """One makes the Workloads, and Kueue knows of it."""
    integrations = mapping(configuration.get("integrations"))
    kueues = integrates(configuration)
    if "appwrapper-workloads" in ours and kueues:
        fix = await acting.choose(cluster, without=["appwrapper-workloads"])
        yield error("BERTH4003", KUEUE_CONFIG, integration=INTEGRATION, command=fix)
    elif "appwrapper-workloads" in ours:
        if _EXTERNAL not in names_in(integrations.get("externalFrameworks")):
            yield error("BERTH4009", KUEUE_CONFIG, external=_EXTERNAL)
        if settings := [*_without_effect(configuration)]:
            yield warning("BERTH4010", KUEUE_CONFIG, settings=listed(settings))
    if "appwrappers" in ours and "appwrapper-workloads" not in ours and not kueues:
        fix = await acting.choose(cluster, "appwrapper-workloads")
        yield warning("BERTH4004", "", integration=INTEGRATION, command=fix)


async def _is_checked(cluster: Cluster) -> bool:
    """Whether a webhook is called that asks for the rights of users: Berth's, or that of AppWrapper v1.2."""
    registered = await or_default(cluster.listed(VALIDATING_WEBHOOKS), None)
    if registered is None:
        return True  # the check of registrations says what may not be read
    names = {str(hook.get("name")) for configuration in registered for hook in configuration.get("webhooks") or ()}
    configurations = {configuration["metadata"]["name"] for configuration in registered}
    return _WEBHOOK in names or _PEERS_WEBHOOK in configurations


async def _trusts_records(cluster: Cluster) -> bool:
    """Whether the controller creates as the users whom admission has recorded."""
    return (await cluster.settings(WrappedKindsSettings, role="controller")).appwrapper_impersonation != OFF


async def _writes_records(cluster: Cluster) -> bool:
    """Whether Berth's webhook is called, and records who creates an AppWrapper."""
    configurations = await or_default(cluster.listed(VALIDATING_WEBHOOKS), [])
    called = any(
        hook.get("name") == _WEBHOOK for configuration in configurations for hook in configuration.get("webhooks") or ()
    )
    return called and (await cluster.settings(AdmissionSettings)).appwrapper_strict


def _without_effect(configuration: JSON) -> Iterator[str]:
    """The settings that Kueue applies to jobs of the kinds that it manages itself alone."""
    if configuration.get("manageJobsWithoutQueueName"):
        yield "manageJobsWithoutQueueName"
    selector = mapping(configuration.get("managedJobsNamespaceSelector"))
    terms = [mapping(term) for term in names_in(selector.get("matchExpressions"))]
    # The example in Kueue's configuration excludes kube-system and kueue-system by name. That is no finding.
    if selector.get("matchLabels") or any((term.get("key"), term.get("operator")) != _EXCLUSION for term in terms):
        yield "managedJobsNamespaceSelector"
    if names_in(mapping(configuration.get("integrations")).get("labelKeysToCopy")):
        yield "integrations.labelKeysToCopy"
    retention = mapping(mapping(configuration.get("objectRetentionPolicies")).get("workloads"))
    if retention.get("afterDeactivatedByKueue") is not None:
        yield "objectRetentionPolicies.workloads.afterDeactivatedByKueue"


async def _app_wrappers(cluster: Cluster) -> AsyncIterator[Finding]:
    """The verdict on each, and how many are not judged over their Pods."""
    codes = Counter[str]()

    def count(verdict: Verdict) -> None:
        codes.update(verdict.codes)

    async for finding in examine_each(cluster, APP_WRAPPERS, most=_MOST, noun="AppWrapper", seen=count):
        yield finding
    if unjudged := codes[UNJUDGED]:
        yield info("BERTH4014", "", count=several(unjudged, "AppWrapper"), most=MOST_JUDGED)


CHECK = Check("appwrappers", (_controllers, _app_wrappers), of_users=(_app_wrappers,))
