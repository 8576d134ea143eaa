"""Puts injection and checks of claims together: what is read of the cluster, and who reads it."""

from __future__ import annotations

from app.admission.parts import EXEMPT, Context, Parts
from app.claims.definitions import DeviceClass, stored_class
from app.claims.injection.checking import DefinitionCheck, DoubleAllocationCheck
from app.claims.injection.claimed import ClaimedResources, OtherNames
from app.claims.injection.injector import ClaimsInjector
from app.claims.injection.sources import Sources
from app.claims.injection.templates import TemplateInjector
from app.claims.known import KnownDefinitions
from app.claims.requests import claim_requests, template_requests
from app.claims.settings import AdmissionSettings
from app.kube.configuration import data_of
from app.kube.lookup import Lookup
from app.kube.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    NETWORK_ATTACHMENTS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
)
from app.networks.model import projection
from app.networks.settings import NetworksSettings
from app.settings.source import settings_as

_CLAIMS = "spec.resourceClaims"


def injection(context: Context, settings: AdmissionSettings) -> Parts:
    caches, name = context.caches, settings.claim_templates
    classes = caches.cache(DEVICE_CLASSES, stored_class)
    class_lookup: Lookup[DeviceClass] = Lookup(
        DEVICE_CLASSES, classes, stored_class, client=lambda: caches.client, called="device class", field=_CLAIMS
    )
    config_maps = caches.cache(CONFIG_MAPS, data_of, only=(context.namespace, name))
    known = KnownDefinitions(config_maps, classes, name=name, logs=context.logs)
    sources = Sources(
        known,
        caches.lookup(RESOURCE_CLAIM_TEMPLATES, template_requests, called="resource claim template", field=_CLAIMS),
        caches.lookup(RESOURCE_CLAIMS, claim_requests, called="resource claim", field=_CLAIMS, volatile=True),
    )
    networks = settings_as(context.settings, NetworksSettings)
    attachments = caches.lookup(
        NETWORK_ATTACHMENTS,
        projection(networks.resource_name_keys, claims=True),
        called="network attachment definition",
        field="metadata.annotations",
    )
    injector = ClaimsInjector(attachments, sources, home=networks.default_network_namespace)
    context.pod_injectors.append(injector)
    context.claimed.append(ClaimedResources(sources, class_lookup).of)
    context.named.append(OtherNames(class_lookup).of)
    checks = (
        DoubleAllocationCheck(sources, class_lookup, exempt=frozenset({EXEMPT, context.namespace})),
        DefinitionCheck(namespace=context.namespace, name=name),
    )
    return Parts((injector, TemplateInjector(context.pod_injectors)), checks, known.problems)
