"""What the operators refuse of their kinds: definitions and webhooks, asked by a creation that is not stored.

The answers are kept in `tests/unit/appwrappers/goldens/operators.json`, with which `make test` compares Berth's.
`BERTH_RECORD=1` writes the file.
"""

from __future__ import annotations

import json
import os
from typing import Any

from app.errors import ApiError
from app.kube.client import KubeClient
from app.kube.resources import Resource
from tests.integration.operators.conftest import Wrappers
from tests.real.programs import programs
from tests.support.control_plane import NAMESPACE
from tests.support.operator_cases import CASES
from tests.support.paths import ROOT
from tests.support.real_parts import needs

JSON = dict[str, Any]
pytestmark = needs(
    "jobset", "training-operator", "kuberay", "kube-apiserver", "kube-controller-manager", "kube-scheduler"
)
KEPT = ROOT / "tests" / "unit" / "appwrappers" / "goldens" / "operators.json"


async def refusal(client: KubeClient, obj: JSON) -> str:
    """The message of the API server; "" where it would create the object."""
    group, _, version = obj["apiVersion"].partition("/")
    resource = Resource(group, version, f"{obj['kind'].lower()}s", obj["kind"])
    try:
        await client.post(f"{resource.path(namespace=NAMESPACE)}?dryRun=All", obj)
    except ApiError as error:
        return str(error)
    return ""


async def test_the_kept_answers_are_those_of_the_operators(wrappers: Wrappers) -> None:
    answers = {name: await refusal(wrappers.client, obj) for name, obj in CASES.items()}
    versions = dict(program.pin for program in programs() if program.name in ("jobset", "training-operator"))
    text = json.dumps({"versions": versions, "answers": answers}, indent=1, sort_keys=True) + "\n"
    if os.environ.get("BERTH_RECORD"):
        KEPT.write_text(text)
    kept = json.loads(KEPT.read_text())
    assert kept["versions"] == versions
    assert {name: bool(answer) for name, answer in kept["answers"].items()} == {
        name: bool(answer) for name, answer in answers.items()
    }
