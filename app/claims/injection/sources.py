"""What injection of claims reads: attachments, definitions, and what the claims of a Pod ask for."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from app.admission.pods import Pod
from app.claims.known import KnownDefinitions
from app.claims.requests import Requests
from app.errors import Denied
from app.kube.lookup import Lookup
from app.kube.names import check_dns_subdomain

Ask = Generator[tuple[Lookup[Any], str, str], Any, Requests | None]
"""Yields what has to be known of the cluster; the result is None for a claim or template that does not exist."""


class Reference(NamedTuple):
    """What a Pod's claim is, or is made from; one of the two is ""."""

    claim: str = ""
    template: str = ""


MOST_REFERENCES = 256
"""Different claims and templates of one Pod: each may have to be read from the API server."""


def claims_by_reference(pod: Pod) -> dict[Reference, list[str]]:
    """The names of the claims of a Pod by what they are or are made from. Raises Denied for too many."""
    found: dict[Reference, list[str]] = {}
    for claim in pod.spec.resource_claims:
        reference = Reference(claim.resource_claim_name, claim.resource_claim_template_name)
        found.setdefault(reference, []).append(claim.name)
    if len(found) > MOST_REFERENCES:
        bound = f"want at most {MOST_REFERENCES} different claims and templates, got {len(found)}"
        raise Denied(f"spec.resourceClaims: {bound}", reason="TooManyClaims")
    return found


@dataclass(frozen=True, slots=True)
class Sources:
    """By namespace and name, but for the definitions."""

    definitions: KnownDefinitions
    templates: Lookup[Requests]
    claims: Lookup[Requests | None]

    def requests(self, namespace: str, one: Reference) -> Ask:
        """What a claim asks for. Of a template that is made from a definition, the definition says it."""
        definition = self.definitions.find(one.template)
        if definition is not None:
            return definition.requests
        name = one.template or one.claim
        try:
            check_dns_subdomain(name)
        except ValueError:
            return None  # the API server refuses such a Pod
        found: Requests | None = yield (self.templates if one.template else self.claims), namespace, name
        return found
