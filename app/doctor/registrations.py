"""Check `registrations`: do the webhook configurations call Berth for all objects that it must see, and for no others.

The check `certificate` covers the CAs that they trust, `reachability` whether Berth answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from math import ceil

from app.appwrappers.model import APP_WRAPPERS
from app.doctor import commands, isolation, namespaces, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import REGISTERED, Check, Finding, Severity, error, info, noted, or_default, sound, warning
from app.doctor.wanted import SHARED, differences, uncovered
from app.doctor.webhooks import Registered
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, JOBS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.registration.objects import rules_of
from app.registry import webhooks_of

_DEADLINE = 8.0
_OF_TIMEOUT = 0.9
"""API servers say how long they wait, and the webhook answers within this part of it."""
_OF_DRIVERS = "webhook.webhooks.claims"
"""Checks what drivers publish. By default it fails open and has less time, so that no driver waits for Berth."""
_FORERUNNER = "network-resources-injector-mutating-config"
_HOOK = "helm.sh/hook"


async def _absent(cluster: Cluster) -> AsyncIterator[Finding]:
    found = await cluster.registered()
    if found or "webhook" in await cluster.expected_roles():
        if not any(one.mutating for one in found):
            fix = await _registering(cluster, found)
            yield error("BERTH0501", MUTATING_WEBHOOKS.kind, command=fix, explains=(REGISTERED,))
        if all(one.mutating for one in found):
            fix = await _registering(cluster, found)
            yield warning("BERTH0501", VALIDATING_WEBHOOKS.kind, case="validating", command=fix)


async def _registering(cluster: Cluster, found: Sequence[Registered]) -> str:
    """The command that writes the registrations, by the method of the installation."""
    kept = next((one for one in found if one.installer_name), None)
    if kept is not None:
        # The command also writes the existing registration again: it keeps its failurePolicy.
        return commands.certs_install(kept, namespace=cluster.namespace)
    webhooks = await cluster.running("webhook")
    if any(not one.by_chart for one in webhooks):
        return commands.install_without_chart(cluster.namespace, webhooks[0].name)
    return await commands.helm(cluster, "webhook.enabled=true")


async def _terms(cluster: Cluster) -> AsyncIterator[Finding]:
    """Fields that are not as Berth would register them, and those that people choose."""
    deadline = await _deadline(cluster)
    for one in await cluster.registered():
        for field, has, wanted in differences(one):
            severity = Severity.warning if field == "reinvocationPolicy" else Severity.error
            fix, dotted = commands.fix(cluster, one, field, wanted), field.replace("/", ".")
            yield noted(severity, "BERTH0502", one, case=field, field=dotted, has=has, wanted=wanted, command=fix)
        if one.values == _OF_DRIVERS:
            continue
        if not one.fails_closed:
            severity, case = _fails_open(one)
            yield noted(severity, "BERTH0503", one, case=case, command=_choose(cluster, one, "failurePolicy", "Fail"))
        timeout = one.webhook.get("timeoutSeconds") or 10
        if timeout * _OF_TIMEOUT < deadline:
            fix = _choose(cluster, one, "timeoutSeconds", min(30, ceil(deadline / _OF_TIMEOUT)))
            left = timeout * _OF_TIMEOUT
            yield info("BERTH0504", one, timeout=timeout, left=left, deadline=deadline, command=fix)


def _choose(cluster: Cluster, one: Registered, field: str, wanted: object) -> str:
    """The command that sets what the values of the chart have, too."""
    return commands.fix(cluster, one, field, wanted, *([f"{one.values}.{field}={wanted}"] if one.values else []))


async def _deadline(cluster: Cluster) -> float:
    """How long the webhook works on one review, in seconds."""
    webhooks = await cluster.running("webhook")
    try:
        return max((float(one.deployed.get("deadline_seconds", _DEADLINE)) for one in webhooks), default=_DEADLINE)
    except ValueError:
        return _DEADLINE  # the webhook does not start with such a flag


def _fails_open(one: Registered) -> tuple[Severity, str]:
    """How bad that is, and the case."""
    # A webhook for tenants alone is not called for a namespace that has only the label of the API server.
    only_tenants = not one.selects_namespace({objects.NAME_LABEL: "default"})
    if one.covers("", "pods", "CREATE") and (not one.mutating or only_tenants):
        return Severity.warning, "confining" if one.mutating else "checking"
    return Severity.info, "injecting" if one.mutating else ""


async def _unasked_kinds(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that this cluster has, that Berth checks, and that it is not asked about."""
    validating = [one for one in await cluster.registered() if not one.mutating]
    defined = await or_default(cluster.listed(CUSTOM_RESOURCE_DEFINITIONS), [])
    names = {definition["metadata"]["name"] for definition in defined}
    for rule in rules_of("attachments", "objects") if validating else ():
        there = [one for one in rule["resources"] if f"{one}.{rule['apiGroups'][0]}" in names]
        for plural, operations in uncovered(validating, [rule | {"resources": there}]).items():
            fix = commands.fix(cluster, validating[0], "rules/-", rule | {"resources": [plural]})
            unasked = " and ".join(operations)
            yield warning("BERTH0512", validating[0], operations=unasked, plural=plural, command=fix)


async def _missing(cluster: Cluster) -> AsyncIterator[Finding]:
    """Webhooks of a wing that the settings turn on, and that the release does not have."""
    found = [one for one in await cluster.registered() if one.by_chart]
    names = {one.webhook.get("name") for one in found}
    given = [pair for one in await cluster.running("webhook") for pair in one.deployed.items()]
    on = {name.replace("_", ""): str(value).lower() for name, value in given if value not in (False, "", "off")}
    for known in webhooks_of() if found else ():
        setting = known.when.removeprefix("webhook.args.")
        if known.kind not in (*SHARED, "pods") and setting.lower() in on and f"{known.name}.berth.dev" not in names:
            text = f"webhook {known.name}.berth.dev is missing, and {setting} is on"
            fix = commands.again(cluster, found[0], f"{known.when}={on[setting.lower()]}")
            yield error("BERTH0502", found[0], text, case="rules", command=fix)


async def _unproven(cluster: Cluster) -> AsyncIterator[Finding]:
    """Webhooks whose answers follow from the user of the request, and whose calls prove nothing."""
    webhooks = await cluster.running("webhook")
    if not any(one.setting("insecure") for one in webhooks):
        return
    knows = all(one.setting("caller_token_file") for one in webhooks)
    for one in await cluster.registered():
        if one.needs_proof and not (knows and one.shows_token):
            case = "refused" if one.covers(APP_WRAPPERS.group, APP_WRAPPERS.plural, "CREATE") else ""
            fix = commands.again(cluster, one) if one.by_chart else ""
            yield warning("BERTH0517", one, case=case, command=fix)


async def _rivals(cluster: Cluster) -> AsyncIterator[Finding]:
    """Others that inject into the same Pods: another release of Berth, another registration, another injector."""
    ours = list(dict.fromkeys(one.name for one in await cluster.registered() if one.injects))
    if not ours:
        return
    others = {one.name: one for one in await cluster.of_all_releases() if one.injects and one.name not in ours}
    for one in others.values():
        release = one.release or one.name
        fix = f"helm uninstall {release} --namespace {one.home}" if one.by_chart else commands.unregister(one.name)
        about = objects.Object(MUTATING_WEBHOOKS, one.configuration)
        yield warning("BERTH0513", about, release=release, home=one.home, cluster=cluster, command=fix)
    for name in ours[1:]:
        about, fix = objects.named(MUTATING_WEBHOOKS, name), commands.unregister(name)
        yield warning("BERTH0514", about, other=ours[0], command=fix)
    for configuration in await cluster.listed(MUTATING_WEBHOOKS):
        about = objects.Object(MUTATING_WEBHOOKS, configuration)
        if about.name not in (*ours, *others) and about.name.endswith(_FORERUNNER):
            yield warning("BERTH0515", about, other=ours[0])


async def _not_uninstalled(cluster: Cluster) -> AsyncIterator[Finding]:
    """Hook Jobs of ours that are there and not Complete, beside the registrations that they were to take away."""
    found = await cluster.registered()
    if not found:
        return
    case, fix = (
        "closed" if any(one.fails_closed for one in found) else "",
        commands.unregister(*(o.name for o in found)),
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
    if found := await cluster.registered():
        names = ", ".join(dict.fromkeys(one.name for one in found))
        yield sound(len(found), "webhook", subject=names, unless=Severity.warning)


CHECK = Check(
    "registrations",
    (
        *(_absent, _terms, namespaces.exempt, isolation.tenants_confined, namespaces.who_opted_out),
        *(
            isolation.tenants_isolated,
            isolation.left_out,
            _unasked_kinds,
            _missing,
            _unproven,
            _rivals,
            _not_uninstalled,
        ),
        _all_well,
    ),
)
