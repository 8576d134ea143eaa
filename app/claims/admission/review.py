"""Reviews the network data that is written in the status of a claim, with what the caches know of networks.

Two writers that race for one address both get it: neither write is in the caches when the other is reviewed. Networks
that are local to a node, such as bridges with addresses by host-local, repeat their addresses. No check can
distinguish them from others, so drivers that serve them should not be among those that are denied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.admission.chain import MutationPlan, refuse
from app.admission.objects import home_of, read_or_deny
from app.admission.parts import EXEMPT, Context, Parts
from app.admission.review import Request, decode_object
from app.claims.admission.views import (
    BY_ADDRESS,
    BY_POD,
    HeldEntry,
    Scene,
    Surroundings,
    Views,
    held_claim,
    stored_claim,
    stored_network_pod,
)
from app.claims.format import INTERFACE_NAME, IPS
from app.claims.injection.review import injection
from app.claims.model import changed_entries, device_key, entries_of
from app.claims.publishing.model import Attachment, stored_attachment
from app.claims.settings import AdmissionSettings
from app.kube.resources import NETWORK_ATTACHMENTS, PODS, RESOURCE_CLAIMS
from app.pace import step
from app.settings.source import settings_as
from app.text import quoted
from app.wire import JSON

REASON = "InvalidNetworkData"
_KIND = ("resource.k8s.io", "ResourceClaim", "status", "UPDATE")
MOST_DEVICES = 128
"""In the status of one claim: an API server lets it have those of its allocation alone, which are 32."""

_SHOWN = 4
"""Subnets that a message names."""


def review(context: Context) -> Parts:
    """The injection of claims and the checks of what it rests on, and the check of statuses."""
    settings = settings_as(context.settings, AdmissionSettings)
    injected = injection(context, settings)
    return replace(injected, checks=(*injected.checks, _statuses(context, settings)))


def _statuses(context: Context, settings: AdmissionSettings) -> ClaimStatusCheck:
    """The check, with a cache of claims, of Pods and of attachments, each with what it needs of them alone."""
    caches = context.caches
    views = Views(
        claims=caches.cache(
            RESOURCE_CLAIMS,
            stored_claim,
            indices={
                BY_ADDRESS: lambda claim: claim.addresses(),
                BY_POD: lambda claim: [claim.pod.uid] if claim.pod is not None else [],
            },
            volatile=True,
        ),
        pods=caches.cache(PODS, stored_network_pod, indices={BY_ADDRESS: lambda pod: pod.addresses()}, volatile=True),
        attachments=caches.cache(NETWORK_ATTACHMENTS, stored_attachment),
    )
    return ClaimStatusCheck(
        views,
        denied=frozenset(settings.claims_deny_drivers),
        exempt=frozenset({EXEMPT, context.namespace}),
    )


class ClaimStatusCheck:
    """Neutral to everything but updates of `resourceclaims/status`, and there to all but changed network data.

    A finding is a warning; one about a device of the drivers `denied` (in lower case) is a denial. `exempt` are
    namespaces whose claims are not looked at.
    """

    def __init__(self, views: Views, *, denied: frozenset[str], exempt: frozenset[str]) -> None:
        self._views, self._denied, self._exempt = views, denied, exempt

    def check(self, request: Request, plan: MutationPlan) -> None:
        """Raises Denied with every problem of devices of the denied drivers, and for more than `MOST_DEVICES`."""
        kind = (request.kind.group, request.kind.kind, request.sub_resource, request.operation)
        if kind != _KIND or request.namespace in self._exempt:
            return
        obj = decode_object(request.object, reason=REASON)
        old = decode_object(request.old_object, reason=REASON)
        refuse(read_or_deny(lambda: _too_many(obj), reason=REASON), reason=REASON)
        findings = read_or_deny(lambda: list(self._findings(request, obj, old)), reason=REASON)
        refuse([line for denied, line in findings if denied], reason=REASON)
        plan.warnings += [line for denied, line in findings if not denied]

    def _findings(self, request: Request, obj: JSON, old: JSON) -> Iterator[tuple[bool, str]]:
        """Whether it denies, and what is wrong with the entries that the update changes."""
        changed = changed_entries(obj, old)
        if not changed:
            return
        claim = held_claim((request.namespace, request.name), obj)
        scene = Scene(self._views, claim, home=home_of(request))
        entries = {entry.device: entry for entry in claim.entries}
        for index, entry in changed:
            step(32)
            key = device_key(entry)
            path = f"status.devices[{index}].networkData"
            for line in _entry_problems(entries[key], scene.around(entries[key]), path):
                yield key.driver.lower() in self._denied, line


def _too_many(obj: JSON) -> list[str]:
    count = len(entries_of(obj))
    return [f"status.devices: want at most {MOST_DEVICES}, got {count}"] if count > MOST_DEVICES else []


def _entry_problems(entry: HeldEntry, around: Surroundings, path: str) -> Iterator[str]:
    """What contradicts the surroundings, one line each, beginning with the field below `path`.

    Link-local addresses are passed over: each link has them, and no subnet names them.
    """
    if around.namesake:
        yield (
            f"{path}.{INTERFACE_NAME}: want a name that no other device of Pod {around.pod} has, got "
            f"{quoted(entry.interface)}, which {around.namesake} has"
        )
    for index, address in enumerate(entry.addresses if around.network else ()):
        if address is None or address.is_link_local:
            continue
        where = f"{path}.{IPS}[{index}]"
        if around.attachment is not None and around.attachment.excludes(address):
            yield (
                f"{where}: want an address in a subnet of network {around.network}"
                f"{_subnets(around.attachment) if around.shows_subnets else ''}, got {address}"
            )
        if address in around.holders:
            yield (
                f"{where}: want an address that nothing else on network {around.network} has, got {address}, which "
                f"{around.holders[address]} has"
            )


def _subnets(attachment: Attachment) -> str:
    shown = ", ".join(map(str, attachment.subnets[:_SHOWN]))
    return f" ({shown}, …)" if len(attachment.subnets) > _SHOWN else f" ({shown})"
