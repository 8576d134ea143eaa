"""What is kept of a WorkloadRule or a UVS object: enough to compare it with the gateway's side and with its status."""

from __future__ import annotations

from dataclasses import dataclass

from app.tenancy.messages import canonical
from app.wire import JSON, decode_json
from app.workloads.model import MIRROR, RULE_NAME


@dataclass(frozen=True, slots=True)
class ObjectView:
    """`spec` and `status` are canonical JSON.

    `mirror` says whether it bears our mark, `rule` the mirror of whose companion it claims to be.
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

    def decoded_status(self) -> JSON:
        status: JSON = decode_json(self.status)
        return status

    @property
    def result(self) -> str:
        return str(self.decoded_status().get("result") or "")

    @property
    def observed(self) -> bool:
        """Whether the status is about the spec that stands."""
        return self.decoded_status().get("observedGeneration") == self.generation


def project_object(obj: JSON) -> ObjectView | None:
    """None for an object that is being deleted: it is wanted no more. Raises ValueError for one without a UID."""
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
