"""The settings of the networks wing, for the webhook and for `berth explain`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import field_validator

from app.kube.names import check_annotation_key
from app.networks.model import RESOURCE_NAME, Mode
from app.networks.switches import Switches
from app.settings.source import DnsLabel, Exclusion, Flag, RoleSettings

_INJECTION = "Injection"


class NetworksSettings(RoleSettings):
    """What is injected for the networks of a Pod."""

    exclusions: ClassVar[tuple[Exclusion, ...]] = (
        Exclusion("honor_resources", "existing_resources", "--honor-resources means add", second_value="skip"),
    )

    network_resource_name_keys: Annotated[
        str, Flag("Annotation keys on attachments that name a resource", _INJECTION)
    ] = RESOURCE_NAME
    existing_resources: Annotated[Mode, Flag("top-up, skip or add what Pods ask for", _INJECTION)] = "top-up"
    honor_resources: Annotated[bool, Flag("Same as --existing-resources=add", _INJECTION)] = False
    inject_hugepage_down_api: Annotated[
        bool,
        Flag("Publish hugepage requests and limits in /etc/podnetinfo", _INJECTION, names=("--injectHugepageDownApi",)),
    ] = False
    node_selector_conflict: Annotated[
        Literal["override", "deny"],
        Flag("override (with a warning) or deny a Pod whose own value differs", _INJECTION),
    ] = "override"
    default_network_namespace: Annotated[
        DnsLabel, Flag("Where default networks without a namespace are looked up", _INJECTION)
    ] = "kube-system"

    @property
    def resource_name_keys(self) -> tuple[str, ...]:
        """The annotation keys on attachments that name a resource, in the order given."""
        return tuple(key.strip() for key in self.network_resource_name_keys.split(","))

    @property
    def existing_mode(self) -> Mode:
        """`--honor-resources` is the old name of `--existing-resources=add`."""
        return "add" if self.honor_resources else self.existing_resources

    @property
    def networks_options(self) -> NetworksOptions:
        return NetworksOptions(self.existing_mode, self.node_selector_conflict, self.default_network_namespace)

    @property
    def initial_switches(self) -> Switches:
        """What is turned on without the ConfigMap of control switches."""
        # None leaves the choice between top-up and skip to the option.
        honor = True if self.existing_mode == "add" else None
        return Switches(hugepage_down_api=self.inject_hugepage_down_api, honor_existing=honor)

    @field_validator("network_resource_name_keys")
    @classmethod
    def _keys(cls, value: str) -> str:
        if not value.strip():
            raise ValueError("Input argument for resourceName cannot be empty.")
        for key in value.split(","):
            check_annotation_key(key.strip())
        return value


@dataclass(frozen=True, slots=True)
class NetworksOptions:
    """The settings of the wing; the control switches may override `existing_resources`."""

    existing_resources: Mode = "top-up"
    node_selector_conflict: Literal["override", "deny"] = "override"
    default_network_namespace: str = "kube-system"
