"""The settings of the gateway's certificates in `berth certs keep`."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import field_validator, model_validator
from pydantic_settings import NoDecode

from app.certs.issuing import serving_names
from app.certs.settings import CertificatesSettings
from app.errors import UsageError
from app.kube.names import check_dns_label
from app.settings.flags import Flag
from app.settings.source import comma_list
from app.tenancy.authority.ensuring import SERVICE, AuthorityOptions

_GATEWAY = "Gateway"


class AuthoritySettings(CertificatesSettings):
    """Without `gateway` nothing is kept for the gateway."""

    gateway: Annotated[bool, Flag("Keep the gateway's certificates too", _GATEWAY)] = False
    gateway_service: Annotated[str, Flag("Its Service", _GATEWAY)] = SERVICE
    gateway_dns: Annotated[
        tuple[str, ...], NoDecode, Flag("One more name of the gateway; repeatable", _GATEWAY, repeatable=True)
    ] = ()
    gateway_address: Annotated[
        tuple[str, ...], NoDecode, Flag("One more address of the gateway; repeatable", _GATEWAY, repeatable=True)
    ] = ()

    @property
    def authority_options(self) -> AuthorityOptions | None:
        """What is kept for the gateway, if anything."""
        if not self.gateway:
            return None
        return AuthorityOptions(
            namespace=self.namespace,
            service=self.gateway_service,
            dns=self.gateway_dns,
            addresses=self.gateway_address,
            days=self.days,
            authority_days=self.ca_days,
        )

    @field_validator("gateway_dns", "gateway_address", mode="before")
    @classmethod
    def _lists(cls, value: object) -> object:
        return comma_list(value)

    @field_validator("gateway_service")
    @classmethod
    def _service(cls, value: str) -> str:
        return check_dns_label(value)

    @field_validator("gateway_dns")
    @classmethod
    def _dns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(value, dns=value)

    @field_validator("gateway_address")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return _checked(value, addresses=value)

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.webhook_service and not self.gateway:
            raise ValueError("nothing to keep: want --webhook-service, --gateway or both")
        return self


def _checked(value: tuple[str, ...], *, dns: tuple[str, ...] = (), addresses: tuple[str, ...] = ()) -> tuple[str, ...]:
    try:
        serving_names(dns=dns, addresses=addresses)
    except UsageError as error:
        raise ValueError(str(error)) from error
    return value
