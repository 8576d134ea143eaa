"""Which claims the networks of a Pod need: one for each selection of an attachment that names its source. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from app.claims.definitions import class_template
from app.claims.requests import Requests, added
from app.errors import Denied
from app.kube.names import shorten
from app.networks.claim_sources import CLAIM_TEMPLATE, DEVICE_CLASS, ClaimSource, source_problems
from app.networks.model import Attachment, Networks


class NetworkClaim(NamedTuple):
    """The claim for one selection. `annotation` is that of the Pod.

    `name` follows from the attachment and how often it was selected before.
    """

    attachment: Attachment
    source: ClaimSource
    annotation: str
    name: str

    @property
    def template(self) -> str:
        return self.source.template or class_template(self.source.device_class)

    @property
    def reason(self) -> str:
        said = f"{CLAIM_TEMPLATE}: {self.source.template}"
        if self.source.device_class:
            said = f"{DEVICE_CLASS}: {self.source.device_class}"
        return f"annotation {self.annotation} selects {self.attachment.key}, which has annotation {said}"


def network_claims(networks: Networks) -> list[NetworkClaim]:
    """The claims of the networks that have a source. Raises Denied for a broken one."""
    found, times = [], dict[str, int]()
    for annotation, attachment in networks:
        if attachment.claim is None:
            continue
        for key, fault in source_problems(attachment.claim):
            raise Denied(
                f"network attachment definition '{attachment.key}' has a broken annotation {key}: {fault}",
                reason="BadClaimSource",
            )
        index = times[attachment.key] = times.get(attachment.key, -1) + 1
        # With the slash no two texts are the same; it makes `shorten` add a hash.
        name = shorten(f"net-{attachment.namespace}/{attachment.name}/{index}")
        found.append(NetworkClaim(attachment, attachment.claim, annotation, name))
    return found


@dataclass(slots=True)
class Chosen:
    """`inject` are the claims that the Pod gets. `own` says of the others which claim of the Pod serves them."""

    inject: list[NetworkClaim] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def choose(wanted: Iterable[NetworkClaim], needs: Mapping[str, Requests], own: dict[str, Requests]) -> Chosen:
    """What of `wanted` is left to inject. `needs` is what the claims of a template ask for, by its name.

    `own` are the Pod's other claims. Where one of them asks for a device of a class that a network needs, its author
    has seen to these networks: nothing is injected for them, however many devices it asks for.
    """
    chosen, left = Chosen(), dict(added(own.values()))
    claims = {name: claim for claim, requests in reversed(own.items()) for name in requests}  # the first that asks
    for one in wanted:
        classes = needs.get(one.template) or {}
        shared = next((name for name in classes if name in left), None)
        if shared is None:
            chosen.inject.append(one)
            continue
        chosen.own[one.name] = f"{one.attachment.key}: claim {claims[shared]} of the Pod asks for a device of {shared}"
        left[shared] -= 1
        if left[shared] < 0:
            chosen.warnings.append(
                f"{one.attachment.key} needs a device of DeviceClass {shared}, and the Pod's own claims ask for fewer "
                "devices of it than its networks need: nothing is injected; ask for as many"
            )
    return chosen
