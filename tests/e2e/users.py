"""Whoever types: kubectl, or the official Python client, behind one interface."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes

from tests.support.waiting import PATIENCE, Refused, wait_until

JSON = dict[str, Any]


class Kubectl:
    """The user's own tool."""

    name = "kubectl"

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        return self.outputs(*arguments, stdin=stdin)[0]

    def outputs(self, *arguments: str, stdin: str | None = None) -> tuple[str, str]:
        """What it prints, and the warnings and the like beside it."""
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self._kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(done.stderr.strip())
        return done.stdout, done.stderr

    def create(self, body: JSON, *, dry_run: bool = False) -> JSON:
        extra = ["--dry-run=server"] if dry_run else []
        return json.loads(self.run("create", "-o", "json", *extra, "-f", "-", stdin=json.dumps(body)))

    def get(self, kind: str, name: str, namespace: str = "default") -> JSON:
        return json.loads(self.run("get", kind, name, "-n", namespace, "-o", "json"))

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        self.run("delete", kind, name, "-n", namespace, "--ignore-not-found", "--wait")

    def update(self, body: JSON) -> JSON:
        return json.loads(self.run("replace", "-o", "json", "-f", "-", stdin=json.dumps(body)))


class PythonClient:
    """The official client, through its dynamic interface."""

    name = "python"

    def __init__(self, kubeconfig: Path) -> None:
        api = kubernetes.config.new_client_from_config(str(kubeconfig))
        self._client = kubernetes.dynamic.DynamicClient(api)

    def _resource(self, kind: str, api_version: str | None = None) -> Any:
        versions = {"net-attach-def": ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"), "pod": ("v1", "Pod")}
        versions |= {"configmap": ("v1", "ConfigMap"), "node": ("v1", "Node"), "namespace": ("v1", "Namespace")}
        versions["deployment"] = ("apps/v1", "Deployment")
        version, name = (api_version, kind) if api_version else versions[kind]
        return self._client.resources.get(api_version=version, kind=name)

    def _call(self, action: Callable[[], Any]) -> JSON:
        try:
            return action().to_dict()
        except kubernetes.client.exceptions.ApiException as error:
            raise Refused(json.loads(error.body)["message"] if error.body else str(error)) from error

    def create(self, body: JSON, *, dry_run: bool = False) -> JSON:
        extra = {"dry_run": "All"} if dry_run else {}
        resource = self._resource(body["kind"], body["apiVersion"])
        namespace = body["metadata"].get("namespace", "default") if resource.namespaced else None
        return self._call(lambda: resource.create(body=body, namespace=namespace, **extra))

    def get(self, kind: str, name: str, namespace: str = "default") -> JSON:
        resource = self._resource(kind)
        return self._call(lambda: resource.get(name=name, namespace=namespace if resource.namespaced else None))

    def delete(self, kind: str, name: str, namespace: str = "default") -> None:
        resource = self._resource(kind)
        with contextlib.suppress(Refused):
            self._call(lambda: resource.delete(name=name, namespace=namespace if resource.namespaced else None))
            wait_until(lambda: not self._exists(kind, name, namespace))

    def mark_deleted(self, kind: str, name: str, namespace: str) -> None:
        """Delete an object that a finalizer keeps."""
        self._call(lambda: self._resource(kind).delete(name=name, namespace=namespace))

    def update(self, body: JSON) -> JSON:
        resource = self._resource(body["kind"], body["apiVersion"])
        return self._call(lambda: resource.replace(body=body, namespace=body["metadata"].get("namespace")))

    def _exists(self, kind: str, name: str, namespace: str) -> bool:
        try:
            self.get(kind, name, namespace)
        except Refused:
            return False
        return True


User = Kubectl | PythonClient
