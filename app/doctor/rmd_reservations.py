"""Reservations that are on one side alone, RmdWorkloads or daemons; for the check `rmd`."""

from __future__ import annotations

import shlex
from collections.abc import AsyncIterator, Sequence

from app.doctor import objects
from app.doctor.cluster import Cluster
from app.doctor.model import Finding, error, or_default, warning
from app.doctor.rmd_records import Held, Row, States, lost, read_held, unknown
from app.kube.resources import NODES
from app.kube.store import Key
from app.rmd.model import RMD_NODE_STATES, RMD_WORKLOADS, SERVER_NAME, TLS_PORT
from app.rmd.stored import DaemonPod, stored_workload
from app.wire import JSON


async def differing(cluster: Cluster, held: Held, states: States, daemon: DaemonPod | None) -> AsyncIterator[Finding]:
    """What the daemon of a node holds without an RmdWorkload, and what it should hold by a status and does not.

    What may have changed while all was read is read again.
    """
    if not any(unknown(held, states)) and not any(lost(held, states)):
        return
    again = await cluster.get(RMD_NODE_STATES, held.key[1], namespace=held.key[0])
    held = read_held(again) if again is not None else held
    it = objects.named(NODES, held.node)
    foreign = [
        row for row in unknown(held, states) if row.key in states or await _state(cluster, row.key, held.node) is None
    ]
    if foreign:
        yield warning("BERTH6013", it, rows=foreign, command=_release(foreign, daemon) if daemon else "")
    gone = [
        (key, number)
        for key, number in lost(held, states)
        if ((await _state(cluster, key, held.node)) or {}).get("id") == number
    ]
    if gone:
        names = [f"{namespace}/{name} (id {number})" for (namespace, name), number in gone]
        (namespace, name), _ = gone[0]
        yield error("BERTH6014", it, names=names, first=objects.named(RMD_WORKLOADS, name, namespace))


async def _state(cluster: Cluster, key: Key, node: str) -> JSON | None:
    """The state of an RmdWorkload on a node as it is now, None where there is none."""
    now = await or_default(cluster.get(RMD_WORKLOADS, key[1], namespace=key[0]), None) if all(key) else None
    return stored_workload(now).states.get(node) if now is not None else None


def _release(rows: Sequence[Row], daemon: DaemonPod) -> str:
    """Releases reservations at their daemon; "" where their ids can be in no request."""
    words = ["curl", "--fail", "--request", "DELETE", "--header", "Content-Type: application/json"]
    base = daemon.url
    if base.startswith("https:"):
        base = f"https://{SERVER_NAME}:{TLS_PORT}"
        words += ["--cert", "tls.crt", "--key", "tls.key", "--cacert", "ca.crt"]
        words += ["--connect-to", f"{SERVER_NAME}:{TLS_PORT}:{daemon.url.removeprefix('https://')}"]
    places = [f"{base}/v1/workloads/{row.id}" for row in rows if row.id.isdigit()]
    return shlex.join([*words, *places]) if places else ""
