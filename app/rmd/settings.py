"""What RMD adds to the settings of roles, and the settings of `berth rmd-node`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from app.rmd.model import DAEMON_NAMESPACE, TEMPLATES_NAME
from app.settings.source import DnsLabel, DnsSubdomain, Flag, NotEmpty, RoleSettings

PANEL = "RMD"
_NODE = "Node"


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
            "container runtime, or daemons if a node announces intel.com/l3_cache_ways and classes elsewhere",
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


class NodeSettings(DaemonSettings):
    """`kubelet_folder` has the folders `pod-resources` and `device-plugins` with the sockets of kubelet."""

    node_name: Annotated[
        DnsSubdomain, Flag("Name of the node that it runs on (required)", _NODE, default="$NODE_NAME")
    ] = Field("", validate_default=True, validation_alias=AliasChoices("BERTH_NODE_NAME", "NODE_NAME"))
    kubelet_folder: Annotated[NotEmpty, Flag("Folder with the sockets of kubelet", _NODE)] = "/var/lib/kubelet"
    announce_cache_ways: Annotated[bool, Flag("Announce intel.com/l3_cache_ways to kubelet", _NODE)] = True
    daemon_certificate: Annotated[
        NotEmpty, Flag("Folder with tls.crt, tls.key and ca.crt: the client certificate for a daemon with TLS", PANEL)
    ] = "/etc/berth/rmd-client"
    resync_seconds: Annotated[float, Flag("How often every Pod is looked at again", _NODE)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )
