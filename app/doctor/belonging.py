"""Namespaces that are named for one tenant and labeled for another: Pods there are placed by the label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from app.doctor.model import Finding, Severity
from app.doctor.objects import condition, kubectl, labels
from app.placement.model import TENANT_LABEL, TENANT_NAMESPACE_PREFIX
from app.wire import JSON


def mislabeled(check: str, namespaces: Iterable[JSON], tenants: Sequence[JSON]) -> Iterator[Finding]:
    """Findings for those that no Tenant's status reports: the Tenant is suspended, missing, or not processed yet."""
    foreign = (one for one in tenants if condition(one, "NamespaceReady").get("reason") == "ForeignNamespace")
    known = {one["metadata"]["name"] for one in foreign}
    for namespace in namespaces:
        name = namespace["metadata"]["name"]
        named, labeled = name.removeprefix(TENANT_NAMESPACE_PREFIX), labels(namespace).get(TENANT_LABEL)
        if not name.startswith(TENANT_NAMESPACE_PREFIX) or not labeled or labeled == named or named in known:
            continue
        yield Finding(
            check,
            Severity.error,
            f"Namespace {name}",
            f"is named for tenant {named}, and its label {TENANT_LABEL} says {labeled}",
            f"its Pods are placed on DPUs of tenant {labeled}",
            kubectl("label", "namespace", name, f"{TENANT_LABEL}={named}", "--overwrite"),
        )
