"""Where the project and the recorded reviews are."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
REVIEWS = Path(__file__).with_name("reviews")
"""AdmissionReviews that a real kube-apiserver has sent."""
