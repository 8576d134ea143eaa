"""What RMD adds to the settings of roles."""

from __future__ import annotations

from typing import Annotated, Literal

from app.rmd.model import DAEMON_NAMESPACE, TEMPLATES_NAME
from app.settings.source import DnsLabel, DnsSubdomain, Flag, RoleSettings

PANEL = "RMD"


class DaemonSettings(RoleSettings):
    """Where daemons are."""

    rmd_namespace: Annotated[DnsLabel, Flag("Namespace of the daemons, the RmdConfig and the RmdNodeStates", PANEL)] = (
        DAEMON_NAMESPACE
    )


class RmdSettings(DaemonSettings):
    """How the controller shows itself to daemons, and how it installs them."""

    rmd_client_certificate: Annotated[
        DnsSubdomain,
        Flag("Secret there with tls.crt, tls.key and ca.crt: the client certificate for daemons with TLS", PANEL),
    ] = "berth-rmd-client"
    rmd_daemon_sets: Annotated[
        DnsSubdomain,
        Flag("ConfigMap with the DaemonSets of an RmdConfig, in the role's namespace", PANEL),
    ] = TEMPLATES_NAME


class AdmissionSettings(RoleSettings):
    """Whether the webhook looks at what RMD is asked for, and what serves it."""

    rmd_backend: Annotated[
        Literal["off", "daemon", "runtime", "auto"],
        Flag(
            "What serves the cache ways and the bandwidth that Pods ask for: daemons of RMD, RDT classes of the "
            "container runtime, or daemons where a node announces intel.com/l3_cache_ways and classes elsewhere",
            PANEL,
        ),
    ] = "off"
    rmd_unreserved: Annotated[
        Literal["deny", "warn"],
        Flag("What to do with a Pod that asks for cache ways that no daemon can ever reserve", PANEL),
    ] = "deny"
    rmd_classes: Annotated[
        DnsSubdomain, Flag("ConfigMap with the RDT classes of the container runtime, in the role's namespace", PANEL)
    ] = "berth-rmd-classes"
