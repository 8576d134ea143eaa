"""What the sandbox takes from its user's surroundings, and what it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from app.devtools.clusters.kubeconfigs import standing_alone
from app.errors import UsageError
from app.registry import settings_of

WebhookSettings = settings_of("webhook")


def kubeconfig(directory: Path, **user: str) -> Path:
    path = directory / "given.kubeconfig"
    config = {
        "clusters": [
            {"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "pki/ca.crt"}}
        ],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(config))
    return path


def test_a_copy_of_a_kubeconfig_points_to_the_same_files(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, **{"client-certificate": "/etc/a.crt", "client-key": "a.key", "token": "t"})
    copy = yaml.safe_load(standing_alone(path))
    assert copy["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "pki/ca.crt")
    assert copy["users"][0]["user"] == {
        "client-certificate": "/etc/a.crt",
        "client-key": str(tmp_path / "a.key"),
        "token": "t",
    }


@pytest.mark.parametrize("text", ["", "[]", "clusters: 1", "clusters: [{}]", "{"])
def test_what_is_no_kubeconfig_is_said_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "given.kubeconfig"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"given\.kubeconfig: not a kubeconfig"):
        standing_alone(path)


def test_a_webhook_started_for_somebody_does_not_read_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTH_MANIFESTS", "x")
    monkeypatch.setenv("NAMESPACE", "elsewhere")
    assert WebhookSettings.load({}).manifests == "x"
    alone = WebhookSettings.load({}, environment=False)
    assert (alone.manifests, alone.namespace) == (None, "kube-system")
