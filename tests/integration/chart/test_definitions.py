"""The definitions in the chart are those of the package, and follow the roles."""

from __future__ import annotations

from typing import Literal

import pytest
import yaml

from app.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from tests.support.chart import CHART, JSON, Render
from tests.support.chart_combinations import AGENT, ALL, EVERY_CONTROLLER, INFRA, NOTHING, WRAPPERS
from tests.support.command_line import berth


def _printed(cluster: Literal["infra", "tenant", "appwrappers", "rmd", "all"]) -> str:
    done = berth("crds", cluster)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("cluster", ["infra", "tenant", "appwrappers", "rmd"])
def test_the_files_are_what_berth_crds_prints(cluster: Literal["infra", "tenant", "appwrappers"]) -> None:
    text = (CHART / "files" / "crds" / f"{cluster}.yaml").read_text()
    assert list(yaml.safe_load_all(text)) == list(yaml.safe_load_all(_printed(cluster)))


@pytest.mark.parametrize(
    ("values", "cluster"),
    [
        (INFRA, "infra"),
        (NOTHING | AGENT, "tenant"),
        (WRAPPERS, "appwrappers"),
        (ALL | EVERY_CONTROLLER, "all"),
    ],
)
def test_the_definitions_of_the_enabled_roles_are_rendered_as_they_are(
    render: Render, values: JSON, cluster: Literal["infra", "tenant", "appwrappers", "rmd", "all"]
) -> None:
    found = render(values).of(CUSTOM_RESOURCE_DEFINITIONS.kind)
    for obj in found:
        assert obj["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
        assert obj["metadata"].pop("labels")["app.kubernetes.io/part-of"] == "berth"
    printed = list(yaml.safe_load_all(_printed(cluster)))
    assert sorted(found, key=_name) == sorted(printed, key=_name)


def _name(definition: JSON) -> str:
    return str(definition["metadata"]["name"])


@pytest.mark.parametrize("values", [{}, ALL | {"crds": {"install": False}}])
def test_no_definition_is_rendered_where_none_is_needed_or_wanted(render: Render, values: JSON) -> None:
    assert render(values).of(CUSTOM_RESOURCE_DEFINITIONS.kind) == []


def test_without_keep_they_go_with_the_release(render: Render) -> None:
    for obj in render(ALL | {"crds": {"keep": False}}).of(CUSTOM_RESOURCE_DEFINITIONS.kind):
        assert "annotations" not in obj["metadata"]
