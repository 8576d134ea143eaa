"""Acts as kubectl in a step of the demo: shows the command, does it, and prints what kubectl would print.

The demo needs no kubectl on the machine. The commands can be typed as they stand while the sandbox runs.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from functools import partial

from app.devtools.demo import output
from app.devtools.demo.stage import MANIFESTS, Stage, get_or_nothing
from app.errors import ApiError
from app.kube.client import KubeClient, PatchType
from app.kube.resources import Resource
from app.wire import JSON, load_yaml

_DEFAULT = "default"


class Kubectl:
    """For one cluster: `context` is named in commands, unless it is ""."""

    def __init__(self, stage: Stage, client: KubeClient, *, context: str = "") -> None:
        self.client, self.stage = client, stage
        self._lead = "kubectl" + (f" --context {context}" if context else "")

    async def create(self, text: str, *resources: Resource, verb: str = "create") -> list[JSON]:
        """Create the objects of a text, one for each resource. Raises ApiError, after it was printed."""
        self.stage.document(f"{self._lead} {verb} -f - <<EOF", text)
        return [
            await self._created(resource, load_yaml(body))
            for resource, body in zip(resources, text.split("---\n"), strict=True)
        ]

    async def create_file(self, name: str, resource: Resource, *, verb: str = "create") -> JSON:
        """Create the object of a manifest of the demo, by its path."""
        self.command(verb, "-f", str(MANIFESTS / name))
        return await self._created(resource, load_yaml((MANIFESTS / name).read_text()))

    async def _created(self, resource: Resource, body: JSON) -> JSON:
        try:
            home = body["metadata"].get("namespace", _DEFAULT)
            created = await self.client.create(resource, body, namespace=home)
        except ApiError as error:
            self.stage.say(output.refusal(error, creating=True))
            raise
        self.stage.say(f"{output.named(resource, created['metadata']['name'])} created")
        return created

    async def get(
        self, resource: Resource, name: str = "", *, namespace: str = "", selector: str = "", wide: bool = False
    ) -> None:
        """Print one object, or all that are selected, as a table."""
        words = [typed(resource), name]
        words += ["-n", namespace] if namespace else []
        words += ["-l", selector] if selector else []
        words += ["-o", "wide"] if wide else []
        self.command("get", *filter(None, words))
        home = namespace or _DEFAULT
        answer = await self.client.table(resource, name, namespace=home, label_selector=selector)
        self.stage.say(output.table(answer, wide=wide) or output.nothing(home if resource.namespaced else ""))

    async def field(self, resource: Resource, name: str, path: str, *, namespace: str = "") -> str:
        """Print what is at a path of an object, or ("") of the list of all of them."""
        words = ["get", typed(resource), *filter(None, [name]), *(["-n", namespace] if namespace else [])]
        self.command(*words, f"-o jsonpath='{{{path}}}'", quoted=False)
        home = namespace or _DEFAULT
        if name:
            obj = await self.client.get(resource, name, namespace=home)
        else:
            obj = {"items": (await self.client.list_page(resource, namespace=home)).items}
        text = output.at_path(obj, path)
        self.stage.say(text)
        return text

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: JSON | list[JSON],
        *,
        kind: PatchType,
        namespace: str = "",
        subresource: str = "",
    ) -> JSON:
        words = ["patch", typed(resource), name, *(["-n", namespace] if namespace else [])]
        words += [f"--subresource={subresource}"] if subresource else []
        self.command(*words, f"--type={kind}", f"-p {shlex.quote(json.dumps(body))}", quoted=False)
        home = namespace or _DEFAULT
        changed = await self.client.patch(
            resource, name, body, patch_type=kind, namespace=home, subresource=subresource or None
        )
        self.stage.say(f"{output.named(resource, name)} patched")
        return changed

    async def mark(self, what: str, resource: Resource, name: str, key: str, value: str | None) -> None:
        """Set a label or (`what` is annotate) an annotation in namespace default, or take it away (None)."""
        self.command(what, typed(resource), name, f"{key}-" if value is None else f"{key}={value}")
        body = {"metadata": {"labels" if what == "label" else "annotations": {key: value}}}
        await self.client.patch(resource, name, body, patch_type="merge", namespace=_DEFAULT)
        done = {"label": "labeled", "annotate": "annotated"}[what]
        self.stage.say(f"{output.named(resource, name)} {'unlabeled' if what == 'label' and value is None else done}")

    async def delete(self, resource: Resource, *names: str, namespace: str = "", wait: bool = True) -> None:
        """Delete what there is of these objects, and (`wait`) wait until they are gone."""
        options = [*(["-n", namespace] if namespace else []), "--ignore-not-found", *([] if wait else ["--wait=false"])]
        self.command("delete", typed(resource), *names, *options)
        home, gone = namespace or _DEFAULT, dict[str, str]()
        for name in names:
            obj = await get_or_nothing(self.client, resource, name, namespace=home)
            if obj:
                await self.client.delete(resource, name, namespace=home)
                gone[name] = obj["metadata"]["uid"]
                self.stage.say(f'{output.kind_of(resource)} "{name}" deleted')
        for name, uid in gone.items() if wait else ():
            wish = f"{name} is gone"
            await self.until(wish, resource, name, partial(_is_another, uid=uid), namespace=namespace)

    async def until(
        self, wish: str, resource: Resource, name: str, true: Callable[[JSON], bool], *, namespace: str = ""
    ) -> JSON:
        """The object once it is as wished; {} stands for none. Raises DemoError if it takes too long."""
        home = namespace or _DEFAULT
        return await self.stage.until(
            wish, lambda: get_or_nothing(self.client, resource, name, namespace=home), true=true
        )

    async def wait(self, condition: str, resource: Resource, name: str, true: Callable[[JSON], bool]) -> JSON:
        """Wait as `kubectl wait --for` does; the condition is in its words, and `true` is what it means."""
        self.command("wait", output.named(resource, name), f"--for={condition}", "--timeout=60s", quoted=False)
        obj = await self.until(f"{name}: {condition}", resource, name, lambda obj: bool(obj) and true(obj))
        self.stage.say(f"{output.named(resource, name)} condition met")
        return obj

    def command(self, *words: str, quoted: bool = True) -> None:
        """Show a command; `quoted` words are quoted for the shell, the others are so already."""
        typed: Sequence[str] = [shlex.quote(word) if quoted else word for word in words]
        self.stage.command(" ".join([self._lead, *typed]))


def _is_another(obj: JSON, *, uid: str) -> bool:
    """Whether it is no object, or one that was made since."""
    return not obj or bool(obj["metadata"]["uid"] != uid)


def typed(resource: Resource) -> str:
    """How a user names the kind in a command: with its group if another kind of a cluster has the same plural."""
    return f"{resource.plural}.{resource.group}" if resource.plural == "workloads" else resource.plural
