"""Names of the RMD API: kinds, marks, and what both controllers and checks have to agree upon."""

from __future__ import annotations

from app.kube.resources import Resource

GROUP, VERSION = "intel.com", "v1alpha1"
RMD_WORKLOADS = Resource(GROUP, VERSION, "rmdworkloads", "RmdWorkload")
RMD_NODE_STATES = Resource(GROUP, VERSION, "rmdnodestates", "RmdNodeState")
RMD_CONFIGS = Resource(GROUP, VERSION, "rmdconfigs", "RmdConfig")

L3_CACHE_WAYS = "intel.com/l3_cache_ways"
"""The extended resource: cache ways of the guaranteed pool."""
FINALIZER = "intel.com/rmd-reservations"
"""On an RmdWorkload, by the controller: daemons have reservations for it."""
NODE_LABEL = "berth.dev/rmd-node"
"""Label on RmdWorkloads, by the node agent: the node whose agent made it."""
TEMPLATE_HASH = "berth.dev/rmd-template"
"""Annotation on the DaemonSets of an RmdConfig, by the controller: SHA-256 of what it has applied."""
DAEMON_LABEL, DAEMON_VALUE = "name", "rmd-pod"
"""The label of the daemon's Pods, as the operator's DaemonSet `rmd` has it."""
DAEMON_NAMESPACE = "default"
"""Where the operator has the daemons, RmdConfig and RmdNodeStates."""
PLAIN_PORT, TLS_PORT = 8081, 8443
SERVER_NAME = "rmd-nameserver"
"""The name in the certificates of daemons."""
READY, CONNECTED = "Ready", "Connected"
"""Conditions: of RmdWorkloads and the RmdConfig; of RmdNodeStates, whether the daemon answers."""
TEMPLATES_NAME = "berth-rmd-daemon-sets"
"""The ConfigMap with the DaemonSets of an RmdConfig, unless a setting names another."""
CONFIG_NAME = "rmdconfig"
"""The one name that an RmdConfig may have."""
DEFAULT_NODES = {"feature.node.kubernetes.io/cpu-rdt.RDTL3CA": "true"}
"""The nodes with a daemon where an RmdConfig selects none: those where Node Feature Discovery found L3 CAT."""


def uuid_of(namespace: str, name: str) -> str:
    """How a daemon knows the reservation of an RmdWorkload. The operator sent the name alone."""
    return f"{namespace}/{name}"


def node_state_name(node: str) -> str:
    """The name of the RmdNodeState of a node."""
    return f"rmd-node-state-{node}"
