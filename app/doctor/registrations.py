"""Check `registrations`: do the webhook configurations call Berth for all objects that it must see, and for no others.

Here is whether they are there, are as Berth registers them, and are the only ones; `coverage` has what they leave out.
The check `certificate` covers the CAs that they trust, `reachability` whether Berth answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from math import ceil

from app.doctor import commands, coverage, namespaces, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import REGISTERED, Check, Finding, Severity, error, info, noted, sound, warning
from app.doctor.webhooks import Registered, differences
from app.errors import ApiError
from app.kube.resources import (
    EVENTS,
    JOBS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.registry import ALWAYS_REVIEWED, webhooks_of
from app.wiring import REGISTRATION_DELETED

_DEADLINE = 8.0
_OF_TIMEOUT = 0.9
"""API servers say how long they wait, and the webhook answers within this part of it."""
_OF_DRIVERS = "webhook.webhooks.claims"
"""Checks what drivers publish. By default it fails open and has less time, so that no driver waits for Berth."""
_FORERUNNER = "network-resources-injector-mutating-config"
_HOOK = "helm.sh/hook"


async def _absent(cluster: Cluster) -> AsyncIterator[Finding]:
    webhooks = await cluster.registered()
    if webhooks or "webhook" in await cluster.expected_roles():
        if not any(webhook.mutating for webhook in webhooks):
            fix, deleted = await registering(cluster, webhooks), await _deletion(cluster, MUTATING_WEBHOOKS)
            kind = MUTATING_WEBHOOKS.kind
            yield error("BERTH0501", kind, command=fix, explains=(REGISTERED,), deleted=deleted)
        if all(webhook.mutating for webhook in webhooks):
            fix, deleted = await registering(cluster, webhooks), await _deletion(cluster, VALIDATING_WEBHOOKS)
            yield warning("BERTH0501", VALIDATING_WEBHOOKS.kind, case="validating", command=fix, deleted=deleted)
        fix = for_pods(cluster, webhooks)
        if fix and not any(webhook.injects for webhook in await cluster.of_all_releases()):
            yield info("BERTH0501", MUTATING_WEBHOOKS.kind, "none calls Berth for Pods", command=fix)


async def _deletion(cluster: Cluster, resource: Resource) -> str:
    """What was deleted, and when, for the end of a message; "" where no Event of the role `certificates` says it.

    An API server keeps Events for an hour.
    """
    times: dict[str, str] = {}
    try:
        async for event in cluster.paged(EVENTS, namespace="default", field_selector=f"reason={REGISTRATION_DELETED}"):
            regarding = event.get("involvedObject") or {}
            if regarding.get("kind") == resource.kind:
                times[str(event.get("lastTimestamp") or "")] = str(regarding.get("name"))
    except ApiError:
        return ""  # an Event only adds to what is known
    last = max(times, default="")
    return f"; {times[last]} was deleted at {last}" if last else ""


def for_pods(cluster: Cluster, registered: Sequence[Registered]) -> str:
    """The command by which a release that has a mutating configuration is called for Pods too; "" where none has."""
    charted = [webhook for webhook in registered if webhook.by_chart and webhook.mutating]
    return commands.again(cluster, charted[0], "webhook.webhooks.pods.enabled=true") if charted else ""


async def registering(cluster: Cluster, registered: Sequence[Registered]) -> str:
    """The command that writes the registrations, by the method of the installation."""
    kept = next((webhook for webhook in registered if webhook.installer_name), None)
    if kept is not None:
        # The command also writes the existing registration again: it keeps its failurePolicy.
        return commands.certs_install(kept, namespace=cluster.namespace)
    webhooks = await cluster.running("webhook")
    if any(not deployment.by_chart for deployment in webhooks):
        return commands.install_without_chart(cluster.namespace, webhooks[0].name)
    return await commands.helm(cluster, "webhook.enabled=true")


async def _terms(cluster: Cluster) -> AsyncIterator[Finding]:
    """Fields that are not as Berth would register them, and those that people choose."""
    deadline = await _deadline(cluster)
    for webhook in await cluster.registered():
        for field, has, expected in differences(webhook):
            severity = Severity.warning if field == "reinvocationPolicy" else Severity.error
            fix, dotted = commands.fix(cluster, webhook, field, expected), field.replace("/", ".")
            yield noted(severity, "BERTH0502", webhook, case=field, field=dotted, has=has, wanted=expected, command=fix)
        if webhook.values == _OF_DRIVERS:
            continue
        if not webhook.fails_closed:
            severity, case = _fails_open(webhook)
            yield noted(
                severity, "BERTH0503", webhook, case=case, command=_choose(cluster, webhook, "failurePolicy", "Fail")
            )
        timeout = webhook.webhook.get("timeoutSeconds") or 10
        if timeout * _OF_TIMEOUT < deadline:
            fix = _choose(cluster, webhook, "timeoutSeconds", min(30, ceil(deadline / _OF_TIMEOUT)))
            left = timeout * _OF_TIMEOUT
            yield info("BERTH0504", webhook, timeout=timeout, left=left, deadline=deadline, command=fix)


def _choose(cluster: Cluster, webhook: Registered, field: str, value: object) -> str:
    """The command that sets what the values of the chart have, too."""
    return commands.fix(
        cluster, webhook, field, value, *([f"{webhook.values}.{field}={value}"] if webhook.values else [])
    )


async def _deadline(cluster: Cluster) -> float:
    """How long the webhook works on one review, in seconds."""
    webhooks = await cluster.running("webhook")
    try:
        return max(
            (float(deployment.deployed.get("deadline_seconds", _DEADLINE)) for deployment in webhooks),
            default=_DEADLINE,
        )
    except ValueError:
        return _DEADLINE  # the webhook does not start with such a flag


def _fails_open(webhook: Registered) -> tuple[Severity, str]:
    """How bad that is, and the case."""
    # A webhook for tenants alone is not called for a namespace that has only the label of the API server.
    only_tenants = not webhook.selects_namespace({objects.NAME_LABEL: "default"})
    if webhook.covers("", "pods", "CREATE") and (not webhook.mutating or only_tenants):
        return Severity.warning, "confining" if webhook.mutating else "checking"
    return Severity.info, "injecting" if webhook.mutating else ""


async def _missing(cluster: Cluster) -> AsyncIterator[Finding]:
    """Webhooks of a wing that the settings turn on, and that the release does not have."""
    charted = [webhook for webhook in await cluster.registered() if webhook.by_chart]
    names = {webhook.webhook.get("name") for webhook in charted}
    given = [pair for deployment in await cluster.running("webhook") for pair in deployment.deployed.items()]
    on = {name.replace("_", ""): str(value).lower() for name, value in given if value not in (False, "", "off")}
    for webhook in webhooks_of() if charted else ():
        setting = webhook.when.removeprefix("webhook.args.")
        if webhook.kind not in ALWAYS_REVIEWED and setting.lower() in on and f"{webhook.name}.berth.dev" not in names:
            text = f"webhook {webhook.name}.berth.dev is missing, and {setting} is on"
            fix = commands.again(cluster, charted[0], f"{webhook.when}={on[setting.lower()]}")
            yield error("BERTH0502", charted[0], text, case="rules", command=fix)


async def _unproven(cluster: Cluster) -> AsyncIterator[Finding]:
    """Webhooks whose answers follow from the user of the request, and whose calls prove nothing."""
    webhooks = await cluster.running("webhook")
    if not any(deployment.setting("insecure") for deployment in webhooks):
        return
    knows = all(deployment.setting("caller_token_file") for deployment in webhooks)
    for webhook in await cluster.registered():
        if webhook.needs_proof and not (knows and webhook.shows_token):
            case = "refused" if webhook.unproven else ""
            fix = commands.again(cluster, webhook) if webhook.by_chart else ""
            yield warning("BERTH0517", webhook, case=case, refused=webhook.unproven, command=fix)


async def _rivals(cluster: Cluster) -> AsyncIterator[Finding]:
    """Others that inject into the same Pods: another release of Berth, another registration, another injector."""
    ours = list(dict.fromkeys(webhook.name for webhook in await cluster.registered() if webhook.injects))
    if not ours:
        return
    others = {
        webhook.name: webhook
        for webhook in await cluster.of_all_releases()
        if webhook.injects and webhook.name not in ours
    }
    for webhook in others.values():
        release = webhook.release or webhook.name
        fix = (
            f"helm uninstall {release} --namespace {webhook.home}"
            if webhook.by_chart
            else commands.unregister(webhook.name)
        )
        about = objects.Object(MUTATING_WEBHOOKS, webhook.configuration)
        yield warning("BERTH0513", about, release=release, home=webhook.home, cluster=cluster, command=fix)
    for name in ours[1:]:
        about, fix = objects.named(MUTATING_WEBHOOKS, name), commands.unregister(name)
        yield warning("BERTH0514", about, other=ours[0], command=fix)
    for configuration in await cluster.listed(MUTATING_WEBHOOKS):
        about = objects.Object(MUTATING_WEBHOOKS, configuration)
        if about.name not in (*ours, *others) and about.name.endswith(_FORERUNNER):
            yield warning("BERTH0515", about, other=ours[0])


async def _not_uninstalled(cluster: Cluster) -> AsyncIterator[Finding]:
    """Hook Jobs of ours that are there and not Complete, beside the registrations that they were to take away."""
    webhooks = await cluster.registered()
    if not webhooks:
        return
    case, fix = (
        "closed" if any(webhook.fails_closed for webhook in webhooks) else "",
        commands.unregister(*(o.name for o in webhooks)),
    )
    for job in await cluster.listed(JOBS, namespace=cluster.namespace, label_selector=f"{objects.PART_OF}=berth"):
        hooks = str((job["metadata"].get("annotations") or {}).get(_HOOK) or "").split(",")
        ours = objects.labels(job).get(objects.INSTANCE, cluster.release) == cluster.release
        if "pre-delete" in hooks and ours and objects.condition(job, "Complete").get("status") != "True":
            failed, how = objects.condition(job, "Failed"), "has not ended"
            if failed.get("status") == "True":
                how = plain(f"failed ({failed.get('message') or failed.get('reason') or 'no reason is said'})")
            yield error("BERTH0516", objects.Object(JOBS, job), case=case, how=how, fix=fix, cluster=cluster)


async def _all_well(cluster: Cluster) -> AsyncIterator[Finding]:
    if webhooks := await cluster.registered():
        names = ", ".join(dict.fromkeys(webhook.name for webhook in webhooks))
        yield sound(len(webhooks), "webhook", subject=names, unless=Severity.warning)


CHECK = Check(
    "registrations",
    (
        *(_absent, _terms, namespaces.exempt, coverage.tenants_confined, namespaces.who_opted_out),
        *(coverage.tenants_isolated, coverage.left_out, coverage.unasked_kinds),
        *(_missing, _unproven, _rivals, _not_uninstalled, _all_well),
    ),
)
