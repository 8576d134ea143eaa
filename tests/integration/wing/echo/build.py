"""Makes the parts of the wing that the descriptor names."""

from __future__ import annotations

import asyncio

from app.echo.metrics import ECHOES as ANSWERED
from app.echo.needs import ECHOES
from app.echo.settings import EchoerSettings, EchoSettings, EchoWebhookSettings

from app.admission.chain import Plan
from app.admission.parts import Context, Parts
from app.admission.review import Request, written_object
from app.errors import Denied
from app.kube.client import KubeClient
from app.kube.controller import Controller, Done, Result
from app.kube.reflector import Reflector
from app.kube.store import Store
from app.settings.reconciling import ControllerContext, RoleContext, Runnable
from app.settings.source import settings_as
from app.wire import JSON, pointer


class EchoInjector:
    name = "echo"

    def __init__(self, annotation: str) -> None:
        self._annotation = annotation

    def inject(self, request: Request, plan: Plan) -> None:
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

    def check(self, request: Request, _plan: Plan) -> None:
        if request.kind.kind != ECHOES.kind:
            return
        obj = written_object(request, reason="UnreadableEcho")
        if obj is not None and not obj["spec"].get("text"):
            raise Denied("spec.text: want something to echo", reason="SilentEcho")


def review(context: Context) -> Parts:
    annotation = settings_as(context.settings, EchoWebhookSettings).echo_annotation
    return Parts((EchoInjector(annotation),), (EchoCheck(),))


class EchoController:
    def __init__(self, client: KubeClient, *, suffix: str) -> None:
        self._client, self._suffix = client, suffix
        self._store: Store[JSON] = Store(lambda obj: obj)
        self._reflector = Reflector(client, ECHOES, self._store)
        self._controller = Controller("echoes", self._reconcile, stores=[self._store], keys=self._store.keys)
        self._store.subscribe(lambda _event, key, _old, _new: self._controller.enqueue(key))

    def waiting(self) -> list[str]:
        return [] if self._reflector.healthy else [f"{ECHOES.plural}: {self._reflector.reason}"]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reflector.run())
            tasks.create_task(self._controller.run())

    async def _reconcile(self, key: tuple[str, str]) -> Result:
        echo = self._store.get(*key)
        if echo is None:
            return Done()
        namespace, name = key
        status = {"text": echo["spec"]["text"] + self._suffix}
        if echo.get("status") != status:
            await self._client.patch(
                ECHOES, name, {"status": status}, patch_type="merge", namespace=namespace, subresource="status"
            )
            ANSWERED.inc()
        return Done()


def controller(context: ControllerContext) -> EchoController:
    return EchoController(context.client, suffix=settings_as(context.settings, EchoSettings).echo_suffix)


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
