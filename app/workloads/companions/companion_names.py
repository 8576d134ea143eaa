"""Names of companions, the same ever again for one rule and one workload. Pure.

A Pod's name becomes its host name, which ends at 63 characters: longer ones are shortened with a stable hash, and none
is ever rejected. The workload's id stays whole where it can, for people search by it.
"""

from __future__ import annotations

from app.kube.names import DNS_LABEL_LIMIT, shorten
from app.workloads.model import Rule, Workload

_LEAST = 10
"""Characters of the shortest part that `shorten` can make."""


def companion_name(rule: Rule, workload: Workload) -> str:
    """`<rule>-<workload id>`, or `<rule>-tenant-<tenant>-<workload id>` where the rule is an admin's."""
    stem = rule.name if rule.kind == "tenant" else f"{rule.name}-{workload.namespace}"
    name = f"{stem}-{workload.id}"
    if len(name) <= DNS_LABEL_LIMIT:
        return name
    room = DNS_LABEL_LIMIT - len(workload.id) - 1
    return f"{shorten(stem, room)}-{workload.id}" if room >= _LEAST else shorten(name)


def companion_namespace(rule: Rule, workload: Workload, *, system_namespace: str) -> str:
    """The tenant's namespace for a rule of the tenant, ours for one of the admin."""
    return workload.namespace if rule.kind == "tenant" else system_namespace
