"""A folder of image files; the samples are those of the audit's tests."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))

from audit_samples import make_folder


@pytest.fixture
def folder(tmp_path):
    """Image files of two classes."""
    files = [f"{name}/{i}.png" for name in ("cat", "dog") for i in range(5)] + ["cat/deep/0.png"]
    return make_folder(tmp_path / "photos", files)
