"""Check `appwrappers`: which controllers act on AppWrappers; which of these have none, cannot run or cannot go."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from app.appwrappers.kueue.model import WORKLOADS, WORKLOADS_V1BETA1
from app.appwrappers.model import APP_WRAPPERS, DELETING_RESOURCES, QUEUE_NAME
from app.appwrappers.settings import WRAPPED_KINDS, WrappedKindsSettings
from app.definitions import definition_name
from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, error, listed, of_each, or_default, plain, warning
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, VALIDATING_WEBHOOKS
from app.text import moment
from app.wire import JSON

PATIENCE = 900.0
"""Seconds in which objects are deleted: longer than the grace after which Pods are deleted by force."""
_QUEUED = 300.0
_MOST = 100
_INTEGRATION = "workload.codeflare.dev/appwrapper"
_PEER = ("appwrapper-system", "appwrapper-controller-manager")
_WEBHOOK, _PEERS_WEBHOOK = "appwrappers.berth.dev", "appwrapper-validating-webhook-configuration"
_KUEUE = ("kueue-system", "kueue-controller-manager")
_KUEUE_CONFIG = "kueue-manager-config"


async def _controllers(cluster: Cluster) -> AsyncIterator[Finding]:
    """Of each controller, one has to act: ours, or that of the peer."""
    if await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, definition_name(APP_WRAPPERS)) is None:
        return
    ours = await cluster.controllers()
    async for finding in acting.beside(cluster, "appwrappers", "BERTH4001", _PEER):
        yield finding
    if "appwrappers" in ours and not await _is_checked(cluster):
        text = "AppWrappers run without a check that their users may create the objects in them"
        command = await commands.helm(cluster, "webhook.args.appwrappers=true")
        yield error("BERTH4002", "", text, command=command)
    kueues = await _kueue_acts(cluster)
    if "appwrapper-workloads" in ours and kueues:
        text = f"has the integration {_INTEGRATION}, and appwrapper-workloads of Berth runs as well"
        command = await acting.choose(cluster, without=["appwrapper-workloads"])
        yield error("BERTH4003", f"ConfigMap {_KUEUE[0]}/{_KUEUE_CONFIG}", text, command=command)
    if "appwrappers" in ours and "appwrapper-workloads" not in ours and kueues is False:
        text = f"Kueue runs without the integration {_INTEGRATION}, and so does Berth without appwrapper-workloads"
        command = await acting.choose(cluster, "appwrapper-workloads")
        yield warning("BERTH4004", "", text, command=command)


async def _is_checked(cluster: Cluster) -> bool:
    """Whether a webhook is called that asks for the rights of users: Berth's, or that of AppWrapper v1.2."""
    found = await or_default(cluster.listed(VALIDATING_WEBHOOKS), None)
    if found is None:
        return True  # the check of registrations says what may not be read
    names = {str(hook.get("name")) for one in found for hook in one.get("webhooks") or ()}
    configurations = {one["metadata"]["name"] for one in found}
    return _WEBHOOK in names or _PEERS_WEBHOOK in configurations


async def _kueue_acts(cluster: Cluster) -> bool | None:
    """Whether Kueue makes the Workloads of AppWrappers; None where it does not run, or does not say it."""
    if await cluster.peer(*_KUEUE) is None:
        return None
    config = await or_default(cluster.get(CONFIG_MAPS, _KUEUE_CONFIG, namespace=_KUEUE[0]), None)
    if config is None:
        return None
    lines = [line.strip() for text in (config.get("data") or {}).values() for line in str(text).splitlines()]
    return any(line.strip("- '\"") == _INTEGRATION for line in lines if line.startswith("-"))


async def _app_wrappers(cluster: Cluster) -> AsyncIterator[Finding]:
    settings = await cluster.settings(WrappedKindsSettings, role="controller")
    wrapped = settings.wrapped_kinds or WRAPPED_KINDS
    owners = await or_default(_owners(cluster), None)
    async for finding in of_each(
        cluster.paged(APP_WRAPPERS),
        lambda one: next(_judged(cluster, one, wrapped, owners), None),
        most=_MOST,
        noun="AppWrapper",
    ):
        yield finding


async def _owners(cluster: Cluster) -> frozenset[str]:
    """The UIDs of what Workloads belong to."""
    found: set[str] = set()
    for resource in (WORKLOADS, WORKLOADS_V1BETA1):
        async for one in cluster.paged(resource):
            found.update(str(owner.get("uid")) for owner in one["metadata"].get("ownerReferences") or ())
    return frozenset(found)


def _judged(cluster: Cluster, one: JSON, wrapped: tuple[str, ...], owners: frozenset[str] | None) -> Iterator[Finding]:
    metadata, spec, now = one["metadata"], one.get("spec") or {}, cluster.now()
    namespace, name = metadata["namespace"], metadata["name"]
    about, see = f"AppWrapper {namespace}/{name}", commands.kubectl("describe", "appwrapper", name, namespace=namespace)
    found = objects.condition(one, DELETING_RESOURCES)
    began = moment(found.get("lastTransitionTime")) if found.get("status") == "True" else None
    if began is not None and (took := (now - began).total_seconds()) > PATIENCE:
        left = [
            f"{status.get('kind')} {status.get('name')}"
            for status in objects.status(one).get("componentStatus") or ()
            if objects.condition({"status": status}, "ResourcesDeployed").get("status") == "True"
        ]
        text = f"deletes its objects for {took / 60:.0f} minutes" + (
            f"; left: {listed(left)}" if left else "; Pods are left"
        )
        yield error("BERTH4005", about, text, command=see)
    queue = objects.labels(one).get(QUEUE_NAME)
    if queue and spec.get("suspend") and owners is not None and metadata["uid"] not in owners:
        waits = objects.age(one, now)
        if waits > _QUEUED and objects.status(one).get("phase") in (None, "", "Suspended"):
            text = f"waits in queue {plain(queue)} for {waits / 60:.0f} minutes and has no Workload"
            yield error(
                "BERTH4006", about, text, command=commands.kubectl("get", "namespace", namespace, "--show-labels")
            )
    unknown = [kind for kind in _kinds(spec) if not _is_wrapped(kind, wrapped)]
    if unknown and objects.status(one).get("phase") not in ("Succeeded", "Failed"):
        text = f"has a {listed(unknown)}, which is not among the wrapped kinds of the controller"
        yield error("BERTH4007", about, text, command=see)


def _kinds(spec: JSON) -> list[str]:
    """KIND.GROUP of each component, in lower case."""
    found = []
    for component in spec.get("components") or ():
        template = component.get("template") or {}
        group = str(template.get("apiVersion") or "").rpartition("/")[0]
        found.append(f"{template.get('kind')}.{group}".rstrip(".").lower())
    return list(dict.fromkeys(found))


def _is_wrapped(kind: str, wrapped: tuple[str, ...]) -> bool:
    """By the plural as Kubernetes makes it of a kind."""
    name, _, group = kind.partition(".")
    plurals = {f"{name}s", f"{name}es", f"{name[:-1]}ies", name}
    return any(f"{plural}.{group}".rstrip(".") in wrapped for plural in plurals)


CHECK = Check("appwrappers", (_controllers, _app_wrappers))
