"""Audit folders of made-up image files, for the tests of the review server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from audit_samples import make_audit, make_summary, with_neighbours
from PIL import Image
from starlette.testclient import TestClient

from hitnet.audit import Audit, Opinion, open_audit
from hitnet.audit.audit_folder import Kept
from hitnet.review.app import ReviewApp
from hitnet.review.server import open_review

PORT, TOKEN = 8765, "a-token"
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"


def make_files(root: Path, paths: list[str]) -> Path:
    """An image file per path, each of another colour."""
    for i, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 16), (i % 256, 5 * i % 256, 40)).save(root / path)
    return root


def make_folder(
    tmp_path: Path,
    count: int = 60,
    *,
    names: list[str] | None = None,
    paths: list[str] | None = None,
    kept: bool = True,
) -> Path:
    """The folder of a made-up audit of files in tmp_path/photos."""
    table, distances, _, names = with_neighbours(make_audit(count, 5, suspects=20, names=names, paths=paths))
    photos = make_files(tmp_path / "photos", table["path"].tolist())
    # Features: images of the class that the distances see stand together.
    centres = np.random.default_rng(0).normal(size=(len(names), 16))
    noise = np.random.default_rng(1).normal(size=(count, 16))
    features = torch.from_numpy(centres[distances.argmin(1)] + 0.2 * noise).float()
    said = np.stack([distances, distances + 0.01])
    opinions = [Opinion("heads", each, capsules=True) for each in said]
    judged = Kept.of(opinions, features, torch.arange(count)) if kept else None
    summary = make_summary(table, names, source=str(photos), data="photos")
    folder = tmp_path / "audit"
    folder.mkdir(parents=True)
    Audit(table, distances, tuple(names), summary, kept=judged).write(folder)
    return folder


def client_of(review: ReviewApp, **options: Any) -> TestClient:
    """A browser that knows the token and sends what a page sends."""
    headers = {"host": HOST, "origin": ORIGIN}
    cookies = {f"hitnet-review-{PORT}": TOKEN}
    app = review.build(port=PORT, token=TOKEN)
    return TestClient(app, base_url=ORIGIN, headers=headers, cookies=cookies, follow_redirects=False, **options)


def open_folder(folder: Path, reviewer: str = "anna") -> ReviewApp:
    return open_review(open_audit(folder), reviewer=reviewer)
