"""Options that every test folder shares."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kubeconfig",
        action="append",
        default=[],
        metavar="[NAME=]FILE",
        help="run the end-to-end tests against this API server (on loopback, without controllers) instead of the "
        "sandbox's; NAME is icp, tenant1 (the default) or tenant2; repeatable",
    )
