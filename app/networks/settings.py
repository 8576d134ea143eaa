"""The settings of the networks wing, for the webhook and for `berth explain`, and the control switches.

The switches are what the ConfigMap `nri-control-switches` turns on while the webhook runs. A text that reads decides
alone, so that replicas agree and a restart changes nothing; a deleted ConfigMap puts everything back to the initial
values. A typing error in it must not take networks away from new Pods: while the injections cannot be read, those
before stay in force, and a problem says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Literal

import msgspec
import structlog
from pydantic import field_validator

from app.errors import Transient
from app.kube.names import check_annotation_key
from app.kube.store import Store
from app.networks.model import RESOURCE_NAME, Mode
from app.networks.userdefined import Injection, Merged, matching, merge, parse_entries
from app.settings.source import DnsLabel, Exclusion, Flag, RoleSettings
from app.text import quoted
from app.wire import JSON, decode_json

CONFIG_MAP_NAME = "nri-control-switches"
CONFIG_MAP_KEY = "config.json"
_FEATURES = "features"
_INJECTIONS = "user-defined-injections"
_FEATURE_FIELDS = {"enableHugePageDownApi": "hugepage_down_api", "enableHonorExistingResources": "honor_existing"}
_LOGGED = 20
"""Problems of one ConfigMap that are logged one by one."""
_log = structlog.get_logger(__name__)
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
    default_network_namespace: Annotated[DnsLabel, Flag("Namespace of default networks that name none", _INJECTION)] = (
        "kube-system"
    )

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


@dataclass(frozen=True, slots=True)
class Switches:
    """What is turned on. `honor_existing` None leaves the mode to the options; True means `add`, False not `add`.

    `problems` has a line for each part of the ConfigMap that was not used.
    """

    hugepage_down_api: bool = False
    honor_existing: bool | None = None
    injections: tuple[Injection, ...] = ()
    problems: list[str] = field(default_factory=list)

    def merged(self, annotations: Mapping[str, str], labels: Mapping[str, str], *, namespace: str) -> Merged:
        """The annotations of a Pod with these labels after the injections; raises Denied as `merge` does."""
        entries = matching(self.injections, labels) if self.injections else ()
        return merge(annotations, entries, namespace=namespace)


def mode_in_force(configured: Mode, switches: Switches) -> Mode:
    """The ConfigMap decides about `add` where it speaks; without `add` the option's other value applies."""
    if switches.honor_existing is None:
        return configured
    if switches.honor_existing:
        return "add"
    return "top-up" if configured == "add" else configured


def parse_switches(text: str | None, *, initial: Switches, previous: Switches | None = None) -> Switches:
    """The switches for the text of `config.json`; None where the ConfigMap or the key is missing.

    What is absent, null or unusable has its initial value: features each for itself (`null` is false, and any value
    that is not a bool resets all of them), entries one by one. Injections that cannot be read as a whole are those of
    `previous`.
    """
    fresh = replace(initial, injections=(), problems=[])
    kept = previous.injections if previous is not None else ()
    if text is None:
        return fresh
    try:
        config = decode_json(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return replace(fresh, injections=kept, problems=[f"{CONFIG_MAP_KEY} is not valid JSON: {error}"])
    if not isinstance(config, dict):
        return replace(fresh, injections=kept, problems=[f"{CONFIG_MAP_KEY} is not a JSON object"])
    features, problems = _features(config)
    injections, skipped = _injections(config, kept)
    return replace(fresh, **features, injections=injections, problems=problems + skipped)


def _features(config: JSON) -> tuple[dict[str, bool], list[str]]:
    features = config.get(_FEATURES)
    if features is None:
        return {}, []
    if not isinstance(features, dict):
        return {}, [f"{_FEATURES} is not an object: the initial values apply"]
    for key, value in sorted(features.items()):
        if value is not None and not isinstance(value, bool):
            return {}, [
                f"{_FEATURES}.{quoted(key)} is neither true nor false: the initial values of all features apply"
            ]
    return {name: bool(features[key]) for key, name in _FEATURE_FIELDS.items() if key in features}, []


def _injections(config: JSON, kept: tuple[Injection, ...]) -> tuple[tuple[Injection, ...], list[str]]:
    entries = config.get(_INJECTIONS)
    if entries is None:
        return (), []
    if not isinstance(entries, dict):
        return kept, [f"{_INJECTIONS} is not an object: those that were read before apply"]
    return parse_entries(entries)


def text_of(config_map: JSON) -> str | None:
    """What the cache keeps of the ConfigMap."""
    data = config_map.get("data")
    text = data.get(CONFIG_MAP_KEY) if isinstance(data, dict) else None
    return text if isinstance(text, str) else None


class ControlSwitches:
    """Follows the ConfigMap in `namespace`, and `logs` what it says. `initial` are the switches without it."""

    def __init__(self, store: Store[str], *, namespace: str, initial: Switches, logs: bool = False) -> None:
        self._store, self._namespace, self._initial, self._logs = store, namespace, initial, logs
        self._switches = initial
        self._loaded = False
        store.subscribe(lambda *_: self._reload())

    def __call__(self) -> Switches:
        """The switches in force; raises Transient before the ConfigMap (or its absence) is known."""
        if not self._loaded:
            if not self._store.synced:
                raise Transient(f"ConfigMap {CONFIG_MAP_NAME} is not loaded yet")
            self._loaded = True
        return self._switches

    def problems(self) -> list[str]:
        """What of the ConfigMap is not used."""
        return [f"ConfigMap {CONFIG_MAP_NAME}: {problem}" for problem in self._switches.problems]

    def _reload(self) -> None:
        text = self._store.get(self._namespace, CONFIG_MAP_NAME)
        self._switches = parse_switches(text, initial=self._initial, previous=self._switches)
        if self._logs:
            self._log_all()

    def _log_all(self) -> None:
        problems = self._switches.problems
        for problem in problems[:_LOGGED]:
            _log.warning("control switches", config_map=CONFIG_MAP_NAME, problem=problem)
        if len(problems) > _LOGGED:
            more = f"and {len(problems) - _LOGGED} more"
            _log.warning("control switches", config_map=CONFIG_MAP_NAME, problem=more)
        _log.info(
            "control switches loaded",
            hugepage_down_api=self._switches.hugepage_down_api,
            honor_existing=self._switches.honor_existing,
            injections=len(self._switches.injections),
        )
