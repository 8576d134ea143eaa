"""What the demo prints for kubectl is what kubectl prints of the same objects."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import AsyncIterator
from io import StringIO
from typing import Any

import pytest
import pytest_asyncio
from rich.console import Console

from app.devtools.demo import output
from app.devtools.demo.kubectl import Kubectl
from app.devtools.demo.stage import Stage
from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import CONFIG_MAPS, NAMESPACES, NODES, PODS, SERVICES, Resource
from app.kube.transport import connect
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")
WIDGETS = Resource("test.io", "v1", "widgets", "Widget")
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: NAME, labels: {app: a}}
spec: {containers: [{name: c, image: busybox}]}
"""


@pytest_asyncio.fixture
async def client(served: Any) -> AsyncIterator[KubeClient]:
    async with await connect(kubeconfig=str(served.kubeconfig()), deadline=PATIENCE) as made:
        yield made


class Demo:
    """The demo's kubectl, and what it has shown."""

    def __init__(self, client: KubeClient) -> None:
        self._text = StringIO()
        self.kubectl = Kubectl(Stage(Console(file=self._text, width=500, no_color=True)), client)

    def printed(self) -> tuple[str, str]:
        """The first command and what came after it, since the last call; without the document that it read."""
        command, _, rest = self._text.getvalue().partition("\n")
        self._text.seek(0)
        self._text.truncate()
        return command, rest.rpartition("EOF\n")[2]


def typed(served: Any, command: str, stdin: str = "") -> tuple[str, str]:
    """What kubectl prints for a command of the demo; the ages are those of one moment."""
    done = served.kubectl(*shlex.split(command.partition(" <<")[0])[1:], stdin=stdin)
    return done.stdout, done.stderr


async def same(served: Any, demo: Demo, resource: Resource, name: str = "", **options: Any) -> str:
    """A table of the demo, which is that of kubectl; one may be taken when an age changes."""
    for _ in range(20):
        await demo.kubectl.get(resource, name, **options)
        command, shown = demo.printed()
        out, err = typed(served, command)
        if shown == (out or err):
            return shown
    raise AssertionError(f"{command}\n{shown}\n{out}{err}")


async def test_tables_have_the_columns_and_widths_of_kubectl(served: Any, client: KubeClient, namespace: str) -> None:
    demo = Demo(client)
    for name in ("a", "a-longer-name"):
        body = {
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        await client.create(PODS, body, namespace=namespace)
    await client.create(CONFIG_MAPS, {"metadata": {"name": "c"}, "data": {"a": "b"}}, namespace=namespace)
    spec = {"selector": {"a": "b"}, "ports": [{"port": 80}]}
    await client.create(SERVICES, {"metadata": {"name": "s"}, "spec": spec}, namespace=namespace)
    for resource, options in (
        (PODS, {}),
        (PODS, {"wide": True}),
        (PODS, {"name": "a"}),
        (PODS, {"selector": "app=a"}),
        (CONFIG_MAPS, {}),
        (SERVICES, {"wide": True}),
    ):
        assert (await same(served, demo, resource, namespace=namespace, **options)).startswith("NAME ")
    assert "NAME" in await same(served, demo, NAMESPACES)
    assert "No resources found" in await same(served, demo, PODS, namespace=namespace, selector="app=none")
    if not (await client.list_page(NODES)).items:
        assert await same(served, demo, NODES) == "No resources found\n"


async def test_columns_of_definitions(served: Any, client: KubeClient, namespace: str) -> None:
    """Numbers, switches, missing values, texts of several lines, an empty last cell, columns of -o wide."""
    columns = [
        {"name": "Count", "type": "integer", "jsonPath": ".spec.count"},
        {"name": "On", "type": "boolean", "jsonPath": ".spec.on"},
        {"name": "Size", "type": "number", "jsonPath": ".spec.size"},
        {"name": "Rarely", "type": "string", "jsonPath": ".spec.text", "priority": 1},
        {"name": "Message", "type": "string", "jsonPath": ".spec.text"},
    ]
    preserve = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "additionalPrinterColumns": columns}
    version["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"spec": preserve}}}
    served.define(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.test.io"},
            "spec": {
                "group": "test.io",
                "scope": "Namespaced",
                "names": {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"},
                "versions": [version],
            },
        }
    )
    try:
        for name, spec in (
            ("full", {"count": 3, "on": True, "size": 1.5, "text": "one line"}),
            ("lines", {"count": 0, "on": False, "text": "first\nsecond, and more"}),
            ("none", {}),
        ):
            await client.create(WIDGETS, WIDGETS.body({"name": name}, spec=spec), namespace=namespace)
        demo = Demo(client)
        assert "first..." in await same(served, demo, WIDGETS, namespace=namespace)
        assert "RARELY" in await same(served, demo, WIDGETS, namespace=namespace, wide=True)
        for path in (".spec", ".spec.count", ".spec.text", ".spec.on"):
            await demo.kubectl.field(WIDGETS, "full", path, namespace=namespace)
            command, shown = demo.printed()
            assert (shown, "") == (f"{typed(served, command)[0]}\n", typed(served, command)[1])
    finally:
        served.undefine("widgets.test.io")


async def test_writes_and_refusals_are_said_as_kubectl_does(served: Any, client: KubeClient) -> None:
    """In namespace default: created, labeled, patched, refused, deleted."""
    demo, other = Demo(client), "other-of-kubectl"
    own = "one-of-the-demo"

    async def both(shown_name: str, stdin: str = "") -> None:
        """What was shown is what kubectl prints if the same is done to another object."""
        command, shown = demo.printed()
        out, err = typed(served, command.replace(shown_name, other), stdin)
        # Newer releases say which namespace it was.
        assert shown == (out + err).replace(other, shown_name).replace(" from default namespace", ""), command

    try:
        await demo.kubectl.create(POD.replace("NAME", own), PODS)
        await both(own, POD.replace("NAME", other))
        with pytest.raises(ApiError):
            await demo.kubectl.create(POD.replace("NAME", own), PODS)
        await both(own, POD.replace("NAME", other))
        await demo.kubectl.mark("label", PODS, own, "a", "b")
        await both(own)
        await demo.kubectl.mark("annotate", PODS, own, "a.b/c", "d")
        await both(own)
        await demo.kubectl.mark("annotate", PODS, own, "a.b/c", None)
        await both(own)
        await demo.kubectl.patch(PODS, own, {"metadata": {"labels": {"a": "c"}}}, kind="merge")
        await both(own)
        await demo.kubectl.wait("jsonpath='{.metadata.labels.a}'=c", PODS, own, bool)
        await both(own)
        await demo.kubectl.delete(PODS, own)
        await both(own)
        await demo.kubectl.delete(PODS, own)
        await both(own)
    finally:
        for name in (own, other):
            served.kubectl("delete", "pod", name, "--ignore-not-found", "--force", "--grace-period=0")


def test_an_error_has_the_words_of_kubectl() -> None:
    message = "POST /api/v1/pods: HTTP 400: admission webhook denied the request: HTTP 400: why"
    found = output.refusal(ApiError(message, status=400, reason="BadNetworkAnnotation"))
    assert found == "Error from server (BadNetworkAnnotation): admission webhook denied the request: HTTP 400: why"
