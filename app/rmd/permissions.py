"""What RMD needs at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from dataclasses import replace

from app.rmd.model import L3_CACHE_WAYS, RMD_CONFIGS, RMD_NODE_STATES, RMD_WORKLOADS
from app.rmd.pods import SETTINGS
from app.wiring import EXEMPT, READ, Condition, Permission, Permissions, ReviewRule, Term, Webhook

KINDS = (RMD_WORKLOADS, RMD_NODE_STATES, RMD_CONFIGS)
_GROUP = RMD_WORKLOADS.group
REVIEWS = (
    ReviewRule("rmd-pods", "", "v1", ("pods",)),
    ReviewRule("rmdworkloads", _GROUP, RMD_WORKLOADS.version, (RMD_WORKLOADS.plural, RMD_CONFIGS.plural)),
)
SERVED = "webhook.args.rmdBackend"


def _limits(kind: str) -> str:
    limited = f"has(c.resources) && has(c.resources.limits) && '{L3_CACHE_WAYS}' in c.resources.limits"
    return f"has(object.spec.{kind}) && object.spec.{kind}.exists(c, {limited})"


_ENDS = " || ".join(f"key.endsWith('_{setting}')" for setting in SETTINGS)
WITH_SETTINGS = (
    Term(_limits("containers")),
    Term(_limits("initContainers")),
    Term(f"has(object.metadata.annotations) && object.metadata.annotations.exists(key, {_ENDS})"),
)
"""Pods that ask for cache ways, or have an annotation that ends as ours do."""
ASKS = tuple(replace(term, when=SERVED) for term in WITH_SETTINGS)
WEBHOOKS = (
    Webhook(
        "rmd-pods",
        "rmd-pods",
        values="rmd",
        namespaces=(EXEMPT,),
        conditions=(Condition("asks-of-rmd", WITH_SETTINGS),),
        when=SERVED,
    ),
    Webhook("rmdworkloads", "rmdworkloads", values="rmd", when=SERVED, proven=True),
)
_DAEMONS, _CLASSES = ("daemon", "auto"), ("runtime", "auto")
_ADMISSION = (
    *(Permission("cluster", "", ("nodes",), READ, when=f"rmd_backend={backend}") for backend in _DAEMONS),
    *(
        Permission("cluster", _GROUP, (RMD_WORKLOADS.plural,), READ, when=f"rmd_backend={backend}")
        for backend in _DAEMONS
    ),
    *(
        Permission("release", "", ("configmaps",), READ, names=("{rmd_classes}",), when=f"rmd_backend={backend}")
        for backend in _CLASSES
    ),
)
"""What the webhook needs: nodes and RmdWorkloads for daemons, the ConfigMap for classes."""
PERMISSIONS: Permissions = {
    "webhook": _ADMISSION,
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
        # Everywhere: one that counts for nothing says so in its status.
        Permission("cluster", _GROUP, (RMD_CONFIGS.plural,), READ),
        Permission("cluster", _GROUP, (f"{RMD_CONFIGS.plural}/status",), ("patch",)),
        Permission("rmd", _GROUP, (RMD_NODE_STATES.plural,), (*READ, "create", "delete")),
        Permission("rmd", _GROUP, (f"{RMD_NODE_STATES.plural}/status",), ("patch",)),
        Permission("rmd", "apps", ("daemonsets",), (*READ, "create", "patch", "delete")),
        Permission("release", "", ("configmaps",), READ, names=("{rmd_daemon_sets}",)),
    ),
    "ui": (Permission("cluster", _GROUP, (RMD_WORKLOADS.plural, RMD_NODE_STATES.plural, RMD_CONFIGS.plural), READ),),
}
