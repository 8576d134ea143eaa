"""Check `registrations`: do the webhook configurations call Berth for all objects that it must see, and for no others.

The check `certificate` covers the CAs that they trust, `reachability` whether Berth answers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from math import ceil

from app.definitions import INFRA, TENANT, definition_name
from app.doctor import commands, conditions, isolation, namespaces, objects
from app.doctor.cluster import Cluster
from app.doctor.model import REGISTERED, Check, Finding, Severity, all_well, error, info, or_default, plain, warning
from app.doctor.webhooks import Registered
from app.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    JOBS,
    MUTATING_WEBHOOKS,
    NETWORK_ATTACHMENTS,
    VALIDATING_WEBHOOKS,
)

_DEADLINE = 8.0
_OF_TIMEOUT = 0.9
"""API servers say how long they wait, and the webhook answers within this part of it."""
_PATHS = {True: "/mutate", False: "/validate"}
_HARMLESS = ("None", "NoneOnDryRun")
"""An older API may have stored another, which API servers of today refuse to be given."""
_PODS_RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
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
    deadline = await _deadline(cluster)
    for one in await cluster.registered():
        for wrong, text, follows, field, wanted in _wrong_terms(one, deadline):
            charted = one.values and field in ("failurePolicy", "timeoutSeconds")
            values = (f"{one.values}.{field}={wanted}",) if charted else ()
            fix = commands.fix(cluster, one, field, wanted, values=values)
            yield wrong(_CODES.get(field, "BERTH0502"), one.subject, text, follows, fix)


async def _deadline(cluster: Cluster) -> float:
    """How long the webhook works on one review, in seconds."""
    webhooks = await cluster.running("webhook")
    try:
        return max((float(one.deployed.get("deadline_seconds", _DEADLINE)) for one in webhooks), default=_DEADLINE)
    except ValueError:
        return _DEADLINE  # the webhook does not start with such a flag


_CODES = {"failurePolicy": "BERTH0503", "timeoutSeconds": "BERTH0504"}
"""Of fields that people choose."""
_Wrong = tuple[Callable[..., Finding], str, str, str, object]
"""The kind of finding, message, consequence, and the field with the value that it should have."""


def _wrong_terms(one: Registered, deadline: float) -> list[_Wrong]:
    webhook, wrong = one.webhook, list[_Wrong]()
    path = ((webhook.get("clientConfig") or {}).get("service") or {}).get("path") or "/"
    if one.service is not None and path != (right := _PATHS[one.mutating]):
        # Pods are changed at one path, objects are checked at the other.
        text = f"calls the path {plain(path)} of the Service, where Berth answers at {right}"
        follows = "every call fails" + (", and what it is called for cannot be created" if one.fails_closed else "")
        wrong.append((error, text, follows, "clientConfig/service/path", right))
    if not one.fails_closed:
        wrong.append(_fails_open(one))
    timeout = webhook.get("timeoutSeconds") or 10
    if timeout * _OF_TIMEOUT < deadline:
        text = f"timeoutSeconds is {timeout}: reviews have {timeout * _OF_TIMEOUT:g} s instead of {deadline:g} s"
        follows = "Berth waits less long for an attachment that is just being made, before it says that there is none"
        wrong.append((info, text, follows, "timeoutSeconds", min(30, ceil(deadline / _OF_TIMEOUT))))
    if one.mutating and webhook.get("reinvocationPolicy") != "IfNeeded":
        follows = "containers and annotations that later webhooks add get nothing injected"
        wrong.append((warning, "reinvocationPolicy is Never", follows, "reinvocationPolicy", "IfNeeded"))
    if "v1" not in (webhook.get("admissionReviewVersions") or []):
        text = "admissionReviewVersions lacks v1, the only one that Berth speaks"
        wrong.append((error, text, "every call fails", "admissionReviewVersions", ["v1"]))
    if (said := webhook.get("sideEffects")) not in _HARMLESS:
        follows = "the API server refuses every dry run of what it is called for, such as kubectl diff"
        wrong.append((error, f"sideEffects is {said}", follows, "sideEffects", "NoneOnDryRun"))
    if one.mutating and not one.injects:
        follows = "Berth is not called for Pods by it, and injects nothing"
        wrong.append((error, "its rules do not name the creation of Pods", follows, "rules", [_PODS_RULE]))
    return wrong


def _fails_open(one: Registered) -> _Wrong:
    # A webhook for tenants alone is not called for a namespace that has only the label of the API server.
    only_tenants = not one.selects_namespace({objects.NAME_LABEL: "default"})
    wrong = info
    if one.covers("", "pods", "CREATE") and (not one.mutating or only_tenants):
        wrong = warning
        what = f"tenants' Pods are admitted without being {'confined' if one.mutating else 'checked'}"
    elif one.mutating:
        what = "Pods start without their networks' resources and fail later, on their nodes"
    else:
        what = "broken attachments and rules are stored"
    return wrong, "failurePolicy is Ignore", f"while Berth is away, {what}", "failurePolicy", "Fail"


async def _unasked_kinds(cluster: Cluster) -> AsyncIterator[Finding]:
    """Kinds that this cluster has, that Berth checks, and that it is not asked about."""
    validating = [one for one in await cluster.registered() if not one.mutating]
    defined = await or_default(cluster.listed(CUSTOM_RESOURCE_DEFINITIONS), [])
    names = {definition["metadata"]["name"] for definition in defined}
    for resource in (NETWORK_ATTACHMENTS, *INFRA, *TENANT) if validating else ():
        unasked = [
            operation
            for operation in ("CREATE", "UPDATE")
            if not any(one.covers(resource.group, resource.plural, operation) for one in validating)
        ]
        # Workloads come from the gateway alone, which checks them.
        if unasked and definition_name(resource) in names and resource.plural != "workloads":
            rule = {
                "operations": ["CREATE", "UPDATE"],
                "apiGroups": [resource.group],
                "apiVersions": [resource.version],
                "resources": [resource.plural],
            }
            text = f"Berth is not asked about the {' and '.join(unasked)} of {resource.plural}"
            follows = f"broken {resource.plural} are stored, and found out when they are used"
            fix = commands.fix(cluster, validating[0], "rules/-", rule)
            yield warning("BERTH0512", validating[0].subject, text, follows, fix)


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
        text = f"has Berth called for the same Pods as {ours[0]}"
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
        text = f"{len(found)} webhooks are registered as they should be"
        yield all_well(names, text, unless=Severity.warning)


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
        _rivals,
        _not_uninstalled,
        _all_well,
    ),
)
