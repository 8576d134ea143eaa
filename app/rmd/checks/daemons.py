"""The daemons of RMD, for the check `rmd`: which are missing or silent, their certificate, who else sets resctrl."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from app.doctor import commands, objects
from app.doctor.catalog import listed, plain
from app.doctor.certificate import faults
from app.doctor.cluster import LIVING, Cluster
from app.doctor.model import Finding, Severity, error, noted, or_default, sound
from app.kube.resources import NODES, PODS, SECRETS
from app.kube.secrets import stored_files
from app.rmd.classes import KEYS
from app.rmd.daemon.client import Certificates, NoCertificate
from app.rmd.model import CONFIG_NAME, CONNECTED, DAEMON_LABEL, DAEMON_VALUE, RMD_CONFIGS, RMD_NODE_STATES
from app.rmd.settings import AdmissionSettings, RmdSettings
from app.rmd.stored import DaemonPod, stored_config, stored_daemon
from app.text import MESSAGE, one_line
from app.wire import JSON

PATIENCE = 300.0
"""Seconds in which a new node gets its daemon, and a controller acts."""
SELECTOR = f"{DAEMON_LABEL}={DAEMON_VALUE}"
"""The Pods with daemons."""
_CLASSES = tuple(key.removesuffix("container.") for key in KEYS.values())
"""How the annotations begin that name an RDT class, for a container or for the Pod."""
_MOST = 100


async def settings_of(cluster: Cluster) -> RmdSettings:
    return await cluster.settings(RmdSettings, role="controller")


async def daemons_of(cluster: Cluster, namespace: str) -> dict[str, DaemonPod]:
    """The daemons that have an address, by node. Of several the controller asks the same one."""
    pods = [stored_daemon(pod) for pod in await _pods(cluster, namespace)]
    usable = [daemon for daemon in pods if daemon is not None and daemon.usable and daemon.url]
    return {daemon.node: daemon for daemon in sorted(usable, key=lambda daemon: daemon.key, reverse=True)}


async def _pods(cluster: Cluster, namespace: str) -> list[JSON]:
    return await cluster.listed(PODS, namespace=namespace, label_selector=SELECTOR)


async def daemons(cluster: Cluster) -> AsyncIterator[Finding]:
    """Each node of the RmdConfig has a daemon, and each daemon answers."""
    settings = await settings_of(cluster)
    namespace = settings.rmd_namespace
    usable = await daemons_of(cluster, namespace)
    pods = {objects.spec(pod).get("nodeName"): pod for pod in await _pods(cluster, namespace)}
    selected = await _selected(cluster, namespace)
    missing = {node: _why(pods.get(node)) for node, long in selected.items() if long and node not in usable}
    for text, nodes in _alike(missing).items():
        case = "" if nodes[0] in pods else "without"
        yield error("BERTH6008", _nodes(nodes), text, case=case, namespace=namespace, selector=SELECTOR)
    states = {state["spec"]["node"]: state for state in await cluster.listed(RMD_NODE_STATES, namespace=namespace)}
    known = one_line(await or_default(_unusable(cluster, settings), ""), MESSAGE) if await _asks_tls(cluster) else ""
    silent = {
        node: str(condition.get("message"))
        for node, state in sorted(states.items())
        if (condition := objects.condition(state, CONNECTED)).get("status") == "False"
        and (node in usable or node not in selected)
    }
    for text, nodes in _alike(silent).items():
        if not known or text != known:  # else the part about the certificate reports it
            pod = usable[nodes[0]].key[1] if nodes[0] in usable else ""
            values: dict[str, Any] = {"text": text, "namespace": namespace, "selector": SELECTOR, "pod": pod}
            yield error("BERTH6009", _nodes(nodes), case="pod" if pod else "", **values)
    if usable:
        yield sound(len(usable), "daemon")


async def _selected(cluster: Cluster, namespace: str) -> dict[str, bool]:
    """The nodes on which the RmdConfig wants a daemon, and whether it has for longer than that takes."""
    obj = await cluster.get(RMD_CONFIGS, CONFIG_NAME, namespace=namespace)
    config = stored_config(obj) if obj is not None else None
    if obj is None or config is None:
        return {}
    now = cluster.now()
    return {
        node["metadata"]["name"]: min(objects.age(obj, now), objects.age(node, now)) > PATIENCE
        for node in await cluster.listed(NODES)
        if config.selector.items() <= objects.labels(node).items()
    }


def _why(pod: JSON | None) -> str:
    """Why a node has no daemon that can be asked; `pod` is the daemon's Pod there, None where there is none."""
    if pod is None:
        return f"no Pod with the label {SELECTOR} is there"
    waiting = [f"container {name}: {reason}" for name, reason, _ in objects.waiting_containers(pod)]
    return f"the Pod of its daemon does not run: {listed(waiting) or plain(objects.status(pod).get('phase'))}"


def _alike(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The nodes by text."""
    nodes: dict[str, list[str]] = {}
    for node, text in texts.items():
        nodes.setdefault(text, []).append(node)
    return nodes


def _nodes(names: list[str]) -> str:
    return f"Node{'s' if len(names) > 1 else ''} {listed(names)}"


async def _asks_tls(cluster: Cluster) -> list[str]:
    """The nodes with daemons that Berth asks over TLS."""
    if "rmd" not in await cluster.controllers():
        return []
    usable = await daemons_of(cluster, (await settings_of(cluster)).rmd_namespace)
    return sorted(node for node, daemon in usable.items() if daemon.url.startswith("https:"))


async def certificate(cluster: Cluster) -> AsyncIterator[Finding]:
    """The client certificate, where a daemon has TLS: it is there, can be used, and has not ended."""
    settings, nodes = await settings_of(cluster), await _asks_tls(cluster)
    if not nodes:
        return
    it = objects.named(SECRETS, settings.rmd_client_certificate, settings.rmd_namespace)
    secret = await cluster.get(SECRETS, it.name, namespace=it.namespace) or {}
    fix = commands.write_secret(it.name, namespace=it.namespace, kind=secret.get("type") or "Opaque")
    if text := await _unusable(cluster, settings):
        found = [(Severity.error, plain(text.removeprefix(f"{it.subject}: ")))]
    else:
        found = [(severity, text) for severity, _, text in faults(secret, cluster.now())]
    for severity, text in found:
        code = "BERTH6010" if severity is Severity.error else "BERTH6011"
        yield noted(severity, code, it, text, nodes=_nodes(nodes), command=fix)


async def _unusable(cluster: Cluster, settings: RmdSettings) -> str:
    """Why the controller asks no daemon with TLS, in its words; "" where it does."""
    namespace, name = settings.rmd_namespace, settings.rmd_client_certificate
    secret = await cluster.get(SECRETS, name, namespace=namespace)
    files = None if secret is None else stored_files(secret)
    try:
        Certificates(lambda: files, place=f"Secret {namespace}/{name}").context()
    except NoCertificate as problem:
        return str(problem)
    return ""


async def runtime_classes(cluster: Cluster) -> AsyncIterator[Finding]:
    """On a node with a daemon no Pod has an RDT class of the container runtime: both would set resctrl."""
    usable = await daemons_of(cluster, (await settings_of(cluster)).rmd_namespace)
    if not usable:
        return
    users: dict[str, list[str]] = {}
    async for pod in cluster.pods(field_selector=LIVING):
        metadata, node = pod["metadata"], objects.spec(pod).get("nodeName")
        if node in usable and any(key.startswith(_CLASSES) for key in metadata.get("annotations") or ()):
            users.setdefault(node, []).append(f"{metadata['namespace']}/{metadata['name']}")
    by_webhook = (await cluster.settings(AdmissionSettings)).rmd_backend == "runtime"
    fix = await commands.helm(cluster, "webhook.args.rmdBackend=auto") if by_webhook else ""
    for node, pods in sorted(users.items())[:_MOST]:
        yield error("BERTH6012", objects.named(NODES, node), command=fix, count=len(pods), pods=pods)
