"""`berth policies generate` as it is typed: what it refuses, and what it prints where."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from app.cli.policies import policies_app
from app.errors import UsageError
from app.policies.objects import CONDITION
from tests.support.chart import Render
from tests.support.policy_stage import network


@pytest.fixture
def attachments(tmp_path: Path) -> str:
    path = tmp_path / "nads.yaml"
    switches = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "nri-control-switches"},
        "data": {
            "config.json": '{"user-defined-injections": {"sriov": {"op": "add", "path": "/metadata/annotations",'
            ' "value": {"note": "1"}}}}'
        },
    }
    path.write_text(
        yaml.safe_dump_all([network("foo", "example.com/foo"), network("a.b", "example.com/foo"), switches])
    )
    return str(path)


def _run(*words: str) -> tuple[str, str]:
    done = CliRunner().invoke(policies_app, ["generate", *words])
    if done.exception is not None:
        raise done.exception
    return done.stdout, done.stderr


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (("-f", "x", "--kubeconfig", "y"), "use one of them"),
        (("-f", "x", "-o", "values"), "--mode both"),
        (("-f", "x", "-o", "manifests"), "-o manifests and --dir"),
        (("-f", "x", "--dir", "y"), "-o manifests and --dir"),
        (("-f", "x", "--name", "Not A Name"), "--name"),
    ],
)
def test_words_that_contradict_each_other_are_refused(words: tuple[str, ...], fault: str) -> None:
    with pytest.raises(UsageError, match=fault):
        _run(*words)


def test_objects_are_on_standard_output_and_what_is_left_aside(attachments: str) -> None:
    """The control switches count where they are among the files."""
    printed, said = _run("-f", attachments)
    objects = [*yaml.safe_load_all(printed)]
    assert len(objects) == 8
    assert "'sriov'" in printed
    assert "left to the webhook: NetworkAttachmentDefinition default/a.b: its name has dots" in said
    assert "1 attachments in 8 objects: the largest has " in said


def test_the_condition_is_a_value_of_the_chart(attachments: str) -> None:
    printed, _ = _run("-f", attachments, "--mode", "both", "-o", "values")
    condition = yaml.safe_load(printed)["webhook"]["matchConditions"]["leftByPolicies"]
    assert "['example.com/foo']" in condition
    assert "'default/foo': [0]" in condition


def test_the_condition_of_the_chart_has_its_name(attachments: str, render: Render) -> None:
    printed, _ = _run("-f", attachments, "--mode", "both", "-o", "values")
    values = yaml.safe_load(printed)
    configuration = render(values).one("MutatingWebhookConfiguration")
    conditions = {
        webhook["name"]: {
            condition["name"]: condition["expression"] for condition in webhook.get("matchConditions", ())
        }
        for webhook in configuration["webhooks"]
    }
    assert conditions["pods.berth.dev"][CONDITION] == values["webhook"]["matchConditions"]["leftByPolicies"]
    assert [name for name, named in conditions.items() if CONDITION in named] == ["pods.berth.dev"]


def test_files_are_below_the_directory(attachments: str, tmp_path: Path) -> None:
    """One folder for each plugin, since an API server takes no other kind from it; nothing half-written stays."""
    printed, _ = _run("-f", attachments, "-o", "manifests", "--dir", str(tmp_path / "files"))
    configuration = yaml.safe_load(printed)
    for plugin in configuration["plugins"]:
        folder = Path(plugin["configuration"]["staticManifestsDir"])
        assert [path.name for path in folder.iterdir()] == ["berth.yaml"]
        objects = [*yaml.safe_load_all((folder / "berth.yaml").read_text())]
        assert {obj["kind"].removesuffix("Binding") for obj in objects} == {plugin["name"]}
