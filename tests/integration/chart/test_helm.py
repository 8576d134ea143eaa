"""The chart as Helm itself reads it, in both versions: as the engine of the other tests here does."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.wire import copied
from tests.support.chart import CHART, LOADER, NAMESPACE, Render
from tests.support.chart_combinations import COMBINATIONS
from tests.support.real_parts import needs, real_part

JSON = dict[str, Any]
HELMS = [pytest.param(name, marks=needs(name)) for name in ("helm", "helm3")]
NAMED = ("--namespace", NAMESPACE, "--kube-version", "v1.37.0")
"""A Helm that is built out of its module takes itself for one of an old Kubernetes, where no cluster is asked."""


def typed(helm: str, *arguments: str | Path) -> str:
    done = subprocess.run([str(real_part(helm)), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def by_name(objects: list[JSON]) -> dict[tuple[str, str, str], JSON]:
    return {(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in objects}


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)
def test_helm_renders_what_the_engine_renders(render: Render, tmp_path: Path, helm: str, values: JSON) -> None:
    # A token that is not given is another one each time.
    fixed = copied(values)
    fixed.setdefault("webhook", {}).setdefault("callerToken", "caller" * 11)
    (tmp_path / "values.json").write_text(json.dumps(fixed))
    text = typed(helm, "template", "berth", CHART, *NAMED, "--values", tmp_path / "values.json")
    objects = [obj for obj in yaml.load_all(text, Loader=LOADER) if obj]
    assert by_name(objects) == by_name(render(fixed))
    assert len(objects) == len(render(fixed))


@pytest.mark.parametrize("helm", HELMS)
@pytest.mark.parametrize("values", COMBINATIONS.values(), ids=COMBINATIONS)
def test_helm_finds_nothing_to_complain_about(tmp_path: Path, helm: str, values: JSON) -> None:
    (tmp_path / "values.json").write_text(json.dumps(values))
    text = typed(helm, "lint", CHART, "--strict", *NAMED, "--values", tmp_path / "values.json")
    assert "[WARNING]" not in text
    assert "0 chart(s) failed" in text
