"""Where the doctor asks a Pod that is not ready."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pytest

from app.doctor.installed import Installed
from app.doctor.readiness import probe_of


class _Container:
    container: ClassVar[dict[str, str]] = {"name": "c"}

    def setting(self, _name: str) -> int:
        return 8444


def probe(path: str | None) -> tuple[int, str]:
    container: dict[str, Any] = {"name": "c", "readinessProbe": {"httpGet": {"path": path, "port": 1}}}
    return probe_of(cast("Installed", _Container()), {"spec": {"containers": [container]}})


@pytest.mark.parametrize("path", ["../../secrets/x", "/a/../b", "/..", "/./x", "/%2e%2e/x", "/a%2fb", "//", "/a//b"])
def test_the_path_of_a_probe_stays_below_its_pod(path: str) -> None:
    """The API server's proxy takes it as a part of its own path. What could leave the Pod is not asked for."""
    assert probe(path) == (1, "/readyz")


@pytest.mark.parametrize(
    ("path", "asked"), [("/healthz", "/healthz"), ("a/b", "/a/b"), (None, "/readyz"), ("/x?y#z", "/x%3Fy%23z")]
)
def test_other_paths_of_a_probe_are_asked(path: str | None, asked: str) -> None:
    assert probe(path) == (1, asked)
