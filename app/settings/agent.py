"""What `berth agent` is told."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import AliasChoices, Field, field_validator

from app.kube.names import check_dns_label, check_dns_subdomain
from app.settings.source import RoleSettings, load_role, not_empty
from app.tenancy.agent.options import CONFIG_MAP_NAME, AgentOptions
from app.tenancy.model import GATEWAY_NAME
from app.workloads.model import SYSTEM_NAMESPACE

_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+):(\d{1,5})")


class AgentSettings(RoleSettings):
    """Everything `berth agent` is told. Times are in seconds.

    `namespace` is where rules, UVS objects and mirrors are, and the Lease.
    """

    gateway: str = Field(default="", validate_default=True)
    gateway_name: str = GATEWAY_NAME
    gateway_ca: str = "ca.crt"
    tls_cert_file: str = "tls.crt"
    tls_private_key_file: str = "tls.key"
    tenant: str = ""
    namespace: str = Field(default=SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    configmap_name: str = CONFIG_MAP_NAME
    configmap_namespace: str = SYSTEM_NAMESPACE
    keep_finished: bool = False
    resync_seconds: float = Field(default=60.0, ge=1, allow_inf_nan=False)
    leader_elect: bool = True

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

    @field_validator("namespace", "configmap_namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        return check_dns_label(value)

    @field_validator("tenant")
    @classmethod
    def _tenant(cls, value: str) -> str:
        return check_dns_label(value) if value else value

    @field_validator("configmap_name", "gateway_name")
    @classmethod
    def _name(cls, value: str) -> str:
        return check_dns_subdomain(value)

    @field_validator("gateway_ca", "tls_cert_file", "tls_private_key_file")
    @classmethod
    def _some_file(cls, value: str) -> str:
        return not_empty(value)


def load(given: dict[str, object], *, environment: bool = True) -> AgentSettings:
    """The settings of an agent; see `load_role`. The gateway has to be named."""
    return load_role(AgentSettings, given, environment=environment)
