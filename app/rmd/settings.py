"""What RMD adds to the settings of roles."""

from __future__ import annotations

from typing import Annotated

from app.rmd.model import DAEMON_NAMESPACE
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
    ] = "berth-rmd-daemon-sets"
