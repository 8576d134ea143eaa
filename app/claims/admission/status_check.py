"""Reviews the network data that is written in the status of a claim, with what the caches know of networks.

Two writers that race for one address both get it: neither write is in the caches when the other is reviewed. Networks
that are local to a node, such as bridges with addresses by host-local, repeat their addresses. No check can
distinguish them from others, so drivers that serve them should not be among those that are denied.
"""

from __future__ import annotations

from collections.abc import Iterator

from app.admission.chain import Plan, refuse
from app.admission.naming import home_of
from app.admission.reading import readable
from app.admission.review import Request, decode_object
from app.claims.admission.status import entry_problems
from app.claims.admission.stored import held_claim
from app.claims.admission.views import Scene, Views
from app.claims.changes import changed_entries, entries_of
from app.claims.model import device_key
from app.pace import step
from app.wire import JSON

REASON = "InvalidNetworkData"
_KIND = ("resource.k8s.io", "ResourceClaim", "status", "UPDATE")


MOST_DEVICES = 128
"""In the status of one claim: an API server lets it have those of its allocation alone, which are 32."""


class ClaimStatusCheck:
    """Neutral to everything but updates of `resourceclaims/status`, and there to all but changed network data.

    A finding is a warning; one about a device of the drivers `denied` (in lower case) is a denial. `exempt` are
    namespaces whose claims are not looked at.
    """

    def __init__(self, views: Views, *, denied: frozenset[str], exempt: frozenset[str]) -> None:
        self._views, self._denied, self._exempt = views, denied, exempt

    def check(self, request: Request, plan: Plan) -> None:
        """Raises Denied with every problem of devices of the denied drivers, and for more than `MOST_DEVICES`."""
        kind = (request.kind.group, request.kind.kind, request.sub_resource, request.operation)
        if kind != _KIND or request.namespace in self._exempt:
            return
        obj = decode_object(request.object, reason=REASON)
        old = decode_object(request.old_object, reason=REASON)
        refuse(readable(lambda: _too_many(obj), reason=REASON), reason=REASON)
        found = readable(lambda: list(self._findings(request, obj, old)), reason=REASON)
        refuse([line for denied, line in found if denied], reason=REASON)
        plan.warnings += [line for denied, line in found if not denied]

    def _findings(self, request: Request, obj: JSON, old: JSON) -> Iterator[tuple[bool, str]]:
        """Whether it denies, and what is wrong with the entries that the update changes."""
        changed = changed_entries(obj, old)
        if not changed:
            return
        claim = held_claim((request.namespace, request.name), obj)
        scene = Scene(self._views, claim, home=home_of(request))
        entries = {one.device: one for one in claim.entries}
        for index, one in changed:
            step(32)
            key = device_key(one)
            path = f"status.devices[{index}].networkData"
            for line in entry_problems(entries[key], scene.around(entries[key]), path):
                yield key.driver.lower() in self._denied, line


def _too_many(obj: JSON) -> list[str]:
    count = len(entries_of(obj))
    return [f"status.devices: want at most {MOST_DEVICES}, got {count}"] if count > MOST_DEVICES else []
