"""The RmdConfig: the DaemonSets of daemon and node agent, and an RmdNodeState for each selected node. Pure.

The templates are data of the installation, a ConfigMap: images and ports are not built in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.kube.documents import parse_documents
from app.kube.resources import controller_reference
from app.rmd.model import RMD_CONFIGS, RMD_NODE_STATES, TEMPLATE_HASH, node_state_name
from app.rmd.stored import Config, Node, NodeState
from app.wire import JSON, copied, encode_json

DAEMON, AGENT = "rmd", "rmd-node-agent"
"""The names of the DaemonSets, as the operator has them."""
TEMPLATES = {DAEMON: "rmd-ds.yaml", AGENT: "rmd-node-agent-ds.yaml"}
"""The entries of the ConfigMap."""


class BadTemplate(ValueError):
    """An entry of the ConfigMap is no DaemonSet; the text says which and why."""


def owner_of(config: Config) -> JSON:
    return controller_reference(RMD_CONFIGS, config.key[1], config.uid)


def daemon_set(name: str, templates: Mapping[str, str], config: Config) -> JSON | None:
    """The DaemonSet as it should be; None where there is no template. Raises BadTemplate.

    Name, namespace, owner and node selector of the template do not count.
    """
    entry = TEMPLATES[name]
    text = templates.get(entry)
    if not text:
        return None
    try:
        (document,) = parse_documents(text, source=entry)
        made = copied(document.content)
        pod = made["spec"]["template"]["spec"]
        if name == DAEMON and config.image:
            pod["containers"][0]["image"] = config.image
        pod["nodeSelector"] = dict(config.selector)
        made["metadata"] |= {"name": name, "namespace": config.key[0], "ownerReferences": [owner_of(config)]}
        annotations = dict(made["metadata"].get("annotations") or {})
    except Exception as error:  # the wall: whatever an admin writes there, the other controllers go on
        raise BadTemplate(f"{entry}: want one DaemonSet: {error}") from error
    if made.get("kind") != "DaemonSet":
        raise BadTemplate(f"{entry}: want a DaemonSet, got {made.get('kind')}")
    digest = hashlib.sha256(encode_json(made)).hexdigest()
    made["metadata"]["annotations"] = {**annotations, TEMPLATE_HASH: digest}
    return made


@dataclass(frozen=True, slots=True)
class NodeStates:
    """What has to be created and deleted, and the selected nodes."""

    create: tuple[JSON, ...]
    delete: tuple[NodeState, ...]
    nodes: tuple[str, ...]


def plan_node_states(config: Config, nodes: Mapping[str, Node], stored: Iterable[NodeState]) -> NodeStates:
    """RmdNodeStates of others are left alone; one of an earlier node of the same name is not kept."""
    selected = [name for name, node in sorted(nodes.items()) if config.selector.items() <= node.labels.items()]
    states = {state.key[1]: state for state in stored}
    kept = {node_state_name(name): nodes[name].uid for name in selected}
    stale = [
        state for state in states.values() if state.owner == config.uid and kept.get(state.key[1]) != state.node_uid
    ]
    missing = [name for name in selected if node_state_name(name) not in states]
    create = tuple(_node_state(config, name, nodes[name].uid) for name in missing)
    return NodeStates(create, tuple(stale), tuple(selected))


def _node_state(config: Config, node: str, uid: str) -> JSON:
    metadata = {"name": node_state_name(node), "ownerReferences": [owner_of(config)]}
    return RMD_NODE_STATES.body(metadata, spec={"node": node, "nodeUid": uid})
