"""What the gateway holds: a local copy by name, fed by one Watch stream, and the names in a list of objects.

The copy stays readable while the stream is down, but is not `synced` then.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from app.kube.walls import wall
from app.tenancy.agent.connection import Connection, Link, Stream
from app.tenancy.agent.outages import GatewayUnavailable
from app.tenancy.messages import canonical
from app.tenancy.proto import resource_grpc, resource_pb, rule_grpc, rule_pb
from app.wire import decode_json, load_yaml, mapping

T = TypeVar("T")
Pod = resource_pb.PodSummary


class Remote(Generic[T]):
    """`begin`, then `put` and `drop`, `complete` after everything was sent once, and `lose` when the stream ends."""

    def __init__(self) -> None:
        self.items: dict[str, T] = {}
        self._next: dict[str, T] | None = None
        self._listeners: list[Callable[[str], None]] = []
        self._round = asyncio.Event()
        self.rounds = 0
        self.synced = False

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Calls `listener` with the name of each item that changed, appeared or went; it must not block."""
        self._listeners.append(listener)

    async def next_round(self, after: int) -> None:
        while self.rounds <= after:
            await self._round.wait()

    def begin(self) -> None:
        """A stream starts: what comes until `complete` is a whole."""
        self.synced, self._next = False, {}

    def put(self, name: str, item: T) -> None:
        if self._next is not None:
            self._next[name] = item
        elif self.items.get(name) != item:
            self.items[name] = item
            self._notify(name)

    def drop(self, name: str) -> None:
        if self._next is not None:
            self._next.pop(name, None)
        elif self.items.pop(name, None) is not None:
            self._notify(name)

    def complete(self) -> None:
        """Everything has been put once; a second call on the same stream changes nothing."""
        if self._next is None:
            return
        old, self.items, self._next = self.items, self._next, None
        self.synced = True
        self.rounds += 1
        self._round.set()
        self._round = asyncio.Event()
        for name in sorted(old.keys() | self.items.keys()):
            if old.get(name) != self.items.get(name):
                self._notify(name)

    def lose(self) -> None:
        """The stream is gone; an unfinished whole is forgotten."""
        self.synced, self._next = False, None

    def _notify(self, name: str) -> None:
        for listener in self._listeners:
            with wall("gateway-objects", name=name):
                listener(name)


class Watch(ABC, Remote[T]):
    """The copy that one stream feeds while `session` runs: the stream is the answer to `request`.

    `event` is the member of the answers' `event` that has an item. `connection` is the one to its service.
    """

    stream: ClassVar[Stream]
    stub: ClassVar[type[Any]]
    request: ClassVar[Any]
    event: ClassVar[str]

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection

    @abstractmethod
    def keep(self, item: T) -> None:
        """Put the item under the name that `deleted` will give."""

    async def call(self, method: str, request: Any) -> Any:
        """One call of the service. Raises GatewayRefused and GatewayUnavailable."""
        return await self.connection.call(self.stub, method, request)

    async def session(self, link: Link) -> None:
        call = self.stub(link.channel).Watch(self.request, metadata=link.metadata)
        self.begin()
        try:
            async for answer in call:
                match answer.WhichOneof("event"):
                    case self.event:
                        with wall("gateway-objects", stream=self.stream):
                            self.keep(getattr(answer, self.event))
                    case "deleted":
                        self.drop(answer.deleted)
                    case "synced":
                        self.complete()
                        link.up()
        finally:
            self.lose()
            call.cancel()


class Rules(Watch[rule_pb.WorkloadRule]):
    stream, stub = "rules", rule_grpc.WorkloadRuleServiceStub
    request, event = rule_pb.WatchWorkloadRulesRequest(), "rule"

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._taken: dict[str, tuple[rule_pb.WorkloadRuleData, rule_pb.WorkloadRuleData]] = {}
        """Of each rule what was sent last, and what the gateway made of it."""

    def keep(self, item: rule_pb.WorkloadRule) -> None:
        self.put(item.id, item)

    def holds(self, rule: rule_pb.WorkloadRule) -> bool:
        """Whether the gateway has this rule, or what it made of it."""
        have = self.items.get(rule.id)
        if have is None or have.generation != rule.generation:
            return False
        return have.data == rule.data or self._taken.get(rule.id) == (rule.data, have.data)

    async def send(self, rule: rule_pb.WorkloadRule) -> None:
        """Raises GatewayRefused and GatewayUnavailable."""
        have = self.items.get(rule.id)
        answer = await self.call("Update", rule_pb.UpdateWorkloadRuleRequest(rule=rule))
        self._taken[rule.id] = rule.data, answer.rule.data
        if self.synced and self.items.get(rule.id) is have:
            # The watch sends the same a moment later; until then the rule would look as if it were to be sent.
            self.put(rule.id, answer.rule)

    def forget(self, name: str) -> None:
        """It is not sent any more."""
        self._taken.pop(name, None)


class Pods(Watch[Pod]):
    """The companions and Pods of the tenant at the gateway, their manifests in canonical form."""

    stream, stub = "resources", resource_grpc.UniverseResourceServiceStub
    request, event = resource_pb.WatchRequest(), "pod"

    def keep(self, item: Pod) -> None:
        # Once, when it comes in: a mirror is compared with it each time that it is looked at. A change of the status
        # brings the manifest that is kept.
        kept = self.items.get(item.name)
        if item.manifest and (kept is None or kept.manifest != item.manifest):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
                item.manifest = canonical(decode_json(item.manifest))
        self.put(item.name, item)


def is_companion(pod: Pod) -> bool:
    """Whether a rule has created the Pod, not a UVSPod."""
    return pod.origin == resource_pb.ORIGIN_RULE


def pod_summary(pod: Pod) -> dict[str, Any]:
    """What the status of a UVSPod shows of the Pod. What of it cannot be read is left out."""
    summary: dict[str, Any] = {"phase": pod.phase, "nodeName": pod.node_name}
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        summary["pod"] = mapping(decode_json(pod.status)) if pod.status else None
    return {key: value for key, value in summary.items() if value}


def names_of(manifests: list[bytes]) -> set[str]:
    """The names of the objects in an answer, each a document of YAML; one that cannot be read costs no other.

    Raises GatewayUnavailable where none can be read. Long answers take their time: call it beside the event loop.
    """
    names: set[str] = set()
    for text in manifests:
        with wall("gateway-objects", bytes=len(text)):
            names.add(str(load_yaml(text)["metadata"]["name"]))
    if manifests and not names:
        raise GatewayUnavailable("gateway: no object in its answer can be read")
    return names
