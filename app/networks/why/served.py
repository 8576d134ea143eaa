"""Who serves a Pod where admission policies of Berth are installed: these, or the webhook."""

from __future__ import annotations

from app.doctor import policies
from app.doctor.objects import Object
from app.doctor.policies import Served
from app.why.model import Asking, or_else, read


def served_by(it: Object) -> Asking[Served | None]:
    """None where there are no policies, or nothing serves it, or that cannot be read."""
    return (yield from or_else(read(lambda cluster: policies.served_by(cluster, it)), None))
