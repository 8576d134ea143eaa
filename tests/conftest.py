"""Options and rules that every test folder shares."""

from __future__ import annotations

import gc
from collections.abc import Iterator

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


def pytest_collection_finish() -> None:
    # What has been imported stays: `_no_leftovers` need not look at it after each test.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_leftovers() -> Iterator[None]:
    """What a test leaves open warns while the test ends, and not in the middle of another."""
    yield
    gc.collect()
