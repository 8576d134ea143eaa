"""ClusterRoles whose rules are those of others: what their `aggregationRule` selects. Pure.

As the controller of kube-controller-manager that is called clusterrole-aggregation does it.
"""

from __future__ import annotations

from collections.abc import Sequence

from app.kube.selectors import label_selector_from_json
from app.wire import JSON


def is_aggregated(role: JSON) -> bool:
    """Whether its rules are those of others; what is written into them does not last."""
    return role.get("aggregationRule") is not None


def aggregated_rules(role: JSON, roles: Sequence[JSON]) -> list[JSON]:
    """The rules of what it selects, each once: by the order of its selectors, then by name; its own do not count.

    A selector that cannot be read selects nothing.
    """
    rules: list[JSON] = []
    name = role["metadata"]["name"]
    for selector in role["aggregationRule"].get("clusterRoleSelectors") or ():
        try:
            selected = label_selector_from_json(selector)
        except ValueError:
            continue
        for other in sorted(roles, key=lambda other: str(other["metadata"]["name"])):
            if other["metadata"]["name"] != name and selected.matches(other["metadata"].get("labels")):
                for rule in other.get("rules") or ():
                    rules += [] if rule in rules else [rule]
    return rules
