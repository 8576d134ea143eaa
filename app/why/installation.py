"""The verdicts on what Berth itself is made of, as the doctor judges it.

These are Deployments and Pods of roles, and webhook configurations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import get_args

from app.doctor.cluster import Cluster
from app.doctor.commands import shows_only
from app.doctor.installed import Installed, read_deployment
from app.doctor.model import CALLS, REGISTERED, Finding, Severity, What, topic
from app.doctor.objects import Object, labels
from app.kube.resources import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS, VALIDATING_WEBHOOKS, Resource
from app.why.model import STATES, Asking, State, Verdict, fine, judged, listed, or_else, read

_CHECKS = (
    "definitions",
    "deployments",
    "leases",
    "registrations",
    "certificate",
    "reachability",
    "permissions",
    "agent",
)
"""The checks of the doctor about Berth itself."""


async def diagnosed(cluster: Cluster) -> list[Finding]:
    """What the doctor finds of Berth itself, with causes."""
    # Checks of wings are made of verdicts, so they are above this.
    from app.doctor.examining import CHECKS, examine, pick  # noqa: PLC0415

    return await examine(cluster, pick(CHECKS, _CHECKS))


def judge_role(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether a role of Berth works: what the doctor finds of it, and what that follows from."""
    installed = read_deployment(it.json)
    if installed is None:
        return None
    findings = yield from read(diagnosed)
    topics = {topic(what, installed.role) for what in get_args(What)}
    topics |= {CALLS, REGISTERED} if installed.role == "webhook" else set()
    about = [finding for finding in findings if finding.subject == it.subject or topics & {*finding.explains}]
    fault = f"as role {installed.role} of Berth it has a fault"
    return _verdict(about, fault) or fine(f"role {installed.role} of Berth works")


def judge_pod(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """The fault of the role whose Pod it is; None where the role works, and for all Pods but those of Berth."""
    # A Pod has the labels and the containers by which a Deployment of a role is known.
    mine = read_deployment({"metadata": it.json["metadata"], "spec": {"template": it.json}})
    if mine is None or not it.json["metadata"].get("uid"):
        return None
    deployments = yield from or_else(listed(DEPLOYMENTS, it.namespace), [])
    roles = [role for deployment in deployments if (role := read_deployment(deployment.json)) is not None]
    role = next((role for role in roles if role.role == mine.role and _makes(role, it)), None)
    if role is None:
        return None
    verdict = yield from judged(DEPLOYMENTS, role.name, it.namespace)
    if verdict is None or verdict.state < State.stuck or not verdict.codes:
        return None
    return replace(verdict, text=f"its Deployment {role.name} has a fault as role {role.role} of Berth", since=None)


def _makes(role: Installed, pod: Object) -> bool:
    return bool(role.pod_labels) and role.pod_labels.items() <= labels(pod.json).items()


def uncalled() -> Asking[Verdict | None]:
    """That Pods which ask for something are refused, for the API server cannot call Berth; None where it can.

    As the doctor finds it, who also knows why. Of webhooks that may be passed over nothing is said.
    """
    if not (yield from or_else(read(_is_closed), False)):
        return None
    findings = yield from or_else(read(diagnosed), [])
    return _verdict(_failing(findings), "the API server cannot call Berth")


def _failing(findings: Sequence[Finding]) -> list[Finding]:
    """What keeps an API server from calling Berth, such as a certificate that has expired."""
    return [finding for finding in findings if CALLS in finding.explains and finding.severity is Severity.error]


async def _registered(cluster: Cluster) -> frozenset[str]:
    """The configurations that call this release, as subjects."""
    return frozenset(f"{webhook.resource.kind} {webhook.name}" for webhook in await cluster.registered())


async def _is_closed(cluster: Cluster) -> bool:
    """Whether Pods that ask for something are refused while Berth does not answer."""
    return any(webhook.fails_closed for webhook in await cluster.of_all_releases() if webhook.injects)


def judge_configuration(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """Whether an API server can call Berth by this configuration, and calls it for what it should."""
    findings = yield from read(diagnosed)
    about = [finding for finding in findings if f"{finding.subject}, ".startswith(f"{it.subject}, ")]
    if it.subject in (yield from or_else(read(_registered), frozenset())):
        about += [finding for finding in _failing(findings) if finding not in about]
    if not about:
        return None
    return _verdict(about, "does not call Berth as it should") or fine("calls Berth")


def absent_configuration(resource: Resource, name: str) -> Asking[Verdict | None]:
    """What the doctor says where no configuration calls Berth."""
    findings = yield from read(diagnosed)
    about = [finding for finding in findings if finding.subject in (resource.kind, f"{resource.kind} {name}")]
    return _verdict(about, "does not exist")


def _verdict(findings: Sequence[Finding], text: str) -> Verdict | None:
    """The worst finding, and behind it what it follows from; None where all is well."""
    bad = sorted((finding for finding in findings if finding.severity > Severity.info), key=lambda f: -f.severity)
    if not bad:
        return None
    chain = list(dict.fromkeys(link for finding in bad for link in _chain(finding)))
    roots = [finding for finding in chain if finding.cause is None and finding.command]
    root = next((finding for finding in roots if not shows_only(finding.command)), next(iter(roots), chain[-1]))
    return Verdict(
        STATES[bad[0].severity],
        text,
        because=tuple(f"{finding.subject}: {finding.message}".removeprefix(": ") for finding in chain),
        so=root.consequence,
        fix=root.command,
        codes=tuple(dict.fromkeys(finding.code for finding in chain if finding.code)),
    )


def _chain(finding: Finding) -> Iterator[Finding]:
    yield finding
    if finding.cause is not None:
        yield from _chain(finding.cause)


JUDGES = {
    PODS: judge_pod,
    DEPLOYMENTS: judge_role,
    MUTATING_WEBHOOKS: judge_configuration,
    VALIDATING_WEBHOOKS: judge_configuration,
}
