"""Check `registrations`: do the webhook configurations call Berth for all objects that it must see, and for no others.

In tenants' namespaces no kind and no Pod may be left out. Of matchConditions the evaluator of CEL says whether they let
made-up Pods through; it supports a part of the language, and a finding says what it cannot decide. The check
`certificate` covers the CAs that they trust, `reachability` whether Berth answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from math import ceil

from app.cel.matchconditions import ConditionFailed
from app.doctor import commands, namespaces, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import REGISTERED, Check, Finding, Severity, error, info, noted, or_default, sound, warning
from app.doctor.namespaces import ANY, TenantNamespace, confines_tenants, tenant_namespaces
from app.doctor.webhooks import Registered, differences, selecting, uncovered
from app.errors import ApiError
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    JOBS,
    MUTATING_WEBHOOKS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.registration import further_webhooks, rules_of
from app.registry import ALWAYS_REVIEWED, WINGS, asked_of_pods, webhooks_of
from app.wire import JSON
from app.wiring import REGISTRATION_DELETED, resolve

_DEADLINE = 8.0
_OF_TIMEOUT = 0.9
"""API servers say how long they wait, and the webhook answers within this part of it."""
_OF_DRIVERS = "webhook.webhooks.claims"
"""Checks what drivers publish. By default it fails open and has less time, so that no driver waits for Berth."""
_FORERUNNER = "network-resources-injector-mutating-config"
_HOOK = "helm.sh/hook"
_CONFINE = "webhook.args.confineTenants=true"
_OWN_FIELDS = frozenset({"name", "rules", "namespaceSelector", "objectSelector", "matchConditions"})


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


async def _unasked_kinds(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that this cluster has, that Berth checks, and that no release of it is asked about."""
    validating = [webhook for webhook in await cluster.registered() if not webhook.mutating]
    asked = [webhook for webhook in await cluster.of_all_releases() if not webhook.mutating]
    defined = await or_default(cluster.listed(CUSTOM_RESOURCE_DEFINITIONS), [])
    names = {definition["metadata"]["name"] for definition in defined}
    present = {webhook.webhook.get("name") for webhook in validating}
    for ours in webhooks_of("attachments", "objects") if validating else ():
        values = [] if f"{ours.name}.berth.dev" in present else [f"{ours.when}=true"]
        for rule in rules_of(ours.kind):
            plurals = [plural for plural in rule["resources"] if f"{plural}.{rule['apiGroups'][0]}" in names]
            for plural, operations in uncovered(asked, [rule | {"resources": plurals}]).items():
                fix = commands.fix(cluster, validating[0], "rules/-", rule | {"resources": [plural]}, *values)
                unasked = " and ".join(operations)
                yield warning("BERTH0512", validating[0], operations=unasked, plural=plural, command=fix)


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


async def _tenants_confined(cluster: Cluster) -> AsyncIterator[Finding]:
    """Tenants' namespaces that no webhook selects.

    Where tenants are confined, also those whose Pods can opt out of every webhook that selects them.
    """
    pods = [webhook for webhook in await cluster.registered() if webhook.injects]
    of_tenants = await tenant_namespaces(cluster) if pods else []
    confined = bool(of_tenants) and await confines_tenants(cluster)
    hidden = [namespace.object for namespace in of_tenants if not selecting(pods, namespace.object)]
    for namespace in of_tenants:
        calling = selecting(pods, namespace.object)
        if not calling:
            fix = namespaces.unhide(cluster, namespace.object, pods[0], hidden)
            yield error("BERTH0506", namespace, case="confined" if confined else "", command=fix)
        elif confined and not _strict(pods, namespace.labels):
            fix = namespace.label()
            if not _strict(pods, namespace.wanted_labels):
                fix = commands.fix(cluster, calling[0], "objectSelector", {}, _CONFINE)
            yield warning("BERTH0507", namespace, command=fix)


def _strict(pods: Sequence[Registered], own: dict[str, str]) -> bool:
    """Whether a webhook without an opt-out is called for a namespace with these labels."""
    return any(
        webhook.selects_namespace(own) and not webhook.conditions and not webhook.webhook.get("objectSelector")
        for webhook in pods
    )


async def _tenants_isolated(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that Berth is not asked about in any tenant's namespace, else the namespaces that it is not asked about.

    Only where Berth confines tenants. That nothing at all is checked here is another finding.
    """
    checking = [webhook for webhook in await cluster.registered() if not webhook.mutating]
    if not checking or not await confines_tenants(cluster):
        return
    if unasked := _unasked(checking, ANY):
        fix = _register(cluster, checking)
        yield error("BERTH0509", checking[0], case="any", unasked=", ".join(unasked), command=fix)
        return
    for namespace in await tenant_namespaces(cluster):
        if namespace.name not in (namespaces.SYSTEM, cluster.namespace) and (unasked := _unasked(checking, namespace)):
            fix = _register(cluster, checking) if namespace.is_labeled else namespace.label()
            yield error("BERTH0509", namespace, unasked=", ".join(unasked), command=fix)


def _unasked(checking: Sequence[Registered], namespace: TenantNamespace) -> list[str]:
    """The kinds that no webhook without an opt-out is called for in this namespace."""
    calling = [
        webhook
        for webhook in selecting(checking, namespace.object)
        if not webhook.webhook.get("objectSelector") and webhook.may_admit({"namespace": namespace.name})
    ]
    return list(uncovered(calling, rules_of("tenants")))


def _register(cluster: Cluster, checking: Sequence[Registered]) -> str:
    first = checking[0]
    if first.by_chart:
        return commands.again(cluster, first, _CONFINE)
    shared = {field: value for field, value in first.webhook.items() if field not in _OWN_FIELDS}
    present = {webhook.webhook.get("name"): webhook for webhook in checking if webhook.name == first.name}
    operations: list[JSON] = []
    exempt = tuple(dict.fromkeys((namespaces.SYSTEM, cluster.namespace)))
    for entry in further_webhooks("tenants", shared, exempt=exempt):
        registered = present.get(entry["name"])
        path = f"/webhooks/{registered.index if registered else '-'}"
        if registered:
            operations.append({"op": "test", "path": f"{path}/name", "value": entry["name"]})
        operations.append({"op": "replace" if registered else "add", "path": path, "value": entry})
    return commands.json_patch(first.resource.plural, first.name, operations)


_Key = tuple[str, str]
"""An annotation or a label of a Pod: `annotations` or `labels`, and the key."""


async def _left_out(cluster: Cluster) -> AsyncIterator[Finding]:
    """Annotations and labels by which Pods ask, and that no webhook is called for."""
    anywhere = {objects.NAME_LABEL: "default"}
    called = [
        webhook for webhook in await cluster.registered() if webhook.injects and webhook.selects_namespace(anywhere)
    ]
    if not called or any(not webhook.conditions for webhook in called):
        return
    labels = await _labels(cluster)
    keys = [("annotations", key) for key in asked_of_pods() if isinstance(key, str)]
    unknown: dict[str, str] = {}
    missing = [
        key for key in (*keys, *(("labels", label) for label in labels)) if not _any_admits(called, key, unknown)
    ]
    first, of_labels = called[0], f"webhook.injectionLabels={{{','.join(labels)}}}"
    # All missing keys at once: of separate commands the last would undo the rest.
    wider = [_wider(first.conditions, missing)]
    command = commands.fix(
        cluster,
        first,
        "matchConditions",
        wider,
        *([of_labels] if any(place == "labels" for place, _ in missing) else []),
    )
    for place, key in missing:
        what = f"annotation {key}" if place == "annotations" else f"label {key} of {labels[key].subject}"
        yield error("BERTH0510", first, what=what, command=command)
    for subject, why in unknown.items():
        yield info("BERTH0511", subject, why=why)


async def _labels(cluster: Cluster) -> dict[str, objects.Object]:
    """The labels by which Pods ask for something of a wing, each with the object that says so."""
    labels: dict[str, objects.Object] = {}
    for wing in (wing for wing in WINGS if wing.labels):
        read: Callable[[Cluster], Awaitable[dict[str, objects.Object]]] = resolve(wing.labels)
        labels |= await or_default(read(cluster), {})
    return labels


def _any_admits(called: Sequence[Registered], key: _Key, unknown: dict[str, str]) -> bool:
    """Whether one is called, or may be; why that is not known goes to `unknown`."""
    may_be = False
    for webhook in called:
        try:
            if webhook.admits({"namespace": "default", key[0]: {key[1]: "true"}}):
                return True
        except ConditionFailed as failure:
            unknown.setdefault(webhook.subject, str(failure))
            may_be = True
    return may_be


def _wider(conditions: Sequence[JSON], missing: Sequence[_Key]) -> JSON:
    """All conditions as one, or else any of the keys."""
    all_of = " && ".join(f"({condition['expression']})" for condition in conditions)
    any_of = [f"(has(object.metadata.{place}) && '{key}' in object.metadata.{place})" for place, key in missing]
    expression = " || ".join([f"({all_of})", *any_of])
    return {"name": conditions[0].get("name") or "asks-for-injection", "expression": expression}


CHECK = Check(
    "registrations",
    (
        *(_absent, _terms, namespaces.exempt, _tenants_confined, namespaces.who_opted_out, _tenants_isolated),
        *(_left_out, _unasked_kinds, _missing, _unproven, _rivals, _not_uninstalled, _all_well),
    ),
)
