"""Puts the reviews of RMD together: what serves Pods decides what is read of the cluster."""

from __future__ import annotations

from app.admission.chain import Check
from app.admission.parts import EXEMPT, Context, Parts
from app.kube.configuration import Configuration, data_of
from app.kube.resources import CONFIG_MAPS, NODES
from app.kube.store import Store
from app.rmd.admission.hosts import Hosts, stored_host
from app.rmd.admission.injector import RdtClassInjector
from app.rmd.admission.overlaps import BY_NODE, indexed_nodes, stored_held
from app.rmd.admission.pods import PodCheck
from app.rmd.admission.workloads import RmdObjectCheck
from app.rmd.classes import Classes
from app.rmd.mapping import parse_classes
from app.rmd.model import RMD_WORKLOADS
from app.rmd.settings import AdmissionSettings


def parts_of(context: Context, settings: AdmissionSettings) -> Parts:
    """What the backend decides, which is not `off`.

    RDT classes need their ConfigMap, daemons the nodes and the RmdWorkloads, `auto` all of it.
    """
    backend, caches = settings.rmd_backend, context.caches
    hosts = Hosts(Store(stored_host) if backend == "runtime" else caches.cache(NODES, stored_host))

    def runtime() -> bool:
        return backend == "runtime" or (backend == "auto" and not hosts.most_ways)

    pods = PodCheck(
        hosts,
        runtime=runtime,
        warns=settings.rmd_unreserved == "warn",
        exempt=frozenset({EXEMPT, context.namespace}),
    )
    checks: tuple[Check, ...] = (pods,)
    if backend != "runtime":
        indices = {BY_NODE: indexed_nodes}
        held = caches.cache(RMD_WORKLOADS, stored_held, indices=indices, volatile=True)
        checks = (pods, RmdObjectCheck(hosts, held))
    if backend == "daemon":
        return Parts(checks=checks)
    config_maps = caches.cache(CONFIG_MAPS, data_of, only=(context.namespace, settings.rmd_classes))
    name = settings.rmd_classes
    configuration = Configuration(config_maps, name=name, parse=parse_classes, usual=Classes(), logs=context.logs)
    return Parts((RdtClassInjector(configuration, runtime=runtime),), checks, configuration.problems)
