"""Checks NetworkAttachmentDefinitions when they are written, so that a broken one is not found by a Pod.

What Multus and the CNI library would refuse later is refused here, all of it in one message with the field paths.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.admission.chain import Plan, refuse
from app.admission.review import Request, written_object
from app.kube.resources import NETWORK_ATTACHMENTS
from app.networks.model import attachment_problems, attachment_warnings
from app.networks.places import misplaced
from app.wire import mapping


class AttachmentCheck:
    """Refuses broken NetworkAttachmentDefinitions on CREATE and UPDATE; neutral to everything else.

    An attachment that is being deleted is left alone, so that its finalizers can be removed.
    """

    def __init__(self, resource_name_keys: Sequence[str], *, claims: bool = False) -> None:
        self._keys, self._claims = tuple(resource_name_keys), claims

    def check(self, request: Request, plan: Plan) -> None:
        """Raise Denied with every problem of the attachment; warn where only some Pods can select it."""
        kind, wanted = request.kind, NETWORK_ATTACHMENTS
        if (kind.group, kind.kind) != (wanted.group, wanted.kind):
            return
        obj = written_object(request, reason="UnreadableAttachment")
        if obj is None:
            return
        problems = attachment_problems(obj, self._keys, claims=self._claims)
        refuse(problems, reason="BrokenAttachment")
        plan.warnings += attachment_warnings(obj, self._keys, claims=self._claims)
        plan.warnings += (one.text for one in misplaced(obj.get("metadata"), "metadata", wanted.kind))
        if "." in str(mapping(obj.get("metadata")).get("name") or ""):
            plan.warnings.append("metadata.name: a name with dots can be selected in the JSON form only")
