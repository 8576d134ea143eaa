"""Gives an AppWrapper its defaults when it is created."""

from __future__ import annotations

from app.admission.chain import Plan
from app.admission.patch import pointer
from app.admission.review import Request, written_object
from app.appwrappers.admission.creators import text_of
from app.appwrappers.admission.defaults import defaults
from app.appwrappers.admission.names import mapping
from app.appwrappers.config import OperatorConfig
from app.appwrappers.model import APP_WRAPPERS, CREATOR
from app.kube.configuration import Configuration
from app.wire import JSON


class Defaulting:
    """Neutral to everything but the creation of AppWrappers. With `strict`, who creates one is kept in it."""

    name = "appwrapper-defaults"

    def __init__(self, configuration: Configuration[OperatorConfig], *, strict: bool) -> None:
        self._configuration, self._strict = configuration, strict

    def inject(self, request: Request, plan: Plan) -> None:
        """Raises Denied where the object cannot be read; what is wrong in it is found by the check."""
        if (request.kind.group, request.kind.kind) != (APP_WRAPPERS.group, APP_WRAPPERS.kind):
            return
        obj = written_object(request, reason="InvalidAppWrapper")
        if obj is None or request.operation != "CREATE":
            return
        user = request.user_info
        found = defaults(
            obj,
            user=user.username,
            uid=user.uid,
            # An annotation that another client has written is replaced: strict admission would trust it later.
            creator=text_of(user) if self._strict or _has_creator(obj) else "",
            queue=self._configuration.current.default_queue_name,
        )
        for one in found:
            where, holder = pointer(*one.section), obj
            for segment in one.section:
                holder = mapping(holder, segment)
            plan.patch.ensure(where, {}, present=bool(holder) or one.section == ("spec",), reason=one.reason)
            plan.patch.add(where + pointer(one.field), one.value, reason=one.reason)
            plan.count("appwrapper-default")
            plan.reason = plan.reason or "Defaulted"


def _has_creator(obj: JSON) -> bool:
    return CREATOR in mapping(mapping(obj, "metadata"), "annotations")
