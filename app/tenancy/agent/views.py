"""What the caches keep of objects, and the statuses that are written to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.kube.conditions import condition, is_true, since, status_of
from app.kube.store import Store
from app.tenancy.messages import canonical, update_of_spec
from app.text import abridged, stamp
from app.wire import JSON, decode_json
from app.workloads.model import MIRROR, RULE_NAME, counts_as_gone, named_manifest, workload_spec

Outcome = Literal["success", "error", ""]
_READY: dict[Outcome, str] = {"success": "True", "error": "False", "": "Unknown"}
_MESSAGE_LIMIT = 32768
_REASON_LIMIT = 1024
_FIELDS = (
    ("rule.data.rule_template", "spec.template"),
    ("rule.data", "spec"),
    ("rule.id", "metadata.name"),
    ("obj.obj_spec", "spec.object"),
)


@dataclass(frozen=True, slots=True)
class ObjectView:
    """A WorkloadRule or a UVS object; `spec` and `status` are canonical JSON.

    `mirror` says whether it has our label, `rule` is the rule of the companion that it mirrors.
    """

    name: str
    uid: str
    generation: int
    spec: bytes
    status: bytes
    mirror: bool = False
    rule: str = ""

    @property
    def version(self) -> tuple[str, int]:
        """Another object or another spec has another version."""
        return self.uid, self.generation

    def decoded_spec(self) -> JSON:
        spec: JSON = decode_json(self.spec)
        return spec

    def decoded_status(self) -> JSON:
        status: JSON = decode_json(self.status)
        return status

    @property
    def result(self) -> str:
        return str(self.decoded_status().get("result") or "")

    @property
    def message(self) -> str:
        return str(self.decoded_status().get("message") or "")

    @property
    def ready_reason(self) -> str:
        return str(condition(self.decoded_status(), "Ready").get("reason") or "")

    @property
    def observed(self) -> bool:
        return self.decoded_status().get("observedGeneration") == self.generation

    def shows(self, status: JSON) -> bool:
        """Whether this is its status."""
        return canonical(status) == self.status

    def manifest(self) -> bytes:
        """What a UVS object asks for, under its name. Raises ValueError where the manifest has another name."""
        return canonical(named_manifest(self.decoded_spec(), self.name))

    def status_of(self, result: Outcome, reason: str, message: str, extra: Mapping[str, Any]) -> JSON:
        """The status that reports an outcome, with `reason` in the condition Ready and `extra` fields beside it."""
        ready, now = _READY[result], stamp()
        return {
            "result": result,
            "message": abridged(message, _MESSAGE_LIMIT),
            "observedGeneration": self.generation,
            **extra,
            "conditions": [
                {
                    "type": "Ready",
                    "status": ready,
                    "reason": reason[:_REASON_LIMIT],
                    "message": abridged(message, _MESSAGE_LIMIT),
                    "observedGeneration": self.generation,
                    "lastTransitionTime": since(self.decoded_status(), "Ready", ready, now=now),
                }
            ],
        }


Objects = Store[ObjectView]


def project_object(obj: JSON) -> ObjectView | None:
    """None for an object that is being deleted. Raises ValueError for one without a UID."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    spec, status = obj.get("spec"), obj.get("status")
    if not isinstance(metadata.get("uid"), str):
        raise ValueError("an object without metadata.uid")  # noqa: TRY004  a fault of the object
    return ObjectView(
        name=metadata["name"],
        uid=metadata["uid"],
        generation=int(metadata.get("generation") or 0),
        spec=canonical(spec if isinstance(spec, dict) else {}),
        status=canonical(status if isinstance(status, dict) else {}),
        mirror=(metadata.get("labels") or {}).get(MIRROR) == "true",
        rule=(metadata.get("annotations") or {}).get(RULE_NAME) or "",
    )


def in_terms_of_the_object(message: str) -> str:
    """A message of the gateway with the object's fields in place of those of its requests."""
    for theirs, ours in _FIELDS:
        message = message.replace(theirs, ours)
    return message


@dataclass(frozen=True, slots=True)
class PodView:
    """`id` is the UID of the Pod, `message` the encoded request that updates its Workload."""

    id: str
    message: bytes


def project_pod(obj: JSON, *, keep_finished: bool) -> PodView | None:
    """None for a Pod that counts as gone: deleting, or finished unless `keep_finished`. ValueError without a UID."""
    if counts_as_gone(obj, keep_finished=keep_finished):
        return None
    uid = obj["metadata"].get("uid")
    if not isinstance(uid, str) or not uid:
        raise ValueError("a Pod without metadata.uid")
    update = update_of_spec(workload_spec(obj, ready=is_true(status_of(obj), "Ready")))
    return PodView(uid, update.SerializeToString(deterministic=True))
