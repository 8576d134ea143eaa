"""Nodes with stand-in daemons of RMD, and what Intel's operator has in a cluster."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.users import Kubectl
from tests.support.rmd_thread import Background

JSON = dict[str, Any]
RDT = {"feature.node.kubernetes.io/cpu-rdt.RDTL3CA": "true"}
OPERATOR, AGENT = "intel-rmd-operator", "intel-rmd-node-agent"


_READ = ["get", "list", "watch"]
_WRITE = [*_READ, "patch", "create", "update"]
_OWN = [*_WRITE, "delete"]
_CORE = [
    "pods",
    "services",
    "services/finalizers",
    "endpoints",
    "persistentvolumeclaims",
    "events",
    "configmaps",
    "secrets",
]


def _rule(group: str, resources: list[str], verbs: list[str]) -> JSON:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


_KINDS = ["rmdworkloads", "rmdnodestates", "rmdconfigs"]
_RULES: dict[tuple[str, str], list[JSON]] = {
    ("", OPERATOR): [
        _rule("", _CORE, _OWN),
        _rule("apps", ["deployments", "daemonsets", "replicasets", "statefulsets"], _OWN),
        _rule("monitoring.coreos.com", ["servicemonitors"], ["get", "create"]),
        _rule("apps", ["deployments/finalizers"], ["update"]) | {"resourceNames": [OPERATOR]},
        _rule("intel.com", ["*", *_KINDS], _OWN),
    ],
    ("", AGENT): [_rule("", _CORE, _OWN), _rule("intel.com", ["*", *_KINDS], _OWN)],
    ("Cluster", OPERATOR): [
        _rule("", ["nodes", "nodes/status"], [*_READ, "patch", "update"]),
        _rule("", ["pods"], _WRITE),
        _rule("intel.com", _KINDS, _WRITE),
        _rule("apps", ["daemonsets"], _WRITE),
    ],
    ("Cluster", AGENT): [
        _rule("", ["namespaces"], _READ),
        _rule("", ["pods"], _WRITE),
        _rule("intel.com", ["rmdworkloads"], _WRITE),
    ],
}


def create(kubectl: Kubectl, *bodies: JSON) -> None:
    """All at once; in namespace default where they name none."""
    kubectl.run("create", "-f", "-", stdin="\n---\n".join(map(json.dumps, bodies)))


def say(kubectl: Kubectl, kind: str, name: str, status: JSON) -> None:
    patch = json.dumps({"status": status})
    kubectl.run("patch", kind, name, "--subresource=status", "--type=merge", "--patch", patch)


def add_node(kubectl: Kubectl, name: str, daemon: Background, **labels: str) -> None:
    """A node that no kubelet reports, and the Pod of its daemon."""
    container = {"name": "rmd", "image": "rmd:latest", "ports": [{"containerPort": daemon.port}]}
    spec = {"nodeName": name, "containers": [container], "tolerations": [{"operator": "Exists"}]}
    create(
        kubectl,
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": RDT | labels}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": _named(f"rmd-{name}", {"name": "rmd-pod"}), "spec": spec},
    )
    say(kubectl, "pod", f"rmd-{name}", {"podIP": "127.0.0.1", "phase": "Running"})


def rmd_workload(name: str, *nodes: str, namespace: str = "default", **spec: Any) -> JSON:
    metadata = {"name": name, "namespace": namespace}
    body = {"coreIds": ["0-1"], "rdt": {"cache": {"max": 2, "min": 2}}, "nodes": list(nodes), **spec}
    return {"apiVersion": "intel.com/v1alpha1", "kind": "RmdWorkload", "metadata": metadata, "spec": body}


def definitions_of_the_operator() -> list[JSON]:
    """Those of deploy/crds of v0.3 (0609baf) as v1, the version that API servers serve: fields, and required ones."""
    text, texts = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    labels = {"type": "object", "additionalProperties": text}
    ways = {"type": "object", "properties": {"max": {"type": "integer"}, "min": {"type": "integer"}}}
    units = {"type": "object", "properties": {"mbps": {"type": "integer"}, "percentage": {"type": "integer"}}}
    rdt = {"type": "object", "properties": {"cache": ways, "mba": units}}
    pstate = {"type": "object", "properties": {"monitoring": text, "ratio": text}}
    plugins = {"type": "object", "properties": {"pstate": pstate}}
    state = dict.fromkeys(("response", "id", "cosName", "status", "policy"), text)
    state |= {"coreIds": {**texts, "nullable": True}, "rdt": rdt, "plugins": plugins}
    states = {"type": "object", "additionalProperties": {"type": "object", "properties": state}}
    rows = {"type": "object", "additionalProperties": labels}
    config = {"rmdImage": text, "rmdNodeSelector": labels, "deployNodeAgent": {"type": "boolean"}}
    workload = {"coreIds": texts, "nodes": texts, "nodeSelector": labels, "policy": text, "rdt": rdt}
    workload |= {"allCores": {"type": "boolean"}, "reservedCoreIds": texts, "plugins": plugins}
    node_state = _properties({"node": text, "nodeUid": text}, {"workloads": rows})
    node_state["spec"]["required"], node_state["status"]["required"] = ["node", "nodeUid"], ["workloads"]
    only = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^rmdconfig$"}}}
    return [
        _definition("RmdConfig", _properties(config, {"nodes": texts}) | {"metadata": only}),
        _definition("RmdNodeState", node_state),
        _definition("RmdWorkload", _properties(workload, {"workloadStates": states})),
    ]


def what_the_operator_installs() -> list[JSON]:
    """Those of deploy of v0.3 (0609baf): its Deployment, the accounts with their rights, and deploy/rmdconfig.yaml.

    A current API server wants a namespace in the subjects of RoleBindings, which rbac.yaml leaves out there.
    """
    template = {"metadata": {"labels": {"name": OPERATOR}}, "spec": _container(OPERATOR, OPERATOR)}
    spec = {"replicas": 1, "selector": {"matchLabels": {"name": OPERATOR}}, "template": template}
    found: list[JSON] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": _named(OPERATOR), "spec": spec},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named(f"{OPERATOR}-lock")},
    ]
    group = "rbac.authorization.k8s.io"
    for name in (OPERATOR, AGENT):
        found.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(name)})
        for scope in ("", "Cluster"):
            metadata = _named(name) if not scope else {"name": name}
            referred = {"apiGroup": group, "kind": f"{scope}Role", "name": name}
            subject = {"kind": "ServiceAccount", "name": name, "namespace": "default"}
            found += [
                {
                    "apiVersion": f"{group}/v1",
                    "kind": f"{scope}Role",
                    "metadata": metadata,
                    "rules": _RULES[scope, name],
                },
                {"apiVersion": f"{group}/v1", "kind": f"{scope}RoleBinding", "metadata": metadata}
                | {"roleRef": referred, "subjects": [subject]},
            ]
    config = {"rmdImage": "rmd:latest", "rmdNodeSelector": RDT, "deployNodeAgent": False}
    found.append(
        {"apiVersion": "intel.com/v1alpha1", "kind": "RmdConfig", "metadata": _named("rmdconfig"), "spec": config}
    )
    return found


def what_the_operator_makes(config_uid: str, *nodes: str) -> list[JSON]:
    """The objects that its RmdConfig owns."""
    owner = {"apiVersion": "intel.com/v1alpha1", "kind": "RmdConfig", "name": "rmdconfig", "uid": config_uid}
    owned = {"ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}]}
    found = []
    for name, label, images in (
        ("rmd", "rmd-pod", ("rmd:latest", "intel-rmd-deviceplugin")),
        ("rmd-node-agent", "rmd-node-agent-pod", (f"{AGENT}:latest",)),
    ):
        containers = [one for image in images for one in _container(image.partition(":")[0], image)["containers"]]
        template = {"metadata": {"labels": {"name": label}}, "spec": {"containers": containers, "nodeSelector": RDT}}
        spec = {"selector": {"matchLabels": {"name": label}}, "template": template}
        found.append({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": _named(name) | owned, "spec": spec})
    for node in nodes:
        metadata = _named(f"rmd-node-state-{node}") | owned
        found.append(
            {"apiVersion": "intel.com/v1alpha1", "kind": "RmdNodeState", "metadata": metadata}
            | {"spec": {"node": node, "nodeUid": ""}}
        )
    return found


def _named(name: str, labels: JSON | None = None) -> JSON:
    return {"name": name, "namespace": "default", "labels": labels or {}}


def _container(name: str, image: str) -> JSON:
    return {"containers": [{"name": name, "image": image}]}


def _properties(spec: JSON, status: JSON) -> JSON:
    return {
        "spec": {"type": "object", "properties": spec},
        "status": {"type": "object", "properties": status},
    }


def _definition(kind: str, properties: JSON) -> JSON:
    plural = f"{kind.lower()}s"
    version = {"name": "v1alpha1", "served": True, "storage": True, "subresources": {"status": {}}}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    names = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.intel.com"},
        "spec": {"group": "intel.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
