"""The settings of `berth agent`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import AliasChoices, Field, field_validator

from app.kube.names import check_dns_label
from app.settings.flags import CLUSTER, Flag
from app.settings.source import DnsLabel, DnsSubdomain, NotEmpty, RoleSettings
from app.tenancy.agent.options import CONFIG_MAP_NAME, AgentOptions
from app.tenancy.model import GATEWAY_NAME
from app.workloads.model import SYSTEM_NAMESPACE

_GATEWAY, _WORK = "Gateway", "Work"
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")


class AgentSettings(RoleSettings):
    """The settings of `berth agent`. Times are in seconds.

    `namespace` is where rules, UVS objects and mirrors are, and the Lease.
    """

    gateway: Annotated[str, Flag("HOST:PORT of the gateway (required)", _GATEWAY)] = Field("", validate_default=True)
    gateway_name: Annotated[DnsSubdomain, Flag("Name in its certificate", _GATEWAY)] = GATEWAY_NAME
    gateway_ca: Annotated[NotEmpty, Flag("CA of its certificate, PEM", _GATEWAY)] = "ca.crt"
    tls_cert_file: Annotated[NotEmpty, Flag("The tenant's certificate, PEM", _GATEWAY)] = "tls.crt"
    tls_private_key_file: Annotated[NotEmpty, Flag("Its private key, PEM", _GATEWAY)] = "tls.key"
    tenant: Annotated[str, Flag("The tenant's name, to be compared with the certificate's", _GATEWAY)] = ""
    namespace: Annotated[
        DnsLabel,
        Flag(
            "Namespace of rules, UVS objects, mirrors and the Lease",
            CLUSTER,
            default=f"$NAMESPACE or {SYSTEM_NAMESPACE}",
        ),
    ] = Field(SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    configmap_name: Annotated[DnsSubdomain, Flag("ConfigMap that names the namespaces to watch", _WORK)] = (
        CONFIG_MAP_NAME
    )
    configmap_namespace: Annotated[DnsLabel, Flag("Its namespace", _WORK)] = SYSTEM_NAMESPACE
    keep_finished: Annotated[bool, Flag("Pods that have finished keep their companions", _WORK)] = False
    resync_seconds: Annotated[float, Flag("How often everything is sent again", _WORK)] = Field(
        60.0, ge=1, allow_inf_nan=False
    )
    leader_elect: Annotated[bool, Flag("Work only while holding the Lease", _WORK)] = True

    @property
    def options(self) -> AgentOptions:
        """What the agent itself is told."""
        return AgentOptions(
            gateway=self.gateway,
            ca_file=Path(self.gateway_ca),
            cert_file=Path(self.tls_cert_file),
            key_file=Path(self.tls_private_key_file),
            server_name=self.gateway_name,
            tenant=self.tenant,
            namespace=self.namespace,
            config_map=self.configmap_name,
            config_map_namespace=self.configmap_namespace,
            keep_finished=self.keep_finished,
            resync=self.resync_seconds,
        )

    @field_validator("gateway")
    @classmethod
    def _address(cls, value: str) -> str:
        found = _ADDRESS.fullmatch(value)
        if found is None or not 0 < int(found[1]) < 65536:
            raise ValueError("want HOST:PORT of the gateway")
        return value

    @field_validator("tenant")
    @classmethod
    def _tenant(cls, value: str) -> str:
        return check_dns_label(value) if value else value
