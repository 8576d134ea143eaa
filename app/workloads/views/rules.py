"""View `rules`: what each matches, which of its companions run, its errors, and what is near if it matches nothing.

The verdict names the workload that lacks least and the expression that fails; the lines have all of its causes.
"""

from __future__ import annotations

from app.doctor import objects
from app.doctor.objects import Object
from app.ui.details import Detail, detail, line
from app.ui.objects import Field, Listed, objects_view
from app.ui.view import Asked
from app.why.model import Verdict
from app.wire import JSON
from app.workloads.model import ADMIN_RULES, TENANT_RULES, WORKLOAD_RULES


async def _detail(_asked: Asked, _it: Object, verdict: Verdict | None) -> Detail:
    """The causes behind the first, which the list shows of everything."""
    return detail(map(line, verdict.because[1:] if verdict is not None else ()))


def _count(name: str) -> Field:
    def value(rule: JSON) -> str:
        return str(objects.status(rule).get(name) or 0)

    return Field(name, name, value)


def _result(rule: JSON) -> str:
    return str(objects.status(rule).get("result") or "")


_FIELDS = (
    _count("matched"),
    _count("created"),
    _count("running"),
    Field("result", "result", _result),
)

VIEW = objects_view(
    "rules",
    "Rules",
    "Rules: how many workloads each matches, how many companions are created and run, what is wrong, and the workload "
    "that is near if it matches none.",
    *(Listed(resource, _FIELDS, _detail) for resource in (TENANT_RULES, ADMIN_RULES, WORKLOAD_RULES)),
)
