"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

import asyncio

from app.echo.metrics import ECHOES as ANSWERED
from app.echo.needs import ECHOES
from app.echo.settings import EchoerSettings, EchoSettings, EchoWebhookSettings

from app.admission.chain import MutationPlan
from app.admission.parts import Context, Parts
from app.admission.review import Request, written_object
from app.errors import Denied
from app.kube.controller import Done, Result
from app.kube.kit import Kit, itself
from app.kube.store import Key, Store
from app.kube.writing import write_status
from app.settings.reconciling import ControllerContext, RoleContext, Runnable
from app.settings.source import settings_as
from app.wire import JSON, pointer


class EchoInjector:
    name = "echo"

    def __init__(self, annotation: str) -> None:
        self._annotation = annotation

    def inject(self, request: Request, plan: MutationPlan) -> None:
        if not request.creates_pod:
            return
        metadata = request.pod.metadata
        if "echo" in metadata.labels and self._annotation not in metadata.annotations:
            reason = "label echo"
            plan.patch.ensure("/metadata/annotations", {}, present=bool(metadata.annotations), reason=reason)
            path = pointer("metadata", "annotations", self._annotation)
            plan.patch.add(path, metadata.labels["echo"], reason=reason)
            plan.count("annotation")
            plan.reason = "Injected"


class EchoCheck:
    name = "echoes"

    def check(self, request: Request, _plan: MutationPlan) -> None:
        if request.kind.kind != ECHOES.kind:
            return
        obj = written_object(request, reason="UnreadableEcho")
        if obj is not None and not obj["spec"].get("text"):
            raise Denied("spec.text: want something to echo", reason="SilentEcho")


def review(context: Context) -> Parts:
    annotation = settings_as(context.settings, EchoWebhookSettings).echo_annotation
    return Parts((EchoInjector(annotation),), (EchoCheck(),))


def controller(context: ControllerContext) -> Kit:
    kit, suffix = context.kit(), settings_as(context.settings, EchoSettings).echo_suffix
    echoes: Store[JSON] = kit.cache(ECHOES, lambda obj: obj)

    async def answer(key: Key) -> Result:
        echo = echoes.get(*key)
        if echo is not None and (status := {"text": echo["spec"]["text"] + suffix}) != echo.get("status"):
            await write_status(kit.client, ECHOES, key, echo["metadata"]["uid"], status)
            ANSWERED.inc()
        return Done()

    kit.reconcile("echoes", answer, keys=echoes.keys, wakes={echoes: itself})
    return kit


class Listening:
    def __init__(self, distance: int) -> None:
        self._distance = distance

    def waiting(self) -> list[str]:
        return []

    async def run(self) -> None:
        await asyncio.Event().wait()


def echoer(context: RoleContext) -> Runnable:
    distance = settings_as(context.settings, EchoerSettings).echo_distance
    return context.elected(lambda _client, _events: Listening(distance))
