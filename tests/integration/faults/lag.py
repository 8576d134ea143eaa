"""What the roles have not seen or done yet: a world that looks right is not at rest before they have.

Of two controllers one may be behind, and still be the one that stays: it puts back what it believes in, until its
watch of the rules tells it better. The oracle sees objects alone, and would take that pause for the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from app.devtools.sandbox.api.selection import parse_selection
from app.kube.kit import Kit
from app.kube.reflector import Reflector
from tests.integration.faults.world import Life, Side, World


def behind(world: World) -> list[str]:
    """One line for each cache that does not show what its API server has, and each controller that is at work."""
    lives = [life for lives in world.lives.values() for life in lives]
    return [line for life in lives for line in _behind(life, _side(world, life))]


def _side(world: World, life: Life) -> Side:
    role, _, tenant = life.role.partition("-")
    return world.tenants[tenant] if role == "agent" else world.infra


def _behind(life: Life, side: Side) -> Iterator[str]:
    for part in life.part:
        for reflector in _reflectors(part):
            if not _shows(reflector, side):
                yield f"{life.name}: has not seen all {reflector.resource.plural}"
        for controller in _kit(part).controllers:
            if controller.name == "companions" and (controller.queue.working or len(controller.queue)):
                yield f"{life.name}: is at work"


def _kit(part: Any) -> Kit:
    """That of a controller, an agent or a gateway."""
    return part if isinstance(part, Kit) else part._sources.kit


def _reflectors(part: Any) -> Iterator[Reflector]:
    """Those but for one that follows a single object by its name."""
    for reflector in _kit(part).reflectors:
        if not reflector.scope.name and not reflector.scope.field_selector:
            yield reflector


def _shows(reflector: Reflector, side: Side) -> bool:
    resource: Any = reflector.resource  # it matters for fields alone
    selection = parse_selection(resource, label_selector=reflector.scope.label_selector, field_selector="")
    objects = {
        (obj["metadata"].get("namespace") or "", obj["metadata"]["name"]): int(obj["metadata"]["resourceVersion"])
        for obj in side.all(reflector.resource, reflector.scope.namespace)
        if selection.matches(obj)
    }
    if any(store.in_doubt for store in reflector.stores):
        return False
    version = int(reflector.version or 0)
    return version >= max(objects.values(), default=0) and all(
        objects.keys() >= set(store.keys()) for store in reflector.stores
    )
