"""What `berth certs keep` is told."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AliasChoices, Field, field_validator, model_validator
from pydantic_settings import NoDecode

from app.certs.holdings import AUTHORITY_DAYS, DAYS
from app.certs.issuing import serving_names
from app.certs.webhooks import WebhookOptions
from app.errors import UsageError
from app.kube.names import check_dns_label, check_dns_subdomain
from app.permissions import WEBHOOK_SECRET
from app.settings.source import RoleSettings, comma_list, load_role
from app.tenancy.authority.ensuring import SERVICE, AuthorityOptions
from app.workloads.model import SYSTEM_NAMESPACE

_LONGEST = 36_500
"""Days; more than a certificate's dates can say would be a mistake anyway."""


class CertificatesSettings(RoleSettings):
    """Everything `berth certs keep` is told. Times are in seconds, lives of certificates in days.

    `namespace` is where the Secrets and the Services are. Without a `webhook_service` nothing is kept for a webhook.
    """

    namespace: str = Field(default=SYSTEM_NAMESPACE, validation_alias=AliasChoices("BERTH_NAMESPACE", "NAMESPACE"))
    webhook_service: str = "berth-webhook"
    webhook_secret: str = WEBHOOK_SECRET
    configuration: Annotated[tuple[str, ...], NoDecode] = ("berth",)
    gateway: bool = False
    gateway_service: str = SERVICE
    gateway_dns: Annotated[tuple[str, ...], NoDecode] = ()
    gateway_address: Annotated[tuple[str, ...], NoDecode] = ()
    days: int = Field(default=DAYS, ge=1, le=_LONGEST)
    ca_days: int = Field(default=AUTHORITY_DAYS, ge=1, le=_LONGEST)
    resync_seconds: float = Field(default=60.0, ge=1, allow_inf_nan=False)

    @property
    def webhook_options(self) -> WebhookOptions | None:
        """What is kept for the webhook, if anything."""
        if not self.webhook_service:
            return None
        return WebhookOptions(
            namespace=self.namespace,
            service=self.webhook_service,
            secret=self.webhook_secret,
            configurations=self.configuration,
            days=self.days,
            authority_days=self.ca_days,
        )

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

    @field_validator("configuration", "gateway_dns", "gateway_address", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        return comma_list(value)

    @field_validator("namespace", "gateway_service")
    @classmethod
    def _label(cls, value: str) -> str:
        return check_dns_label(value)

    @field_validator("webhook_service")
    @classmethod
    def _label_or_nothing(cls, value: str) -> str:
        return check_dns_label(value) if value else value

    @field_validator("webhook_secret")
    @classmethod
    def _name(cls, value: str) -> str:
        return check_dns_subdomain(value)

    @field_validator("configuration")
    @classmethod
    def _configurations(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("want at least one name of a webhook configuration")
        return tuple(dict.fromkeys(check_dns_subdomain(name) for name in value))

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


def load(given: dict[str, object], *, environment: bool = True) -> CertificatesSettings:
    """The settings of a keeper of certificates; see `load_role`."""
    return load_role(CertificatesSettings, given, environment=environment)
