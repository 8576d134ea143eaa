"""What the wing needs at an API server: kinds, reviews and permissions."""

from __future__ import annotations

from app.kube.resources import Resource
from app.wiring import READ, Permission, Permissions, ReviewRule, Term

ECHOES = Resource("echo.example.com", "v1", "echoes", "Echo")
CHOIRS = Resource("echo.example.com", "v1", "choirs", "Choir")
KINDS = (ECHOES, CHOIRS)
REVIEWS = (ReviewRule("objects", ECHOES.group, ECHOES.version, (ECHOES.plural,)),)
ASKS = (Term("has(object.metadata.labels) && 'echo' in object.metadata.labels"),)
PERMISSIONS: Permissions = {
    "echoes": (
        Permission("cluster", ECHOES.group, (ECHOES.plural,), READ),
        Permission("cluster", ECHOES.group, (f"{ECHOES.plural}/status",), ("patch",)),
    ),
    "choirs": (
        Permission("cluster", CHOIRS.group, (CHOIRS.plural,), READ),
        Permission("cluster", CHOIRS.group, (f"{CHOIRS.plural}/status",), ("patch",)),
        Permission("cluster", ECHOES.group, (ECHOES.plural,), READ),
    ),
    "echoer": (Permission("cluster", ECHOES.group, (ECHOES.plural,), READ),),
}
