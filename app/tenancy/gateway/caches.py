"""The caches of a gateway: tenants, what they store, and the Pods that they may see.

Of rules and Pods it keeps views, which it shows to their tenants: small, immutable, comparable. A view shows nothing
of another tenant, and none of Berth's own marks but the name of the rule.

Of a stored Workload it keeps which stream wrote it, and our writes that the cache does not show yet. The id of a
stream sorts by time. A replica does not notice at once that an agent has gone to another one. Until then its stream
must not take for left over what the agent has sent to its newer stream.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field, replace

import structlog

from app.kube.client import KubeClient
from app.kube.kit import Kit
from app.kube.own_writes import OwnWrites
from app.kube.resources import PODS
from app.kube.store import Store
from app.numbers import whole_or
from app.tenancy.messages import canonical, pod_summary, rule_message
from app.tenancy.model import Tenant, holder_of, link_of, project_tenant
from app.wire import JSON, pointer
from app.workloads.companions.marks import is_bound, size_of
from app.workloads.model import (
    COMPANION,
    RESOURCE_OWNER,
    TENANT_NAMESPACE_PREFIX,
    TENANT_RULES,
    TENANTS,
    WORKLOADS,
    ObjectKey,
    workload_name,
)
from app.workloads.rules.problems import computed_keys, match_keys
from app.workloads.templates.bounds import weight_of

log = structlog.get_logger(__name__)
LAG = 60.0
"""Seconds after which a cache without our write counts as current: another client has removed what we wrote."""
STREAM = "berth.dev/stream"
"""Annotation on a Workload, by the gateway: the id of the stream that last wrote it; absent on one made by hand."""
STREAM_PATH = pointer("metadata", "annotations", STREAM)
_DIGITS = 15
_ID = re.compile(rf"0[0-9]{{{_DIGITS - 1}}}-[0-9a-f]{{8}}")
BY_NAMESPACE = "namespace"
"""The index of the caches by namespace."""
Keys = frozenset[str]
"""Of the terms of a rule, those that are more than a path of names: each computes."""
_BY_NAME, _BY_CLUSTER = "name", "cluster"
COMPANION_PODS, RESOURCE_PODS = "CompanionPod", "ResourcePod"
"""What the two caches of Pods are called in the metrics."""


class Sources:
    """The caches: tenants, Workloads, tenant rules, and the Pods that tenants may see. `run` fills them."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client
        self.kit = kit = Kit(client)
        by_namespace = {BY_NAMESPACE: _namespace}
        self.tenants: Store[Tenant] = kit.cache(
            TENANTS,
            _known_tenant,
            indices={
                _BY_NAME: lambda tenant: [name.lower() for name in tenant.names],
                _BY_CLUSTER: lambda tenant: [tenant.link.cluster],
            },
        )
        self.workloads: Store[Known] = kit.cache(WORKLOADS, project_known, indices=by_namespace)
        self.rules: Store[View] = kit.cache(TENANT_RULES, view_rule, indices=by_namespace)
        # A selector has no "or": one cache for each of the two marks.
        self.companions: Store[View] = kit.cache(
            PODS, view_pod, indices=by_namespace, labels=COMPANION, called=COMPANION_PODS
        )
        self.pods: Store[View] = kit.cache(
            PODS, view_pod, indices=by_namespace, labels=f"{RESOURCE_OWNER},!{COMPANION}", called=RESOURCE_PODS
        )
        self.ledger = ledger_of(self.workloads)

    def tenants_named(self, name: str) -> list[Tenant]:
        """The tenants that list this name (in lower case) of a certificate."""
        return self.tenants.by_index(_BY_NAME, name)

    def holder_of(self, cluster: str) -> str:
        """The tenant that has this cluster; "" where it is noted on none."""
        return holder_of(
            cluster, ((tenant.name, tenant.link) for tenant in self.tenants.by_index(_BY_CLUSTER, cluster))
        )

    def rivals_of(self, name: str) -> list[Tenant]:
        """The other tenants on which the cluster of this tenant is noted; none where it has none, or another has it.

        None either while the cache may show what never was.
        """
        tenant = self.tenants.get("", name)
        if tenant is None or self.tenants.in_doubt or self.holder_of(tenant.link.cluster) != name:
            return []
        return [other for other in self.tenants.by_index(_BY_CLUSTER, tenant.link.cluster) if other.name != name]

    def count_workloads(self, namespace: str) -> int:
        return self.workloads.count(BY_NAMESPACE, namespace)

    def workloads_in(self, namespace: str) -> list[Known]:
        return self.workloads.by_index(BY_NAMESPACE, namespace)

    def count_rules(self, namespace: str) -> int:
        return self.rules.count(BY_NAMESPACE, namespace)

    def unsynced(self) -> list[str]:
        """What has not been loaded for the first time, one line each."""
        return self.kit.unsynced()

    def waiting(self) -> list[str]:
        """What readiness waits for, one line each."""
        return self.kit.waiting()

    async def run(self) -> None:
        await self.kit.run()


@dataclass(frozen=True, slots=True)
class View:
    """One object as its tenant sees it: `message` is the serialized message of its watch.

    Of a rule `keys` are those that compute. Of a Pod that is not a companion `size` are the bytes of what its author
    says, `pending` those of one without a node, and `weight` what that counts for.
    """

    namespace: str
    name: str
    message: bytes
    size: int = field(default=0, compare=False)
    pending: int = field(default=0, compare=False)
    weight: int = field(default=0, compare=False)
    keys: Keys = field(default=frozenset(), compare=False)


def view_rule(obj: JSON) -> View | None:
    """A stored tenant rule with its status."""
    metadata = obj["metadata"]
    if metadata.get("deletionTimestamp"):
        return None
    message = rule_message(obj).SerializeToString(deterministic=True)
    return View(metadata["namespace"], metadata["name"], message, keys=keys_of(obj.get("spec") or {}))


def keys_of(spec: JSON) -> Keys:
    """The keys of a rule's terms that compute, and so count."""
    return computed_keys(match_keys(spec))


def view_pod(obj: JSON) -> View | None:
    """A companion or a Pod of the resource service, in a tenant's namespace; None elsewhere."""
    metadata = obj["metadata"]
    namespace: str = metadata["namespace"]
    if not namespace.startswith(TENANT_NAMESPACE_PREFIX):
        return None
    companion = COMPANION in (metadata.get("labels") or {})
    message = pod_summary(obj).SerializeToString(deterministic=True)
    size = 0 if companion else size_of(obj)
    if companion or is_bound(obj):
        return View(namespace, metadata["name"], message, size)
    return View(namespace, metadata["name"], message, size, pending=size, weight=weight_of(obj.get("spec") or {}))


@dataclass(frozen=True, slots=True)
class Known:
    """A stored Workload: its uid, digest and bytes of its spec, and which stream wrote it ("" where none says so)."""

    name: str
    namespace: str
    uid: str
    version: str
    digest: bytes
    stream: str = ""
    size: int = 0

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    @property
    def workload_id(self) -> str:
        """The id that its name has, "" for a name that no stream gives."""
        workload = self.name.removeprefix(workload_name(""))
        return workload if workload_name(workload) == self.name else ""

    def before(self, other: Known) -> bool:
        """Whether this is an earlier state than `other`."""
        ours, theirs = whole_or(self.version, -1), whole_or(other.version, -1)
        return ours < theirs if ours >= 0 and theirs >= 0 else self.version != other.version


@dataclass(frozen=True, slots=True)
class State:
    """What a workload is to be: its spec in canonical form, as it is written, or None for gone."""

    spec: bytes | None
    digest: bytes = b""

    @property
    def size(self) -> int:
        return len(self.spec or b"")


GONE = State(None)


def project_known(obj: JSON) -> Known:
    """Projection for a Store; raises where an object cannot be read."""
    metadata, spec = obj["metadata"], canonical(obj["spec"])
    return Known(
        name=metadata["name"],
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        version=metadata["resourceVersion"],
        digest=digest_of(spec),
        stream=stream_of(obj),
        size=len(spec),
    )


def digest_of(spec: bytes) -> bytes:
    """Of a spec in its canonical form."""
    return hashlib.sha256(spec).digest()


def ledger_of(store: Store[Known], *, clock: Callable[[], float] = time.monotonic) -> OwnWrites[Known]:
    """The newest known state of each Workload: a comparison with the cache alone would take an outdated one for it."""
    ledger = OwnWrites(
        lambda key: store.get(*key),
        lifetime=LAG,
        reached=lambda shown, written: not shown.before(written),
        uid=lambda workload: workload.uid,
        clock=clock,
    )
    ledger.follow(store)
    return ledger


class StreamIds:
    """Gives out ids `<milliseconds since the epoch>-<random>`, as text of one length: each later than those before.

    An id is also later than every id that its replica knows of, because the clocks of replicas may differ.
    """

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._last = 0

    def next(self, streams: Iterable[str]) -> str:
        """An id later than all that are `streams` ("" is none)."""
        latest = max(streams, default="")
        seen = int(latest.partition("-")[0]) if latest else 0
        self._last = max(int(self._clock() * 1000), self._last + 1, seen + 1)
        return f"{self._last:0{_DIGITS}d}-{secrets.token_hex(4)}"


def stream_of(obj: JSON) -> str:
    """The id on a stored Workload; "", which is earlier than every id, where there is none that can be read."""
    stream = (obj["metadata"].get("annotations") or {}).get(STREAM)
    # With a leading zero: one more than the last of these still has as many digits, and sorts after it.
    return stream if isinstance(stream, str) and _ID.fullmatch(stream) else ""


def _namespace(value: Known | View) -> Iterable[Hashable]:
    return (value.namespace,)


def _known_tenant(obj: JSON) -> Tenant | None:
    """The tenant, or None for one that cannot be read: its callers are refused rather than judged by an old version."""
    try:
        return replace(project_tenant(obj), link=link_of(obj))
    except ValueError as error:
        log.warning("Tenant is not usable; its callers are refused", tenant=obj["metadata"]["name"], problem=str(error))
        return None
