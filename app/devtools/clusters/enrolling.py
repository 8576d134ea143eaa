"""Enrolls the tenants of the sandbox, as `berth tenant add` does."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from app.devtools.clusters.plans import ClusterPlan
from app.kube.client import KubeClient
from app.tenancy.model import ADMIN_NAME, GATEWAY_NAME
from app.tenancy.tenants.bundles import Issuing
from app.tenancy.tenants.changes import Adding
from app.tenancy.tenants.enrolling import add
from app.workloads.model import SYSTEM_NAMESPACE

_DAYS = 30


async def enroll(infra: KubeClient, plan: ClusterPlan, bundle: Path) -> None:
    """Make the tenant of this cluster in the infra cluster, and write the files of its agent."""
    # What an earlier sandbox left is of no use: its certificates may have been revoked.
    shutil.rmtree(bundle, ignore_errors=True)
    adding = Adding(name=plan.name, hosts=plan.hosts, names=(), force=True, admin_names=(ADMIN_NAME,))
    issuing = Issuing(bundle, days=_DAYS, gateway=GATEWAY_NAME, authority_files=None, agent_namespace=SYSTEM_NAMESPACE)
    await add(infra, adding, issuing, now=datetime.now(UTC))
