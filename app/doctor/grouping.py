"""Groups Pods by owner: Pods of one owner that lack the same thing are one finding."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from app.doctor.cluster import Cluster
from app.doctor.commands import helm
from app.doctor.installed import released
from app.doctor.model import Finding, Severity
from app.doctor.objects import created, several
from app.doctor.owners import Owner, edit, renew, topmost
from app.doctor.planning import Lack, Want
from app.placement.settings import ConfinementSettings as Settings
from app.wire import JSON

_CHECK = "pods"
_SHOWN = 5
_NAMES = 50
"""Names kept of the Pods of one owner: for a command that deletes them, where the owner cannot be told to restart."""

_SAID: dict[Want, tuple[Severity, tuple[str, str], str]] = {
    "resources": (
        Severity.error,
        ("lacks {}", "lack {}"),
        "no device is allotted, and the node may have none: its networks do not come up",
    ),
    "information": (
        Severity.warning,
        ("lacks {}", "lack {}"),
        "it does not see what its networks are, or has others than it should",
    ),
    "attachment": (
        Severity.error,
        (
            "selects a network whose attachment does not exist: {}",
            "select a network whose attachment does not exist: {}",
        ),
        "Multus cannot attach it, and Berth denies every Pod that is to replace it",
    ),
    "refused": (
        Severity.warning,
        ("would be denied today: {}", "would be denied today: {}"),
        "it runs on, but a Pod that is to replace it is denied",
    ),
    "placement": (
        Severity.error,
        ("lacks the node affinity {}", "lack the node affinity {}"),
        "it may run on a DPU of another tenant or of another host",
    ),
}
"""How bad it is; what one Pod, and several, do; what follows."""


@dataclass(slots=True)
class Group:
    """Pods of one owner that lack the same; some names, and how many of them are older than Berth."""

    pods: int = 0
    older: int = 0
    names: list[str] = field(default_factory=list)

    def add(self, pod: JSON, since: datetime | None) -> None:
        """Count it in; `since` is when Berth was registered."""
        self.pods += 1
        when = created(pod)
        self.older += since is not None and when is not None and when < since
        if len(self.names) < _NAMES:
            self.names.append(pod["metadata"]["name"])

    def history(self, since: datetime | None) -> str:
        """Why it came to that, as far as dates tell it."""
        if since is None:
            return ""
        if self.older == self.pods:
            return f": created before Berth was registered ({since:%Y-%m-%d %H:%M} UTC)"
        if not self.older:
            return (
                ": created after Berth was registered, so it was not asked (it was away, or its registration left the "
                "Pod out), or what the Pod needs was changed later"
            )
        return f": {self.older} of {self.pods} were created before Berth was registered"


async def finding_of(
    cluster: Cluster, owner: Owner, lack: Lack, group: Group, *, since: datetime | None, settings: Settings
) -> Finding:
    """What the owner's Pods lack, and the command that gives it to them."""
    owner = await topmost(cluster, owner)
    severity, texts, consequence = _SAID[lack.want]
    what = texts[group.pods > 1].replace("{}", lack.text)
    if owner.kind == "Pod":
        message = what
    else:
        names = ("" if group.pods <= _SHOWN else "such as ") + ", ".join(group.names[:_SHOWN])
        message = f"{several(group.pods, 'Pod')} of it ({names}) {what}"
    if lack.want in ("resources", "information", "placement"):
        message += group.history(since)
    of_tenant = lack.want == "placement" and f"{settings.tenant_node_label}=" in lack.text
    if of_tenant and not settings.confine_tenants:
        confined = helm(cluster, "webhook.args.confineTenants=true", present=await released(cluster))
        command = f"{confined}\n{renew(owner, group.names)}"
    elif lack.want in ("attachment", "refused"):
        command = edit(owner)
    else:
        command = renew(owner, group.names)
    return Finding(_CHECK, severity, owner.subject, message, consequence, command)
