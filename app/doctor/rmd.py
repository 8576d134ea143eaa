"""Check `rmd`: who acts on RmdWorkloads, the RmdConfig, daemons, and what RmdWorkloads and daemons do not agree on."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.definitions import definition_name
from app.doctor import acting, commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, Severity, error, info, or_default, plain, warning
from app.doctor.rmd_daemons import certificate, daemons, runtime_classes, settings_of
from app.doctor.rmd_workloads import workloads
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS
from app.rmd.controller.installing import AGENT, DAEMON
from app.rmd.model import CONFIG_NAME, READY, RMD_CONFIGS, RMD_WORKLOADS
from app.rmd.stored import Config, stored_config, stored_daemon_set
from app.wire import JSON

_OPERATOR = ("default", "intel-rmd-operator")


async def _controllers(cluster: Cluster) -> AsyncIterator[Finding]:
    """One controller has to act: that of Berth, or the operator."""
    if await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, definition_name(RMD_WORKLOADS)) is None:
        return
    chosen, operator = await cluster.controllers(), await cluster.peer(*_OPERATOR)
    for part in (
        acting.beside(cluster, "rmd", "BERTH6001", _OPERATOR),
        acting.without_replica(cluster, "rmd", "BERTH6002"),
    ):
        async for finding in part:
            yield finding
    # Without a Deployment the roles may run elsewhere: the check of the Deployments reports that.
    installed = await or_default(cluster.installed(), [])
    if installed and "rmd" not in chosen and operator is None and (kind := await _used(cluster)):
        text = f"there are objects of kind {kind}, and neither the controller rmd nor the RMD operator runs"
        yield error("BERTH6003", "", text, command=await acting.choose(cluster, "rmd"))


async def _used(cluster: Cluster) -> str:
    """A kind of which there are objects, "" where there are none."""
    for resource in (RMD_CONFIGS, RMD_WORKLOADS):
        page = await or_default(cluster.client.list_page(resource, limit=1), None)
        if page is not None and page.items:
            return resource.kind
    return ""


async def _configs(cluster: Cluster) -> AsyncIterator[Finding]:
    """The RmdConfig is in the namespace of the daemons, and does what it says."""
    namespace = (await settings_of(cluster)).rmd_namespace
    found = {one["metadata"]["namespace"]: one for one in await cluster.listed(RMD_CONFIGS)}
    for place in sorted(found.keys() - {namespace}):
        command = await commands.helm(cluster, f"rmd.namespace={place}")
        if namespace in found:
            command = commands.kubectl("delete", objects.plural(RMD_CONFIGS), CONFIG_NAME, namespace=place)
        text = f"is not in namespace {namespace}, where the daemons are"
        yield warning("BERTH6004", objects.subject(RMD_CONFIGS.kind, found[place]), text, command=command)
    if namespace in found and (config := stored_config(found[namespace])) is not None:
        for finding in await _judged(cluster, found[namespace], config):
            yield finding


async def _judged(cluster: Cluster, obj: JSON, config: Config) -> list[Finding]:
    about, ready = objects.subject(RMD_CONFIGS.kind, obj), objects.condition(obj, READY)
    failed = ready.get("status") == "False"
    message = plain(ready.get("message"))
    if failed and ready.get("reason") == "NoNodes":
        label = " ".join(f"{key}={value}" for key, value in sorted(config.selector.items()))
        text = f"selects no node: {message}"
        return [
            warning("BERTH6005", about, text, command=f'kubectl label node "$NODE" {label}  # NODE: one with L3 CAT')
        ]
    others = [finding for name in (DAEMON, AGENT) async for finding in _not_its_own(cluster, config, name, message)]
    if failed and not any(one.severity is Severity.error for one in others):
        command = commands.kubectl("describe", objects.plural(RMD_CONFIGS), CONFIG_NAME, namespace=config.key[0])
        others.append(error("BERTH6006", about, f"is not carried out: {message}", command=command))
    return others


async def _not_its_own(cluster: Cluster, config: Config, name: str, message: str) -> AsyncIterator[Finding]:
    """A DaemonSet that the RmdConfig would install, and that it does not own; `message` is that of the RmdConfig."""
    namespace = config.key[0]
    found = await or_default(cluster.get(DAEMON_SETS, name, namespace=namespace), None)
    if found is None or (owner := stored_daemon_set(found).owner) == config.uid:
        return
    about = f"DaemonSet {namespace}/{name}"
    text = f"belongs to {'another controller' if owner else 'no RmdConfig'}"
    if f"DaemonSet {name} " in message:
        # Its Pods go on: the DaemonSet that the RmdConfig installs adopts them.
        command = commands.kubectl("delete", "daemonset", name, "--cascade=orphan", namespace=namespace)
        yield error("BERTH6007", about, text, command=command)
    elif name == DAEMON:
        yield info("BERTH6007", about, text)


CHECK = Check("rmd", (_controllers, _configs, daemons, certificate, runtime_classes, workloads))
