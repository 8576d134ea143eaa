"""Check `registrations`: do the webhook configurations call Berth for all objects that it must see, and for no others.

The check `certificate` covers the CAs that they trust, `reachability` whether Berth answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from math import ceil

from app.doctor import commands, conditions, isolation, namespaces, objects
from app.doctor.cluster import Cluster
from app.doctor.model import REGISTERED, Check, Finding, Severity, error, info, noted, or_default, plain, sound, warning
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
_TWICE = "each Pod waits for two answers, and the failurePolicy of either keeps it out"
_HOOK = "helm.sh/hook"
_RIVAL = f"{MUTATING_WEBHOOKS.kind} "


async def _absent(cluster: Cluster) -> AsyncIterator[Finding]:
    found = await cluster.registered()
    if not found and "webhook" not in await cluster.expected_roles():
        return
    for resource, follows, absent in (
        (MUTATING_WEBHOOKS, "nothing is injected into any Pod", error),
        (VALIDATING_WEBHOOKS, "broken attachments and rules are stored, and found out by Pods", warning),
    ):
        if not any(one.resource == resource for one in found):
            topics = (REGISTERED,) if resource == MUTATING_WEBHOOKS else ()
            fix = await _registering(cluster, found)
            yield absent("BERTH0501", resource.kind, "none calls Berth", follows, fix, explains=topics)


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
            severity, follows = _FOLLOWS[field]
            text = f"{field.replace('/', '.')} is {plain(has)}, and Berth registers {plain(wanted)}"
            fix = commands.fix(cluster, one, field, wanted)
            yield noted(severity, "BERTH0502", one.subject, text, follows, fix)
        if one.values == _OF_DRIVERS:
            continue
        if not one.fails_closed:
            severity, follows = _fails_open(one)
            fix = _choose(cluster, one, "failurePolicy", "Fail")
            yield noted(severity, "BERTH0503", one.subject, "failurePolicy is Ignore", follows, fix)
        timeout = one.webhook.get("timeoutSeconds") or 10
        if timeout * _OF_TIMEOUT < deadline:
            text = f"timeoutSeconds is {timeout}: reviews have {timeout * _OF_TIMEOUT:g} s instead of {deadline:g} s"
            fix = _choose(cluster, one, "timeoutSeconds", min(30, ceil(deadline / _OF_TIMEOUT)))
            yield info("BERTH0504", one.subject, text, command=fix)


_FOLLOWS = {
    "clientConfig/service/path": (Severity.error, "every call fails"),
    "admissionReviewVersions": (Severity.error, "every call fails: Berth knows no other version"),
    "sideEffects": (Severity.error, "the API server refuses dry runs of what it is called for, such as kubectl diff"),
    "reinvocationPolicy": (Severity.warning, "containers and annotations that later webhooks add get nothing injected"),
    "rules": (Severity.error, "Berth is not called for all that it has to change or check"),
}
"""How bad a difference in a field is, and what follows from it."""


def _choose(cluster: Cluster, one: Registered, field: str, wanted: object) -> str:
    """The command that sets what the values of the chart have, too."""
    return commands.fix(cluster, one, field, wanted, values=(f"{one.values}.{field}={wanted}",) if one.values else ())


async def _deadline(cluster: Cluster) -> float:
    """How long the webhook works on one review, in seconds."""
    webhooks = await cluster.running("webhook")
    try:
        return max((float(one.deployed.get("deadline_seconds", _DEADLINE)) for one in webhooks), default=_DEADLINE)
    except ValueError:
        return _DEADLINE  # the webhook does not start with such a flag


def _fails_open(one: Registered) -> tuple[Severity, str]:
    # A webhook for tenants alone is not called for a namespace that has only the label of the API server.
    only_tenants = not one.selects_namespace({objects.NAME_LABEL: "default"})
    severity, what = Severity.info, "broken attachments and rules are stored"
    if one.covers("", "pods", "CREATE") and (not one.mutating or only_tenants):
        severity = Severity.warning
        what = f"tenants' Pods are admitted without being {'confined' if one.mutating else 'checked'}"
    elif one.mutating:
        what = "Pods start without their networks' resources and fail later, on their nodes"
    return severity, f"while Berth is away, {what}"


async def _unasked_kinds(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that this cluster has, that Berth checks, and that it is not asked about."""
    validating = [one for one in await cluster.registered() if not one.mutating]
    defined = await or_default(cluster.listed(CUSTOM_RESOURCE_DEFINITIONS), [])
    names = {definition["metadata"]["name"] for definition in defined}
    for rule in rules_of("attachments", "objects") if validating else ():
        there = [one for one in rule["resources"] if f"{one}.{rule['apiGroups'][0]}" in names]
        for plural, operations in uncovered(validating, [rule | {"resources": there}]).items():
            text = f"Berth is not asked about the {' and '.join(operations)} of {plural}"
            follows = f"broken {plural} are stored, and found out when they are used"
            fix = commands.fix(cluster, validating[0], "rules/-", rule | {"resources": [plural]})
            yield warning("BERTH0512", validating[0].subject, text, follows, fix)


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
            yield error("BERTH0502", found[0].subject, text, _FOLLOWS["rules"][1], fix)


async def _rivals(cluster: Cluster) -> AsyncIterator[Finding]:
    """Others that inject into the same Pods: another release of Berth, another registration, another injector."""
    ours = list(dict.fromkeys(one.name for one in await cluster.registered() if one.injects))
    if not ours:
        return
    others = {one.name: one for one in await cluster.of_all_releases() if one.injects and one.name not in ours}
    for one in others.values():
        release = one.release or one.name
        text = f"belongs to release {release} in namespace {one.home}, and injects into the same Pods as this release"
        follows = (
            f"{_TWICE}; where their settings differ, a Pod gets what either would inject. One of the two releases is "
            f"enough: the command takes away the other, and `helm uninstall {cluster.release} --namespace "
            f"{cluster.namespace}` takes away this one"
        )
        command = f"helm uninstall {release} --namespace {one.home}" if one.by_chart else commands.unregister(one.name)
        yield warning("BERTH0513", _RIVAL + one.name, text, follows, command)
    for name in ours[1:]:
        text = f"calls Berth for the same Pods as {ours[0]}"
        yield warning(
            "BERTH0514", _RIVAL + name, text, f"{_TWICE}; what is injected is injected once", commands.unregister(name)
        )
    for configuration in await cluster.listed(MUTATING_WEBHOOKS):
        name = configuration["metadata"]["name"]
        if name not in (*ours, *others) and name.endswith(_FORERUNNER):
            command = commands.kubectl("delete", MUTATING_WEBHOOKS.plural, name)
            text = f"injects into the same Pods as {ours[0]}"
            yield warning("BERTH0515", _RIVAL + name, text, command=command)


async def _not_uninstalled(cluster: Cluster) -> AsyncIterator[Finding]:
    """Hook Jobs of ours that are there and not Complete, beside the registrations that they were to take away."""
    found = await cluster.registered()
    if not found:
        return
    without_hooks = f"helm uninstall {cluster.release} --namespace {cluster.namespace} --no-hooks"
    command = f"{commands.unregister(*(one.name for one in found))} && {without_hooks}"
    follows = "helm neither upgrades nor installs the release; " + (
        "once its Pods are gone, no Pod can be created that it is called for"
        if any(one.fails_closed for one in found)
        else "it is still called"
    )
    for job in await cluster.listed(JOBS, namespace=cluster.namespace, label_selector=f"{objects.PART_OF}=berth"):
        hooks = str((job["metadata"].get("annotations") or {}).get(_HOOK) or "").split(",")
        ours = objects.labels(job).get(objects.INSTANCE, cluster.release) == cluster.release
        if "pre-delete" in hooks and ours and objects.condition(job, "Complete").get("status") != "True":
            failed, how = objects.condition(job, "Failed"), "has not ended"
            if failed.get("status") == "True":
                how = plain(f"failed ({failed.get('message') or failed.get('reason') or 'no reason is said'})")
            what = "it was to take away the registrations before an uninstallation, and they are still there"
            yield error("BERTH0516", objects.subject(JOBS.kind, job), f"{how}: {what}", follows, command)


async def _all_well(cluster: Cluster) -> AsyncIterator[Finding]:
    if found := await cluster.registered():
        names = ", ".join(dict.fromkeys(one.name for one in found))
        yield sound(len(found), "webhook", subject=names, unless=Severity.warning)


CHECK = Check(
    "registrations",
    (
        _absent,
        _terms,
        namespaces.exempt,
        isolation.tenants_confined,
        namespaces.who_opted_out,
        isolation.tenants_isolated,
        conditions.left_out,
        _unasked_kinds,
        _missing,
        _rivals,
        _not_uninstalled,
        _all_well,
    ),
)
