"""Finds an uninstallation whose hook Job did not complete: the registrations remain, and Helm upgrades fail."""

from __future__ import annotations

from collections.abc import Sequence

from app.doctor.cluster import Cluster
from app.doctor.commands import unregister
from app.doctor.installed import INSTANCE, PART_OF
from app.doctor.model import Finding, Severity
from app.doctor.objects import condition, labels, plain, subject
from app.doctor.running import unchecked
from app.doctor.webhooks import Registered
from app.errors import ApiError
from app.kube.resources import JOBS
from app.wire import JSON

_CHECK = "registrations"
_HOOK = "helm.sh/hook"


async def unfinished(cluster: Cluster, found: Sequence[Registered]) -> list[Finding]:
    """Hook Jobs of ours that are there and not Complete, beside the registrations that they were to take away."""
    if not found:
        return []
    try:
        jobs = await cluster.listed(JOBS, namespace=cluster.namespace, label_selector=f"{PART_OF}=berth") or []
    except ApiError as error:
        return [unchecked(_CHECK, error)]
    names = dict.fromkeys(one.name for one in found)
    closed = any(one.fails_closed for one in found)
    command = f"{unregister(*names)} && helm uninstall {cluster.release} --namespace {cluster.namespace} --no-hooks"
    return [
        Finding(
            _CHECK,
            Severity.error,
            subject(JOBS.kind, job),
            f"{_how(job)}: it was to take away the registrations before an uninstallation, and they are still there",
            "helm neither upgrades nor installs the release; "
            + (
                "once its Pods are gone, no Pod can be created that it is called for"
                if closed
                else "it is still called"
            ),
            command,
        )
        for job in jobs
        if _is_hook(job) and labels(job).get(INSTANCE, cluster.release) == cluster.release
        if condition(job, "Complete").get("status") != "True"
    ]


def _is_hook(job: JSON) -> bool:
    return "pre-delete" in str((job["metadata"].get("annotations") or {}).get(_HOOK) or "").split(",")


def _how(job: JSON) -> str:
    failed = condition(job, "Failed")
    if failed.get("status") != "True":
        return "has not ended"
    return plain(f"failed ({failed.get('message') or failed.get('reason') or 'no reason is said'})")
