"""Writes one Workload if it differs from what is stored. The stream decides which Workloads are written.

Every object records the stream that wrote it. An object with the right spec is not written again for that record.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.admission.patch import pointer
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.rate import Rate
from app.kube.store import Store
from app.kube.turns import Turns
from app.tenancy.gateway.intake import State
from app.tenancy.gateway.ledger import Known, Ledger
from app.tenancy.gateway.log_dedup import SparingLog
from app.tenancy.gateway.metrics import GatewayMetrics
from app.tenancy.gateway.options import GatewayOptions
from app.tenancy.gateway.reading import Readers
from app.tenancy.gateway.rulestore import no_namespace
from app.tenancy.gateway.storing import Storing
from app.tenancy.gateway.streamids import STREAM, StreamIds
from app.tenancy.gateway.views import View
from app.wire import JSON
from app.workloads.model import WORKLOADS, ObjectKey

_STREAM_PATH = pointer("metadata", "annotations", STREAM)


@dataclass(frozen=True, slots=True)
class Writing:
    """What every stream writes with."""

    client: KubeClient
    store: Store[Known]
    rules: Store[View]
    ledger: Ledger
    turns: Turns
    storing: Storing
    events: Rate[str]
    readers: Readers
    options: GatewayOptions
    observer: GatewayMetrics
    ids: StreamIds
    lines: SparingLog


class Writer:
    """Makes Workloads what they are to be."""

    def __init__(self, client: KubeClient, ledger: Ledger) -> None:
        self._client = client
        self._ledger = ledger
        self._removing: set[str] = set()

    def changes(self, key: ObjectKey, state: State) -> bool:
        """Whether this state would be stored."""
        known = self._ledger.get(key)
        return state.spec is not None and (known is None or known.digest != state.digest)

    async def write(self, key: ObjectKey, state: State, stream: str) -> str:
        """For the stream of this id; returns "create", "replace", "delete" or "unchanged".

        Raises ApiError, and Refused where there is no namespace.
        """
        known = self._ledger.get(key)
        if state.spec is None:
            return "unchanged" if known is None else await self._remove(known)
        if known is None:
            return await self._create(key, state.spec, stream)
        if known.digest == state.digest:
            return "unchanged"
        return await self._replace(key, state.spec, stream, marked=bool(known.stream))

    async def _create(self, key: ObjectKey, spec: JSON, stream: str) -> str:
        namespace, name = key
        body = {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "metadata": {"name": name, "namespace": namespace, "annotations": {STREAM: stream}},
            "spec": spec,
        }
        try:
            self._ledger.wrote(await self._client.create(WORKLOADS, body, namespace=namespace))
        except ApiError as error:
            if error.not_found:
                raise no_namespace(namespace) from error
            if error.reason != "AlreadyExists":
                raise
            return await self._replace(key, spec, stream, marked=False)
        return "create"

    async def _replace(self, key: ObjectKey, spec: JSON, stream: str, *, marked: bool) -> str:
        """Replace the whole spec, and nothing else. No other client writes specs, so no resourceVersion is needed."""
        namespace, name = key
        patch: list[JSON] = [
            {"op": "replace", "path": "/spec", "value": spec},
            {"op": "add", "path": _STREAM_PATH, "value": stream},
        ]
        try:
            if not marked:
                # A JSON Patch adds to annotations only where there are some; a merge patch leaves others' alone.
                first = {"metadata": {"annotations": {STREAM: stream}}}
                await self._client.patch(WORKLOADS, name, first, patch_type="merge", namespace=namespace)
            made = await self._client.patch(WORKLOADS, name, patch, patch_type="json", namespace=namespace)
        except ApiError as error:
            if not error.not_found:
                raise
            return await self._create(key, spec, stream)
        self._ledger.wrote(made)
        return "replace"

    def removed(self, gone: Known) -> bool:
        """Whether it is gone because of this writer; asked once for each object that is gone."""
        if gone.uid not in self._removing:
            return False
        self._removing.remove(gone.uid)
        return True

    async def _remove(self, known: Known) -> str:
        self._removing.add(known.uid)  # before the request: the watch may be faster than the answer
        try:
            await self._client.delete(WORKLOADS, known.name, namespace=known.namespace, uid=known.uid)
        except ApiError as error:
            if not error.not_found:
                raise  # a conflict is another object of this name: the cache will show it, and it is tried again
        self._ledger.deleted(known.key, known.uid)
        return "delete"
