"""The `kubectl` of machines that have none: the commands that our pages name, over the official Python client."""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes
import yaml

JSON = dict[str, Any]
_PATIENCE = 200.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="kubectl")
    parser.add_argument("-n", "--namespace", default="default")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("apply", "delete"):
        one = commands.add_parser(name)
        one.add_argument("kind", nargs="?")
        one.add_argument("name", nargs="?")
        one.add_argument("-f", "--filename")
        one.add_argument("--server-side", action="store_true")
    patch = commands.add_parser("patch")
    patch.add_argument("kind")
    patch.add_argument("name")
    patch.add_argument("--type", choices=["json"], required=True)
    patch.add_argument("--patch", required=True)
    create = commands.add_parser("create")
    create.add_argument("kind", choices=["namespace"])
    create.add_argument("name")
    get = commands.add_parser("get")
    get.add_argument("kind")
    get.add_argument("name", nargs="?")
    get.add_argument("-o", "--output", choices=["yaml", "json", "name"], default="name")
    rollout = commands.add_parser("rollout")
    rollout.add_argument("action", choices=["status", "restart"])
    rollout.add_argument("target")
    annotate = commands.add_parser("annotate")
    annotate.add_argument("target")
    annotate.add_argument("pair")
    annotate.add_argument("--overwrite", action="store_true")
    wait = commands.add_parser("wait")
    wait.add_argument("target")
    wait.add_argument("--for", dest="condition", required=True)
    wait.add_argument("--timeout", default="60s")
    for one in (*commands.choices.values(),):
        one.add_argument("-n", "--namespace", default=argparse.SUPPRESS)
    given = parser.parse_args()
    try:
        _Kubectl(given).run()
    except kubernetes.client.exceptions.ApiException as error:
        message = json.loads(error.body)["message"] if error.body else str(error)
        print(f"Error from server: {message}", file=sys.stderr)
        return 1
    return 0


class _Kubectl:
    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        api = kubernetes.config.new_client_from_config(os.environ["KUBECONFIG"])
        self._client = kubernetes.dynamic.DynamicClient(api)

    def run(self) -> None:
        getattr(self, self._given.command)()

    def apply(self) -> None:
        for body in self._bodies():
            resource, namespace = self._of(body)
            name = body["metadata"]["name"]
            self._client.server_side_apply(
                resource, body=body, name=name, namespace=namespace, field_manager="kubectl", force_conflicts=True
            )
            print(f"{body['kind'].lower()}/{name} serverside-applied")

    def delete(self) -> None:
        if self._given.kind:
            resource = self._resource(self._given.kind)
            namespace = self._given.namespace if resource.namespaced else None
            resource.delete(name=self._given.name, namespace=namespace)
            print(f'{self._given.kind} "{self._given.name}" deleted')
            return
        for body in self._bodies():
            resource, namespace = self._of(body)
            resource.delete(name=body["metadata"]["name"], namespace=namespace)
            print(f'{body["kind"].lower()} "{body["metadata"]["name"]}" deleted')

    def patch(self) -> None:
        resource = self._resource(self._given.kind)
        namespace = self._given.namespace if resource.namespaced else None
        body = json.loads(self._given.patch)
        resource.patch(
            name=self._given.name, namespace=namespace, body=body, content_type="application/json-patch+json"
        )
        print(f"{self._given.kind}/{self._given.name} patched")

    def create(self) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self._given.name}}
        self._resource("namespaces").create(body=body)
        print(f"namespace/{self._given.name} created")

    def get(self) -> None:
        kind, slash, name = self._given.kind.partition("/")
        found = self._read(kind, name if slash else self._given.name)
        if self._given.output == "name":
            items = found.get("items", [found])
            print("\n".join(f"{kind}/{item['metadata']['name']}" for item in items))
        else:
            print(json.dumps(found, indent=2) if self._given.output == "json" else yaml.safe_dump(found))

    def rollout(self) -> None:
        kind, _, name = self._given.target.partition("/")
        if self._given.action == "restart":
            stamp = {"kubectl.kubernetes.io/restartedAt": str(time.time())}
            body = {"spec": {"template": {"metadata": {"annotations": stamp}}}}
            self._resource(kind).patch(
                name=name, namespace=self._given.namespace, body=body, content_type="application/merge-patch+json"
            )
            return

        def rolled() -> bool:
            found = self._read(kind, name)
            status, wanted = found.get("status") or {}, found["spec"]["replicas"]
            counts = [status.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
            return status.get("observedGeneration") == found["metadata"]["generation"] and counts == [wanted] * 3

        _until(rolled, f"{self._given.target} is not rolled out")
        print(f'deployment "{name}" successfully rolled out')

    def annotate(self) -> None:
        kind, _, name = self._given.target.partition("/")
        key, _, value = self._given.pair.partition("=")
        self._resource(kind).patch(
            name=name,
            namespace=self._given.namespace,
            body={"metadata": {"annotations": {key: value}}},
            content_type="application/merge-patch+json",
        )
        print(f"{self._given.target} annotated")

    def wait(self) -> None:
        kind, _, name = self._given.target.partition("/")
        wanted = self._given.condition.removeprefix("condition=").lower()

        def met() -> bool:
            conditions = (self._read(kind, name).get("status") or {}).get("conditions") or []
            return any(one["type"].lower() == wanted and one["status"] == "True" for one in conditions)

        _until(met, f"{self._given.target} does not meet {self._given.condition}")
        print(f"{self._given.target} condition met")

    def _read(self, kind: str, name: str | None) -> JSON:
        resource = self._resource(kind)
        namespace = self._given.namespace if resource.namespaced else None
        found: JSON = resource.get(name=name, namespace=namespace).to_dict()
        return found

    def _bodies(self) -> list[JSON]:
        where = self._given.filename
        text = sys.stdin.read() if where == "-" else Path(where).read_text()
        return [body for body in yaml.safe_load_all(text) if body]

    def _of(self, body: JSON) -> tuple[Any, str | None]:
        resource = self._client.resources.get(api_version=body["apiVersion"], kind=body["kind"])
        return resource, body["metadata"].get("namespace", self._given.namespace) if resource.namespaced else None

    def _resource(self, kind: str) -> Any:
        """By plural, singular or short name, as users type it."""
        for resource in self._client.resources.search():
            names = {resource.name, resource.singular_name, resource.kind.lower(), *(resource.short_names or [])}
            if kind in names and not resource.kind.endswith("List"):
                return resource
        raise SystemExit(f'error: the server doesn\'t have a resource type "{kind}"')


def _until(true: Callable[[], bool], problem: str) -> None:
    end, pause = time.monotonic() + _PATIENCE, threading.Event()
    while not true():
        if time.monotonic() > end:
            raise SystemExit(f"error: timed out: {problem}")
        pause.wait(0.1)


if __name__ == "__main__":
    sys.exit(main())
