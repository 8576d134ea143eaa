"""Adds hosts to a tenant and removes them, and says beforehand what the tenant loses by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.errors import UsageError
from app.kube.client import KubeClient
from app.placement.model import PlacementOptions
from app.tenancy.model import tenant_problems
from app.tenancy.tenants.changes import change_spec, check_claims, existing_tenant
from app.tenancy.tenants.contents import companions_on, dpus_of
from app.text import several
from app.wire import JSON


@dataclass(frozen=True, slots=True)
class HostChange:
    """A change of `spec.hosts`; `before` is None where the Tenant has no such list.

    `nodes` lose `label`, that of the tenant, and run this number of its companions.
    """

    tenant: str
    before: list[str] | None
    after: list[str]
    label: str
    nodes: tuple[str, ...] = ()
    companions: int = 0

    def losses(self) -> list[str]:
        """What the tenant loses, one line each; [] where it loses nothing."""
        lines = [f"node {node} loses its label {self.label}={self.tenant}" for node in self.nodes]
        if self.before and not self.after:
            lines.append(f"tenant {self.tenant} has no host then: none of its Pods can be placed")
        if self.companions:
            lines.append(
                f"{several(self.companions, 'companion')} of tenant {self.tenant} run on these nodes: they run on "
                "until they end or are deleted, and cannot be placed there again"
            )
        return lines


async def plan_hosts(
    client: KubeClient,
    name: str,
    *,
    placement: PlacementOptions,
    add: Sequence[str] = (),
    remove: Sequence[str] = (),
) -> HostChange:
    """The change, before anything is written. Raises UsageError where it is not possible."""
    label = placement.tenant_node_label
    tenant = await existing_tenant(client, name)
    before = tenant["spec"].get("hosts")
    if remove and before is None:
        raise UsageError(f"tenant {name} lists no hosts: remove the label by hand, kubectl label node NODE {label}-")
    have = before or []
    if unknown := [host for host in remove if host not in have]:
        raise UsageError(f"{', '.join(unknown)}: not among the hosts of tenant {name} ({', '.join(have) or 'none'})")
    after = [host for host in dict.fromkeys((*have, *add)) if host not in remove]
    if problems := tenant_problems({**tenant, "spec": {**tenant["spec"], "hosts": after}}):
        raise UsageError("; ".join(problems))
    await check_claims(client, name, hosts=[host for host in after if host not in have])
    lost = [dpu.node for dpu in await dpus_of(client, name, (), placement=placement) if dpu.host not in after]
    companions = await companions_on(client, name, lost) if lost else 0
    return HostChange(name, before, after, label, tuple(lost), companions)


async def change_hosts(client: KubeClient, change: HostChange) -> list[str]:
    """Write the change; the lines say what there is now. Raises UsageError if `before` is outdated."""

    def write(spec: JSON) -> None:
        if spec.get("hosts") != change.before:
            raise UsageError(f"the hosts of tenant {change.tenant} have changed meanwhile: nothing written, try again")
        spec["hosts"] = change.after

    await change_spec(client, change.tenant, write)
    return [f"tenant {change.tenant} has hosts {', '.join(change.after) or '(none)'}"]
