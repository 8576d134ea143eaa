"""What makes a Pod: a Pod itself cannot be changed, and so the commands of verdicts change that."""

from __future__ import annotations

import json

from app.doctor import commands
from app.kube.resources import controller_of
from app.networks.model import NETWORKS
from app.wire import JSON

_CHANGEABLE = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
"""Kinds whose template can be changed."""


def maker_of(pod: JSON) -> tuple[str, str]:
    """Kind and name of what makes a Pod, of a ReplicaSet its Deployment; those of the Pod itself without one."""
    metadata = pod["metadata"]
    owner = controller_of(metadata)
    kind, name = str(owner.get("kind") or "Pod"), str(owner.get("name") or metadata["name"])
    before, _, last = name.rpartition("-")
    if kind == "ReplicaSet" and before and last == (metadata.get("labels") or {}).get("pod-template-hash"):
        return "Deployment", before
    return kind, name


def edit(pod: JSON, how: str) -> str:
    """The command by which what makes a Pod is changed, with a comment that says how."""
    kind, name = maker_of(pod)
    namespace = pod["metadata"].get("namespace", "")
    if kind in _CHANGEABLE:
        return f"{commands.kubectl('edit', f'{kind.lower()}/{name}', namespace=namespace)}  # {how}"
    return f"{commands.kubectl('replace', '--force', f'--filename={name}.yaml', namespace=namespace)}  # {how}"


def select_network(pod: JSON, network: str) -> str:
    """The command by which the Pods of its maker select a network too."""
    kind, name = maker_of(pod)
    selected = (pod["metadata"].get("annotations") or {}).get(NETWORKS, "").strip()
    if kind not in _CHANGEABLE or selected.startswith("["):
        return edit(pod, f"select {network} in its annotation {NETWORKS}")
    value = ", ".join(filter(None, (selected, network)))
    patch = {"spec": {"template": {"metadata": {"annotations": {NETWORKS: value}}}}}
    words = ["patch", f"{kind.lower()}/{name}", "--type=merge", f"--patch={json.dumps(patch)}"]
    return commands.kubectl(*words, namespace=pod["metadata"].get("namespace", ""))


def annotate(kind: str, name: str, key: str, value: str, *, namespace: str) -> str:
    """The command that sets an annotation."""
    return commands.kubectl("annotate", kind, name, f"{key}={value}", "--overwrite", namespace=namespace)
