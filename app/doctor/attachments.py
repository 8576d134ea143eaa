"""Check `attachments`: NetworkAttachmentDefinitions that the webhook would refuse if they were written today.

They are older than Berth, or came in while it was away. What is wrong is told by the very check of admission.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.doctor.cluster import Cluster
from app.doctor.deployed_settings import webhook_settings
from app.doctor.model import Finding, Severity
from app.doctor.objects import kubectl, plain, plural, several, subject
from app.errors import ApiError
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.checking import attachment_problems
from app.networks.settings import NetworksSettings
from app.wire import JSON

_MOST = 200
"""Attachments that are told of one by one."""


@dataclass(frozen=True, slots=True)
class BrokenAttachments:
    name: str = "attachments"

    async def run(self, cluster: Cluster) -> list[Finding]:
        keys = (await webhook_settings(cluster, NetworksSettings)).resource_name_keys
        findings: list[Finding] = []
        count = beyond = 0
        try:
            async for attachment in cluster.paged(NETWORK_ATTACHMENTS):
                count += 1
                problems = attachment_problems(attachment, keys)
                if problems and len(findings) < _MOST:
                    findings.append(judge(self.name, attachment, problems))
                else:
                    beyond += bool(problems)
        except ApiError as error:
            if not error.not_found:  # else there is no such kind, of which the check of definitions tells
                raise
        if beyond:
            more = several(beyond, "more network attachment")
            text = f"{more} with similar findings: fix the above, then run the doctor again"
            findings.append(Finding(self.name, Severity.error, "", text, "as above"))
        if count and not findings:
            findings.append(Finding(self.name, Severity.ok, "", f"{several(count, 'network attachment')} can be used"))
        return findings


def judge(check: str, attachment: JSON, problems: Sequence[str]) -> Finding:
    """The finding about an attachment with these problems."""
    metadata = attachment["metadata"]
    of_berth = [problem for problem in problems if problem.startswith("metadata.annotations")]
    if of_berth:
        consequence = "Berth denies every new Pod that selects it"
    else:
        consequence = "Multus cannot attach Pods that select it: they stay in ContainerCreating"
    return Finding(
        check,
        Severity.error,
        subject(NETWORK_ATTACHMENTS.kind, attachment),
        plain("; ".join(problems)),
        consequence,
        # What it should say only its author knows.
        kubectl("edit", plural(NETWORK_ATTACHMENTS), metadata["name"], namespace=metadata.get("namespace") or ""),
    )
