"""The control switches: what the ConfigMap `nri-control-switches` turns on while the webhook runs. Pure.

A text that reads decides alone, so that replicas agree and a restart changes nothing; a deleted ConfigMap puts
everything back to the initial values. A slip of the pen in it must not take networks away from new Pods: while the
injections cannot be read, those before stay in force, and a problem says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import msgspec

from app.networks.userdefined import Injection, parse_entries
from app.text import quoted
from app.wire import JSON, decode_json

CONFIG_MAP_NAME = "nri-control-switches"
CONFIG_MAP_KEY = "config.json"
_FEATURES = "features"
_INJECTIONS = "user-defined-injections"
_FEATURE_FIELDS = {"enableHugePageDownApi": "hugepage_down_api", "enableHonorExistingResources": "honor_existing"}


@dataclass(frozen=True, slots=True)
class Switches:
    """What is turned on. `honor_existing` None leaves the mode to the options; True means `add`, False not `add`.

    `problems` has a line for each part of the ConfigMap that was not used.
    """

    hugepage_down_api: bool = False
    honor_existing: bool | None = None
    injections: tuple[Injection, ...] = ()
    problems: list[str] = field(default_factory=list)


def parse_switches(text: str | None, *, initial: Switches, previous: Switches | None = None) -> Switches:
    """The switches for the text of `config.json`; None where the ConfigMap or the key is missing.

    What is absent, null or unusable has its initial value: features each for itself (`null` is false, and any value
    that is no bool resets all of them), entries one by one. Injections that cannot be read as a whole are those of
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
        return replace(fresh, injections=kept, problems=[f"{CONFIG_MAP_KEY} is no JSON object"])
    features, problems = _features(config)
    injections, skipped = _injections(config, kept)
    return replace(fresh, **features, injections=injections, problems=problems + skipped)


def _features(config: JSON) -> tuple[dict[str, bool], list[str]]:
    features = config.get(_FEATURES)
    if features is None:
        return {}, []
    if not isinstance(features, dict):
        return {}, [f"{_FEATURES} is no object: the initial values apply"]
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
        return kept, [f"{_INJECTIONS} is no object: those that were read before apply"]
    return parse_entries(entries)
