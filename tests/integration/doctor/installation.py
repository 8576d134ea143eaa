"""Berth as the chart installs it, in a cluster of the sandbox: the objects, and a webhook that really answers."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from app.certs.folder import make, write_files
from app.certs.issuing import serving_names
from app.devtools.clusters.parts import until_ready
from app.doctor.cluster import Cluster
from app.doctor.examining import CHECKS, examine, pick
from app.doctor.model import Finding, Severity
from app.kube.resources import (
    DEPLOYMENTS,
    LEASES,
    MUTATING_WEBHOOKS,
    PODS,
    SECRETS,
    SERVICES,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.kube.transport import connect
from app.registration import Terms, objects_to, pods_to
from app.registry import settings_of
from app.runtime.serving import Serving
from app.serving.listener import bind
from tests.integration.doctor.command_lines import checked
from tests.integration.doctor.patient import HOME, Patient
from tests.support.paths import ROOT
from tests.support.waiting import PATIENCE

WebhookSettings = settings_of("webhook")

JSON = dict[str, Any]
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
IMAGE = "berth:0.1.0"
OURS = {"app.kubernetes.io/managed-by": "berth"}
"""On a Secret that Berth made, and may renew."""
OF_HELM = ("app.kubernetes.io/managed-by", "helm.sh/chart")
SERVICE = "berth-webhook"
SECRET = "berth-webhook-tls"
OWN = ("clock", "definitions", "deployments", "leases", "registrations", "certificate", "reachability")
"""The checks that are tested here; the others have their own patients."""


def labels_of(role: str) -> dict[str, str]:
    return {
        "app.kubernetes.io/name": "berth",
        "app.kubernetes.io/instance": "berth",
        "app.kubernetes.io/component": role,
        "app.kubernetes.io/part-of": "berth",
        "app.kubernetes.io/managed-by": "Helm",
        "helm.sh/chart": "berth-0.1.0",
    }


def selector_of(role: str) -> dict[str, str]:
    return {"app.kubernetes.io/instance": "berth", "app.kubernetes.io/component": role}


class Place:
    """An installation with its webhook; `files` are the certificates that are served."""

    def __init__(self, patient: Patient, folder: Path) -> None:
        self.patient = patient
        self.client = patient.client
        self.folder = folder
        self.files: dict[str, bytes] = {}

    @property
    def address(self) -> tuple[str, int]:
        """Where the webhook listens."""
        return self.patient.cluster.services[HOME, SERVICE, 443]

    @asynccontextmanager
    async def serving(self, files: dict[str, bytes]) -> AsyncIterator[None]:
        """Within, the webhook serves this certificate; after, its own again."""
        try:
            await self._serve(files)
            yield
        finally:
            await self._serve(self.files)

    async def _serve(self, files: dict[str, bytes]) -> None:
        """The webhook looks at its files now and then, and tells nobody: it is asked until it has them."""
        write_files(self.folder / "tls", files)
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(ssl.get_server_certificate, self.address) not in files["tls.crt"].decode():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def examine(self, *only: str, kubeconfig: Path | None = None, **options: Any) -> list[Finding]:
        """A whole examination by a doctor who has not been here before."""
        later = self.patient.later
        options = {"namespace": HOME, "now": lambda: datetime.now(UTC) + later} | options
        async with await connect(kubeconfig=str(kubeconfig or self.patient.kubeconfig), deadline=PATIENCE) as client:
            cluster = Cluster(client, **options)
            try:
                return checked(await examine(cluster, pick(CHECKS, only or OWN)))
            finally:
                await cluster.close()

    async def complaints(self, *only: str, **options: Any) -> list[Finding]:
        return [one for one in await self.examine(*only, **options) if one.severity > Severity.info]

    async def only_complaint(self, *only: str, **options: Any) -> Finding:
        (finding,) = await self.complaints(*only, **options)
        return finding

    async def type(self, command: str) -> None:
        """Run the command of a finding as a user would."""
        await self.patient.run(command, cwd=ROOT)

    async def mends(self, finding: Finding) -> None:
        """Its command, run, makes the finding go away, and nothing else go wrong."""
        await self.type(finding.command)
        assert await self.complaints() == []

    async def change(self, resource: Resource, name: str, *operations: JSON) -> None:
        namespace = HOME if resource.namespaced else None
        await self.client.patch(resource, name, list(operations), patch_type="json", namespace=namespace)

    async def register(self, field: str, value: object, *, resource: Resource = MUTATING_WEBHOOKS) -> None:
        """Set a field of the first webhook."""
        await self.change(resource, "berth", {"op": "add", "path": f"/webhooks/0/{field}", "value": value})

    async def store(self, files: dict[str, bytes], *, name: str = SECRET) -> None:
        data = {key: base64.b64encode(value).decode() for key, value in files.items()}
        await self.client.apply(
            SECRETS,
            name,
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "labels": OURS}, "data": data},
            namespace=HOME,
        )

    async def deploy(self, role: str, *arguments: str, replicas: int = 2, **pod: Any) -> None:
        """A Deployment whose replicas are all ready."""
        container = {
            "name": role,
            "image": IMAGE,
            "args": [role, *arguments],
            "env": [{"name": "NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}],
        }
        template = {
            "metadata": {"labels": selector_of(role)},
            "spec": {"serviceAccountName": f"berth-{role}", "containers": [container], **pod},
        }
        name = f"berth-{role}"
        spec = {"replicas": replicas, "selector": {"matchLabels": selector_of(role)}, "template": template}
        await self.patient.create(DEPLOYMENTS, name, namespace=HOME, metadata={"labels": labels_of(role)}, spec=spec)
        await self.report(role, replicas=replicas, ready=replicas)

    async def report(self, role: str, *, replicas: int, ready: int) -> None:
        status = {"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": ready}
        await self.patient.report(DEPLOYMENTS, f"berth-{role}", status, namespace=HOME)

    async def lead(
        self, name: str, *, ago: timedelta = timedelta(), holder: str = "berth-controller-1_ab", good_for: int = 3600
    ) -> None:
        """Nobody renews it: by default it is good for longer than a test takes on a slow machine."""
        renewed = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": good_for, "renewTime": renewed, "leaseTransitions": 1}
        body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": {"name": name}, "spec": spec}
        await self.client.apply(LEASES, name, body, namespace=HOME)

    async def pod(self, name: str, role: str, **status: Any) -> None:
        await self.patient.pod(name, namespace=HOME, labels=selector_of(role), spec={"nodeName": "node-1"})
        await self.patient.report(PODS, name, status, namespace=HOME)


@asynccontextmanager
async def a_place(patient: Patient, folder: Path) -> AsyncIterator[Place]:
    """Webhook, controller and the keeper of certificates, all well."""
    place = Place(patient, folder)
    names = serving_names(service=SERVICE, namespace=HOME)
    place.files = make({}, names=names, now=datetime.now(UTC), days=90)
    write_files(folder / "tls", place.files)
    async with a_webhook(patient, folder / "tls", service=(HOME, SERVICE)):
        await _objects(place)
        yield place


@asynccontextmanager
async def a_webhook(patient: Patient, certificates: Path, *, service: tuple[str, str]) -> AsyncIterator[None]:
    """One that answers where the API server takes the Service to be."""
    listener = bind("127.0.0.1", 0)
    settings = WebhookSettings.load(
        {
            "kubeconfig": str(patient.kubeconfig),
            "insecure": True,
            "tls_cert_file": str(certificates / "tls.crt"),
            "tls_private_key_file": str(certificates / "tls.key"),
            "drain_seconds": 0.0,
            "certificate_poll_seconds": 0.05,
            "log_level": "error",
            "events": False,
        },
        environment=False,
    )
    serving, stop = Serving(settings, listener=listener), asyncio.Event()
    patient.cluster.services[*service, 443] = listener.getsockname()
    running = asyncio.create_task(serving.run(stop))
    try:
        await until_ready(serving.waiting, "the webhook")
        yield
    finally:
        stop.set()
        await running


async def _objects(place: Place) -> None:
    patient = place.patient
    await place.store(place.files)
    volume = {"name": "tls", "secret": {"secretName": SECRET}}
    await place.deploy("webhook", volumes=[volume])
    await place.deploy("controller")
    await place.deploy("certificates")
    await place.lead("berth-controller")
    ports = [{"name": "https", "port": 443, "targetPort": 8443}]
    await patient.create(SERVICES, SERVICE, namespace=HOME, spec={"ports": ports, "selector": selector_of("webhook")})
    subsets = [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "https", "port": 8443}]}]
    await patient.create(ENDPOINTS, SERVICE, namespace=HOME, subsets=subsets)
    bundle = base64.b64encode(place.files["ca.crt"]).decode()
    terms = Terms(exempt=("kube-system", HOME))
    for resource, build, webhook, path in (
        (MUTATING_WEBHOOKS, pods_to, "pods.berth.dev", "/mutate"),
        (VALIDATING_WEBHOOKS, objects_to, "attachments.berth.dev", "/validate"),
    ):
        calling = {"service": {"namespace": HOME, "name": SERVICE, "path": path}, "caBundle": bundle}
        body = build(calling, name="berth", webhook=webhook, terms=terms)
        # Made by hand beside the release: what Helm owns, `test_chart_installation` has from Helm itself.
        body["metadata"]["labels"] = {k: v for k, v in labels_of("webhook").items() if k not in OF_HELM}
        await place.client.create(resource, body)
