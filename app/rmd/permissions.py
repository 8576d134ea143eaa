"""What RMD needs at an API server: kinds and permissions."""

from __future__ import annotations

from app.rmd.model import RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS
from app.wiring import READ, Permission, Permissions

KINDS = (RMD_WORKLOADS, RMD_NODE_STATES, RMD_CONFIGS)
_GROUP = RMD_WORKLOADS.group
PERMISSIONS: Permissions = {
    # RBAC cannot bind this to a node. A ValidatingAdmissionPolicy of the chart does it for what is written.
    "rmd-node": (
        Permission("cluster", "", ("pods",), ("list", "watch")),
        Permission("cluster", _GROUP, (RMD_WORKLOADS.plural,), (*READ, "create", "patch", "delete")),
        Permission("cluster", "", ("events",), ("create", "patch")),
    ),
    "rmd": (
        Permission("cluster", _GROUP, (RMD_WORKLOADS.plural,), (*READ, "patch")),
        Permission("cluster", _GROUP, (f"{RMD_WORKLOADS.plural}/status",), ("patch",)),
        Permission("cluster", "", ("nodes",), ("list", "watch")),
        Permission("rmd", "", ("pods",), ("list", "watch")),
        Permission("rmd", "", ("secrets",), READ, names=("{rmd_client_certificate}",)),
        Permission("rmd", _GROUP, (RMD_CONFIGS.plural,), READ),
        Permission("rmd", _GROUP, (RMD_NODE_STATES.plural,), (*READ, "create", "delete")),
        Permission("rmd", _GROUP, (f"{RMD_CONFIGS.plural}/status", f"{RMD_NODE_STATES.plural}/status"), ("patch",)),
        Permission("rmd", "apps", ("daemonsets",), (*READ, "create", "patch", "delete")),
        Permission("release", "", ("configmaps",), READ, names=("{rmd_daemon_sets}",)),
    ),
}
