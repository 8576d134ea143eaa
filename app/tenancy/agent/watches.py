"""The two streams that come from the gateway: the tenant's rules, and its Pods in the infra cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec

from app.tenancy.agent.connection import Link
from app.tenancy.agent.remote import Remote
from app.tenancy.messages import canonical
from app.tenancy.proto import resource_grpc, resource_pb, rule_grpc, rule_pb
from app.wire import decode_json

T = TypeVar("T")


class Watch(Generic[T]):
    """Keeps `remote` equal to what one stream tells, while `session` runs.

    `event` is the member of the answers' `event` that brings an item; `deleted` and `synced` are the others. `keep`
    puts the item under the name that `deleted` will call it.
    """

    def __init__(
        self, stub: Callable[[Any], Any], request: Any, event: str, keep: Callable[[Remote[T], T], None]
    ) -> None:
        self._stub, self._request, self._event, self._keep = stub, request, event, keep
        self.remote: Remote[T] = Remote()

    async def session(self, link: Link) -> None:
        call = self._stub(link.channel).Watch(self._request, metadata=link.metadata)
        self.remote.begin()
        try:
            async for answer in call:
                match answer.WhichOneof("event"):
                    case self._event:
                        self._keep(self.remote, getattr(answer, self._event))
                    case "deleted":
                        self.remote.drop(answer.deleted)
                    case "synced":
                        self.remote.complete()
                        link.up()
        finally:
            self.remote.lose()
            call.cancel()


def rule_watch() -> Watch[rule_pb.WorkloadRule]:
    """The rules at the gateway, by id."""
    request = rule_pb.WatchWorkloadRulesRequest()
    return Watch(rule_grpc.WorkloadRuleServiceStub, request, "rule", lambda remote, rule: remote.put(rule.id, rule))


def pod_watch() -> Watch[resource_pb.PodSummary]:
    """The companions and Pods of the tenant at the gateway, by name, their manifests in canonical form."""
    return Watch(resource_grpc.UniverseResourceServiceStub, resource_pb.WatchRequest(), "pod", _keep_pod)


def _keep_pod(remote: Remote[resource_pb.PodSummary], pod: resource_pb.PodSummary) -> None:
    # Once, when it comes in: a mirror is compared with it each time that it is looked at.
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        if pod.manifest:
            pod.manifest = canonical(decode_json(pod.manifest))
    remote.put(pod.name, pod)
