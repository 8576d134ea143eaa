"""Why an Echo is as it is."""

from __future__ import annotations

from datetime import datetime

from app.echo.needs import CHOIRS, ECHOES

from app.doctor import objects
from app.doctor.objects import Object
from app.why.model import Asking, Verdict, fine, get, stuck


def judge_echo(it: Object, _now: datetime) -> Asking[Verdict | None]:
    """It sings in the Choir that it names."""
    name = objects.spec(it.json).get("choir")
    if name and (yield from get(CHOIRS, name, it.namespace)) is None:
        return stuck("sings to nobody", because=(f"there is no Choir {name}",))
    return fine("is heard")


JUDGES = {ECHOES: judge_echo}
