"""Merging and pruning under list rules, the two moves of server-side apply that touch the object itself.

Pure functions over JSON that share what they do not change. They know nothing of managers: `apply` decides what is
merged and what is released.
"""

from __future__ import annotations

from typing import Any

from app.devtools.sandbox.merge.fieldsets import Fields, element_key, index_elements, is_member
from app.devtools.sandbox.merge.listtypes import Branch, Rule


def merge_applied(live: Any, config: Any, branch: Branch) -> Any:
    """`live` with `config` laid over it: maps and keyed lists merge, all else is replaced."""
    rule = branch.rule
    if rule is not None and rule.keys is None:
        return config
    if isinstance(live, dict) and isinstance(config, dict):
        merged = dict(live)
        for name, value in config.items():
            merged[name] = merge_applied(live[name], value, branch.child(name)) if name in live else value
        return merged
    if isinstance(live, list) and isinstance(config, list) and rule is not None and rule.keys is not None:
        return _merge_list(live, config, branch, rule)
    return config


def _merge_list(live: list[Any], config: list[Any], branch: Branch, rule: Rule) -> list[Any]:
    """Elements of `config` keep their order among themselves; the other live ones stay where they can."""
    present = index_elements(live, rule)
    theirs = [element_key(element, rule) for element in live]
    wanted = [element_key(element, rule) for element in config]
    asked = set(wanted)
    shared = [key for key in wanted if key in present]
    merged: list[Any] = []
    left = right = 0
    while left < len(live) or right < len(config):
        if left < len(live) and theirs[left] not in asked:
            merged.append(live[left])
            left += 1
            continue
        due = shared[0] if shared else None
        # A live element that comes later (or came already) in `config` gives way to the ones in between.
        if left < len(live) and (right >= len(config) or theirs[left] != due):
            left += 1
            continue
        key = wanted[right]
        whole = key not in present or rule.whole_items or not rule.keys
        merged.append(config[right] if whole else merge_applied(present[key], config[right], branch))
        if key == due:
            shared.pop(0)
            left += left < len(live) and theirs[left] == key
        right += 1
    return merged


def prune_released(value: Any, last: Fields, held: Fields, branch: Branch, *, root: bool = True) -> Any:
    """`value` without what `last` had and `held` (the fields of all managers now) does not have.

    A field is removed as a whole if no manager holds anything below it. A list element is removed if no manager holds
    the element itself.
    """
    rule = branch.rule
    if isinstance(value, dict):
        kept = dict(value)
        for name, node in last.items():
            field = name[2:]
            if not name.startswith("f:") or field not in kept:
                continue
            holder = held.get(name)
            if holder is None and not (root and name == "f:metadata"):
                del kept[field]
            elif node:  # also below a list or map that a manager holds as such, and nothing in it
                kept[field] = prune_released(kept[field], node, holder or {}, branch.child(field), root=False)
        return kept
    if isinstance(value, list) and rule is not None and rule.keys is not None:
        return [
            prune_released(element, last[key], held[key], branch, root=False)
            if last.get(key) and held.get(key)
            else element
            for element in value
            for key in [element_key(element, rule)]
            if not _released(last.get(key), held.get(key))
        ]
    return value


def _released(last: Fields | None, held: Fields | None) -> bool:
    return last is not None and is_member(last) and (held is None or not is_member(held))
