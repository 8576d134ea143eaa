"""The daemons of RMD, for the check `rmd`: which are missing or silent, their certificate, who else sets resctrl."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from app.doctor import commands, objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, listed, or_default, plain, sound, warning
from app.doctor.pods import LIVING
from app.doctor.validity import end, expiry, has_ended, read
from app.kube.resources import NODES, PODS, SECRETS
from app.rmd.classes import KEYS
from app.rmd.daemon.certificates import Certificates, NoCertificate, stored_files
from app.rmd.model import CONFIG_NAME, CONNECTED, DAEMON_LABEL, DAEMON_VALUE, RMD_CONFIGS, RMD_NODE_STATES
from app.rmd.settings import AdmissionSettings, RmdSettings
from app.rmd.stored import DaemonPod, stored_config, stored_daemon
from app.text import MESSAGE, one_line, several
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
    pods = [stored_daemon(one) for one in await _pods(cluster, namespace)]
    usable = [one for one in pods if one is not None and one.usable and one.url]
    return {one.node: one for one in sorted(usable, key=lambda one: one.key, reverse=True)}


async def _pods(cluster: Cluster, namespace: str) -> list[JSON]:
    return await cluster.listed(PODS, namespace=namespace, label_selector=SELECTOR)


async def daemons(cluster: Cluster) -> AsyncIterator[Finding]:
    """Each node of the RmdConfig has a daemon, and each daemon answers."""
    settings = await settings_of(cluster)
    namespace = settings.rmd_namespace
    there = await daemons_of(cluster, namespace)
    pods = {(one.get("spec") or {}).get("nodeName"): one for one in await _pods(cluster, namespace)}
    selected = await _selected(cluster, namespace)
    missing = {node: _why(pods.get(node)) for node, long in selected.items() if long and node not in there}
    for text, nodes in _alike(missing).items():
        command = commands.describe_pods(namespace, {DAEMON_LABEL: DAEMON_VALUE})
        if nodes[0] not in pods:
            command = commands.kubectl("describe", "daemonset", "rmd", namespace=namespace)
        yield error("BERTH6008", _nodes(nodes), text, command=command)
    said = {one["spec"]["node"]: one for one in await cluster.listed(RMD_NODE_STATES, namespace=namespace)}
    known = one_line(await or_default(_unusable(cluster, settings), ""), MESSAGE) if await _asks_tls(cluster) else ""
    silent = {
        node: str(condition.get("message"))
        for node, one in sorted(said.items())
        if (condition := objects.condition(one, CONNECTED)).get("status") == "False"
        and (node in there or node not in selected)
    }
    for text, nodes in _alike(silent).items():
        if known and text == known:
            continue  # the part about the certificate reports it
        pod = there.get(nodes[0])
        command = commands.kubectl("get", "pods", f"--selector={SELECTOR}", "--output=wide", namespace=namespace)
        if pod is not None:
            command = commands.kubectl("logs", pod.key[1], namespace=namespace)
        yield error("BERTH6009", _nodes(nodes), f"the daemon does not answer: {plain(text)}", command=command)
    if there:
        yield sound(len(there), "daemon")


async def _selected(cluster: Cluster, namespace: str) -> dict[str, bool]:
    """The nodes on which the RmdConfig wants a daemon, and whether it has for longer than that takes."""
    obj = await cluster.get(RMD_CONFIGS, CONFIG_NAME, namespace=namespace)
    config = stored_config(obj) if obj is not None else None
    if obj is None or config is None:
        return {}
    now = cluster.now()
    return {
        one["metadata"]["name"]: min(objects.age(obj, now), objects.age(one, now)) > PATIENCE
        for one in await cluster.listed(NODES)
        if config.selector.items() <= objects.labels(one).items()
    }


def _why(pod: JSON | None) -> str:
    """Why a node has no daemon that can be asked; `pod` is the daemon's Pod there, None where there is none."""
    if pod is None:
        return f"no Pod with the label {SELECTOR} is there"
    waiting = [f"container {name}: {reason}" for name, reason, _ in objects.waiting_containers(pod)]
    return f"the Pod of its daemon does not run: {listed(waiting) or plain(objects.status(pod).get('phase'))}"


def _alike(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """The nodes by text."""
    found: dict[str, list[str]] = {}
    for node, text in texts.items():
        found.setdefault(text, []).append(node)
    return found


def _nodes(names: list[str]) -> str:
    return f"Node{'s' if len(names) > 1 else ''} {listed(names)}"


async def _asks_tls(cluster: Cluster) -> list[str]:
    """The nodes with daemons that Berth asks over TLS."""
    if "rmd" not in await cluster.controllers():
        return []
    there = await daemons_of(cluster, (await settings_of(cluster)).rmd_namespace)
    return sorted(node for node, one in there.items() if one.url.startswith("https:"))


async def certificate(cluster: Cluster) -> AsyncIterator[Finding]:
    """The client certificate, where a daemon has TLS: it is there, can be used, and has not ended."""
    settings = await settings_of(cluster)
    nodes = await _asks_tls(cluster)
    if not nodes:
        return
    namespace, name = settings.rmd_namespace, settings.rmd_client_certificate
    about, follows = f"Secret {namespace}/{name}", f"daemons with TLS are not asked: {_nodes(nodes)}"
    secret = await cluster.get(SECRETS, name, namespace=namespace) or {}
    command = commands.write_secret(name, namespace=namespace, kind=secret.get("type") or "Opaque")
    if text := await _unusable(cluster, settings):
        yield error("BERTH6010", about, plain(text.removeprefix(f"{about}: ")), follows, command)
        return
    data = secret["data"]
    authorities, _ = read(data["ca.crt"], source="ca.crt")
    (leaf, *_), _ = read(data["tls.crt"], source="tls.crt")
    if authorities and all(has_ended(one, cluster.now()) for one in authorities):
        yield error("BERTH6010", about, f"its ca.crt expired on {end(authorities[-1])}", follows, command)
    if has_ended(leaf, cluster.now()):
        yield error("BERTH6010", about, f"its certificate {expiry(leaf, cluster.now())}", follows, command)
    elif text := expiry(leaf, cluster.now()):
        yield warning("BERTH6011", about, f"its certificate {text}", f"then {follows}", command)


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
    there = await daemons_of(cluster, (await settings_of(cluster)).rmd_namespace)
    if not there:
        return
    users: dict[str, list[str]] = {}
    async for pod in cluster.pods(field_selector=LIVING):
        metadata, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName")
        if node in there and any(key.startswith(_CLASSES) for key in metadata.get("annotations") or ()):
            users.setdefault(node, []).append(f"{metadata['namespace']}/{metadata['name']}")
    by_webhook = (await cluster.settings(AdmissionSettings)).rmd_backend == "runtime"
    for node, pods in sorted(users.items())[:_MOST]:
        text = f"has a daemon of RMD, and {several(len(pods), 'Pod')} with an RDT class of the runtime: {listed(pods)}"
        command = commands.kubectl("get", "pods", "--all-namespaces", f"--field-selector=spec.nodeName={node}")
        if by_webhook:
            command = await commands.helm(cluster, "webhook.args.rmdBackend=auto")
        yield error("BERTH6012", f"Node {node}", text, command=command)
