"""Check `rmd`: who acts on RmdWorkloads, the RmdConfig, daemons, and what RmdWorkloads and daemons do not agree on."""

from __future__ import annotations

from collections.abc import AsyncIterator

from app.definitions import definition_name
from app.doctor import acting, commands, objects
from app.doctor.catalog import plain
from app.doctor.cluster import Cluster
from app.doctor.model import Check, Finding, Severity, error, info, or_default, warning
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DAEMON_SETS
from app.rmd.checks.daemons import certificate, daemons, runtime_classes, settings_of
from app.rmd.checks.workloads import workloads
from app.rmd.controller.installing import AGENT, DAEMON
from app.rmd.model import READY, RMD_CONFIGS, RMD_WORKLOADS
from app.rmd.stored import Config, stored_config, stored_daemon_set
from app.why.examined import judged

_OPERATOR = ("default", "intel-rmd-operator")


async def _controllers(cluster: Cluster) -> AsyncIterator[Finding]:
    """One controller has to act: that of Berth, or the operator."""
    if await cluster.get(CUSTOM_RESOURCE_DEFINITIONS, definition_name(RMD_WORKLOADS)) is None:
        return
    async for finding in acting.beside(cluster, "rmd", "BERTH6001", _OPERATOR):
        yield finding
    async for finding in acting.without_replica(cluster, "rmd", "BERTH6002"):
        yield finding
    chosen, operator = await cluster.controllers(), await cluster.peer(*_OPERATOR)
    # Without a Deployment the roles may run elsewhere: the check of the Deployments reports that.
    installed = await or_default(cluster.installed(), [])
    if installed and "rmd" not in chosen and operator is None and (kind := await _used(cluster)):
        yield error("BERTH6003", "", kind=kind, command=await acting.choose(cluster, "rmd"))


async def _used(cluster: Cluster) -> str:
    """A kind of which there are objects, "" where there are none."""
    for resource in (RMD_CONFIGS, RMD_WORKLOADS):
        page = await or_default(cluster.client.list_page(resource, limit=1), None)
        if page is not None and page.items:
            return resource.kind
    return ""


async def _configs(cluster: Cluster) -> AsyncIterator[Finding]:
    """The RmdConfig is in the namespace of the daemons, and does what it says."""
    home = (await settings_of(cluster)).rmd_namespace
    configs = {obj["metadata"]["namespace"]: obj for obj in await cluster.listed(RMD_CONFIGS)}
    for place in sorted(configs.keys() - {home}):
        fix = "" if home in configs else await commands.helm(cluster, f"rmd.namespace={place}")
        yield warning("BERTH6004", objects.Object(RMD_CONFIGS, configs[place]), home=home, command=fix)
    if home in configs and (config := stored_config(configs[home])) is not None:
        for finding in await _judged(cluster, objects.Object(RMD_CONFIGS, configs[home]), config):
            yield finding


async def _judged(cluster: Cluster, it: objects.Object, config: Config) -> list[Finding]:
    ready = objects.condition(it.json, READY)
    failed, said = ready.get("status") == "False", plain(ready.get("message"))
    if failed and ready.get("reason") == "NoNodes":
        labels = " ".join(f"{key}={value}" for key, value in sorted(config.selector.items()))
        return [warning("BERTH6005", it, said=said, labels=labels)]
    others = [finding for name in (DAEMON, AGENT) async for finding in _not_its_own(cluster, config, name, said)]
    if failed and not any(finding.severity is Severity.error for finding in others):
        others.append(error("BERTH6006", it, said=said))
    return others


async def _not_its_own(cluster: Cluster, config: Config, name: str, message: str) -> AsyncIterator[Finding]:
    """A DaemonSet that the RmdConfig would install, and that it does not own; `message` is that of the RmdConfig."""
    it = objects.named(DAEMON_SETS, name, config.key[0])
    daemon_set = await or_default(cluster.get(DAEMON_SETS, name, namespace=it.namespace), None)
    if daemon_set is None or (owner := stored_daemon_set(daemon_set).owner) == config.uid:
        return
    if f"DaemonSet {name} " in message:
        # Its Pods go on: the DaemonSet that the RmdConfig installs adopts them.
        fix = commands.kubectl("delete", "daemonset", name, "--cascade=orphan", namespace=it.namespace)
        yield error("BERTH6007", it, owner="another controller" if owner else "no RmdConfig", command=fix)
    elif name == DAEMON:
        yield info("BERTH6007", it, owner="another controller" if owner else "no RmdConfig")


CHECK = Check(
    "rmd",
    (_controllers, _configs, daemons, certificate, runtime_classes, workloads),
    of_users=(judged(RMD_WORKLOADS),),
)
