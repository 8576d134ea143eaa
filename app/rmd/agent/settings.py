"""The settings of `berth rmd-node`."""

from __future__ import annotations

from typing import Annotated

from pydantic import AliasChoices, Field

from app.rmd.settings import PANEL, DaemonSettings
from app.settings.source import DnsSubdomain, Flag, NotEmpty

_NODE = "Node"


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
