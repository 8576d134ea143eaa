"""What policies are generated from, and what is left out of them. Pure data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from app.networks.model import RESOURCE_NAME, Mode
from app.networks.settings import Switches, mode_in_force
from app.wire import JSON

PolicyMode = Literal["policies", "both"]
"""Who serves Pods:

- policies: there is no webhook. A Pod that asks for what policies cannot do is refused where the webhook's
  failurePolicy is Fail; where it is Ignore, its author is warned;
- both: such a Pod is left to the webhook.
"""
STATIC_SUFFIX = ".static.k8s.io"
"""With which names of policies in files of an API server end (KEP-5793), and no others do."""


class Left(NamedTuple):
    """Something that policies do not do: an object, or a sort of Pods, and the reason."""

    subject: str
    reason: str


class Network(NamedTuple):
    """An attachment that policies serve: one resource or none (""), and the labels of its node selector."""

    key: str
    resource: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Registration:
    """On what terms objects are reviewed, as the webhook for them is registered."""

    namespace_selector: JSON = field(default_factory=dict)
    object_selector: JSON = field(default_factory=dict)
    conditions: Sequence[Mapping[str, str]] = ()
    failure_policy: str = "Fail"

    @staticmethod
    def of(webhook: JSON) -> Registration:
        """That of an entry of a webhook configuration."""
        return Registration(
            webhook.get("namespaceSelector") or {},
            webhook.get("objectSelector") or {},
            tuple(webhook.get("matchConditions") or ()),
            str(webhook.get("failurePolicy") or "Fail"),
        )


@dataclass(frozen=True, slots=True)
class Terms:
    """What the webhook is told by its flags, by the control switches and by its registration.

    `annotations` (texts) and `asks` (CEL) are those by which Pods ask for more than networks. `annotates` says that the
    webhook writes into the object what it has injected.
    """

    registration: Registration = field(default_factory=Registration)
    attachments: Registration | None = field(default_factory=Registration)
    """On what terms attachments are reviewed; None where they are not."""
    resource_name_keys: tuple[str, ...] = (RESOURCE_NAME,)
    existing_resources: Mode = "top-up"
    node_selector_conflict: str = "override"
    claims: bool = False
    annotates: bool = False
    switches: Switches = field(default_factory=Switches)
    annotations: tuple[str, ...] = ()
    asks: tuple[str, ...] = ()
    mode: PolicyMode = "policies"
    name: str = "berth"
    static: bool = False

    @property
    def mode_in_force(self) -> Mode:
        """What becomes of amounts that Pods ask for: as the webhook, the control switches decide where they say so."""
        return mode_in_force(self.existing_resources, self.switches)

    def object_name(self, part: str) -> str:
        return f"{self.name}-{part}{STATIC_SUFFIX if self.static else ''}"
