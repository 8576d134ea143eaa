"""Puts the reviews of AppWrappers together: configuration, rights, and the bound of Kueue's Workloads."""

from __future__ import annotations

from app.admission.parts import EXEMPT, Context, Parts
from app.appwrappers.admission.access import Access
from app.appwrappers.admission.checking import AppWrapperCheck
from app.appwrappers.admission.defaulting import Defaulting
from app.appwrappers.admission.entitlement import Entitlement
from app.appwrappers.config import OperatorConfig, parse_config
from app.appwrappers.model import MOST_POD_SETS
from app.appwrappers.settings import AdmissionSettings
from app.kube.configuration import Configuration, data_of
from app.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS
from app.wire import JSON

WORKLOADS = "workloads.kueue.x-k8s.io"


def parts_of(context: Context, settings: AdmissionSettings) -> Parts:
    """What mutates and what validates; both follow the ConfigMap."""
    caches, name, strict = context.caches, settings.appwrapper_config, settings.appwrapper_strict
    config_maps = caches.cache(CONFIG_MAPS, data_of, only=(context.namespace, name))
    configuration = Configuration(config_maps, name=name, parse=parse_config, usual=OperatorConfig(), logs=context.logs)
    definitions = caches.cache(CUSTOM_RESOURCE_DEFINITIONS, most_pod_sets, only=("", WORKLOADS))
    access = Access(lambda: caches.client)
    entitlement = Entitlement(access, strict=strict, controller=settings.appwrapper_controller)
    check = AppWrapperCheck(
        configuration,
        entitlement,
        strict=strict,
        most=lambda: definitions.get("", WORKLOADS) or MOST_POD_SETS,
        without_defaults=frozenset({EXEMPT, context.namespace}),
    )
    return Parts((Defaulting(configuration, access, strict=strict),), (check,), configuration.problems)


def most_pod_sets(definition: JSON) -> int:
    """The least that a served version of the definition allows; 0 where none says it."""
    found = []
    for version in definition["spec"]["versions"]:
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        for field in ("spec", "podSets"):
            schema = (schema.get("properties") or {}).get(field) or {}
        if version.get("served") and schema.get("maxItems"):
            found.append(int(schema["maxItems"]))
    return min(found, default=0)
