"""What injection of claims reads: the definitions in force, attachments, and what the claims of a Pod ask for.

The definitions in force are those of the ConfigMap, and those of DeviceClasses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from app.admission.pods import Pod
from app.claims.definitions import (
    CLASS_PREFIX,
    Definition,
    Definitions,
    DeviceClass,
    Requests,
    all_definitions,
    of_class,
    parse_definitions,
)
from app.errors import Denied
from app.kube.configuration import Configuration
from app.kube.derived import Summary
from app.kube.lookup import Lookup, Steps
from app.kube.names import check_dns_subdomain
from app.kube.store import Store
from app.wire import JSON

MOST_REFERENCES = 256
"""Different claims and templates of one Pod: each may have to be read from the API server."""


class KnownDefinitions:
    """`name` is that of the ConfigMap, the one object of its store. `changed` is called after a change.

    While the ConfigMap cannot be read, what it said before stays in force.
    """

    def __init__(
        self,
        config_maps: Store[JSON],
        classes: Store[DeviceClass],
        *,
        name: str,
        changed: Callable[[], object] = lambda: None,
        logs: bool = True,
    ) -> None:
        self._classes, self._changed = classes, changed
        self._current: Definitions | None = None
        self._of_classes = Summary(classes, lambda: {entry.template: entry for entry in classes.values()})
        self._configured: Configuration[Definitions] = Configuration(
            config_maps, name=name, parse=parse_definitions, usual={}, changed=self._renew, logs=logs
        )
        self.problems = self._configured.problems
        classes.subscribe(lambda *_change: self._renew())

    @property
    def current(self) -> Definitions:
        if self._current is None:
            self._current = all_definitions(self._configured.current, self._classes.values())
        return self._current

    def find(self, name: str) -> Definition | None:
        """What the template of this name is made from; also for those with one device of a DeviceClass."""
        definition = self.current.get(name)
        if definition is None and name.startswith(CLASS_PREFIX):
            device_class = self._of_classes().get(name)
            return None if device_class is None else of_class(device_class, name)
        return definition

    def _renew(self) -> None:
        self._current = None
        self._changed()


class Reference(NamedTuple):
    """What a Pod's claim is, or is made from; one of the two is ""."""

    claim: str = ""
    template: str = ""


def claims_by_reference(pod: Pod) -> dict[Reference, list[str]]:
    """The names of the claims of a Pod by what they are or are made from. Raises Denied for too many."""
    names: dict[Reference, list[str]] = {}
    for claim in pod.spec.resource_claims:
        reference = Reference(claim.resource_claim_name, claim.resource_claim_template_name)
        names.setdefault(reference, []).append(claim.name)
    if len(names) > MOST_REFERENCES:
        bound = f"want at most {MOST_REFERENCES} different claims and templates, got {len(names)}"
        raise Denied(f"spec.resourceClaims: {bound}", reason="TooManyClaims")
    return names


@dataclass(frozen=True, slots=True)
class Sources:
    """By namespace and name, but for the definitions."""

    definitions: KnownDefinitions
    templates: Lookup[Requests]
    claims: Lookup[Requests | None]

    def requests(self, namespace: str, reference: Reference) -> Steps[Requests | None]:
        """What a claim asks for, None for a claim or template that does not exist.

        Of a template that is made from a definition, the definition says it.
        """
        definition = self.definitions.find(reference.template)
        if definition is not None:
            return definition.requests
        name = reference.template or reference.claim
        try:
            check_dns_subdomain(name)
        except ValueError:
            return None  # the API server refuses such a Pod
        requests: Requests | None = yield (self.templates if reference.template else self.claims), namespace, name
        return requests
