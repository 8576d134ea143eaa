"""The patient with RMD: the controller writes the statuses, after what stand-in daemons say over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from app.definitions import read_definitions
from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS
from app.rmd.permissions import KINDS
from tests.integration.doctor.patient import HOME, JSON, Patient
from tests.support.rmd_cluster import RmdCluster


async def with_rmd(patient: Patient) -> RmdCluster:
    """With the definitions, and a Deployment of Berth's controller `rmd`."""
    for body in read_definitions(KINDS):
        await patient.client.create(CUSTOM_RESOURCE_DEFINITIONS, body)
    await deploy(patient, "berth-controller", HOME, "controller", "--controllers=rmd")
    return RmdCluster(patient.cluster, patient.kubeconfig, patient.client)


async def deploy(patient: Patient, name: str, namespace: str, *arguments: str) -> None:
    """A Deployment with two ready replicas."""
    container = {"name": "c", "image": "image", "args": list(arguments)}
    pod = {"containers": [container], "serviceAccountName": name}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    await patient.create(DEPLOYMENTS, name, namespace=namespace, spec=spec)
    await patient.report(DEPLOYMENTS, name, {"readyReplicas": 2}, namespace=namespace)


async def change(patient: Patient, name: str, namespace: str, spec: JSON) -> None:
    await patient.client.patch(DEPLOYMENTS, name, {"spec": spec}, patch_type="merge", namespace=namespace)


@asynccontextmanager
async def acting(rmd: RmdCluster, **options: Any) -> AsyncIterator[None]:
    """The controller at work, which compares daemons often."""
    async with rmd.controller(**({"interval": 0.1, "timeout": 1.0} | options)):
        yield
