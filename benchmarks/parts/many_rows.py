"""A review of many made-up rows in Chromium: how long the first rows, filters and a decision take."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image

from hitnet.audit import Audit
from hitnet.audit.audit_table import summarise
from hitnet.features.opinions import kept_classes
from parts.record import Row, about

PICTURES = 500  # of the most doubtful images there are files

# Change something, wait until the page shows other rows or a saved decision, and say how many milliseconds that took.
WAIT = """
const done = arguments[arguments.length - 1];
const shown = () => %s;
const before = shown();
const started = performance.now();
%s;
(function look() {
  if (document.querySelector(".current:not(.waiting)") && shown() !== before) done(performance.now() - started);
  else if (performance.now() - started > 20000) done(-1000);
  else setTimeout(look, 4);
})();
"""
ROWS = 'document.querySelector("#count").textContent + document.querySelector(".current")?.dataset.id'
SAVED = 'document.querySelector("#progress-detail").textContent'
KEY = "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: '%s', bubbles: true}))"
SET = (
    "const part = document.querySelector('%s'); part.value = '%s'; part.dispatchEvent(new Event('%s', {bubbles: true}))"
)
CLEAR = "document.querySelector('#clear-filters').click()"
ACTIONS = {
    "class": (SET % ("#class-filter", "7", "change"), CLEAR),
    "pair": ("document.querySelector('.pair').click()", CLEAR),
    "flag": ("document.querySelector('[data-flag=\"0\"]').click()", CLEAR),
    "score": (SET % ("#score-min", "0.5", "input"), CLEAR),
    "search": (SET % ("#search", "9876", "input"), CLEAR),
    "undecided": ("document.querySelector('[data-state=\"undecided\"]').click()", CLEAR),
    "last row": (KEY % "End", KEY % "Home"),
}


def write_audit(root: Path, images: int, classes: int) -> Path:
    """An audit folder of a table of image files, of which only the most doubtful exist."""
    draw = np.random.default_rng(0)
    names = np.array([f"class {k:02}" for k in range(classes)], dtype=object)
    given = draw.integers(0, classes, images)
    wrong = draw.random(images) < 0.05
    suggested = np.where(wrong, (given + draw.integers(1, classes, images)) % classes, given)
    score = np.where(wrong, draw.random(images) * 0.5, 0.5 + draw.random(images) * 0.5)
    order = np.argsort(score)
    ids = np.arange(images)
    table = pd.DataFrame(
        {
            "id": ids,
            "path": [f"files/{i % 1000:03}/image-{i}.jpg" for i in range(images)],
            "given": names[given],
            "suggested": names[suggested],
            "score": score,
            "hits": 4,
            "votes": 4,
            "models": 4,
            "margin_mean": 0.5 - score,
            "margin_std": 0.1,
            "ghost": names[(given + 1) % classes],
            "ghost_distance": 0.8,
            "flag": np.where(wrong, "wrong", "ok"),
            "rule": np.where(wrong, "low score: another class fits better", "none of the other rules"),
        }
    ).iloc[order]
    table = table.reset_index(drop=True)
    near = None
    kept = kept_classes(images, classes)
    if classes > kept:
        near = np.sort((given[order, None] + np.arange(kept)) % classes, axis=1)
        near = np.pad(near, ((0, 0), (0, 1)), constant_values=classes)
    distances = draw.random((images, min(classes, kept + 1)), dtype=np.float32)
    table[["path", "given"]].rename(columns={"given": "label"}).to_csv(root / "labels.csv", index=False)
    for i, path in enumerate(table["path"][:PICTURES]):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (400, 300), (i % 256, 90, 120)).save(root / path)
    about_it = {"data": "a million", "source": str(root / "labels.csv"), "models": 4, "model": "made up"}
    folder = root / "audit"
    folder.mkdir()
    Audit(table, distances, tuple(names), summarise(table, list(names), **about_it), near).write(folder)
    return folder


def open_browser() -> Any:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1366,768"):
        options.add_argument(flag)
    browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    browser.set_script_timeout(60)
    return browser


def first_rows(browser: Any, address: str) -> float:
    """Seconds from opening the address to the first row."""
    started = time.perf_counter()
    browser.get(address)
    while not browser.execute_script("return !!document.querySelector('.row.current:not(.waiting)')"):
        time.sleep(0.01)
    return time.perf_counter() - started


def measure(images: int, classes: int, root: Path | None = None) -> list[Row]:
    """Review an audit of N rows and K classes; it is written to `root`, or read from there if it is there already."""
    with tempfile.TemporaryDirectory() as temporary:
        root = root or Path(temporary)
        root.mkdir(parents=True, exist_ok=True)
        folder = root / "audit" if (root / "audit").is_dir() else write_audit(root, images, classes)
        (folder / "decisions.jsonl").unlink(missing_ok=True)
        started, load = time.perf_counter(), os.getloadavg()[0]  # what else the machine has to do
        command = [sys.executable, "-u", "-m", "hitnet", "review", str(folder), "--no-open", "--reviewer", "benchmark"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        browser = open_browser()
        try:
            assert server.stdout is not None
            address = server.stdout.readline().split(": ", 1)[1].strip()
            seconds = {"server starts": [time.perf_counter() - started]}
            seconds["first rows"] = [first_rows(browser, address) for _ in range(2)]
            for key in ("1", "4"):  # keep, later drop, which the page counts
                saving = browser.execute_async_script(WAIT % (SAVED, KEY % key))
                seconds.setdefault("decision", []).append(saving / 1000)
                for name, actions in ACTIONS.items():
                    for label, action in zip((name, f"{name}, back"), actions, strict=True):
                        took = browser.execute_async_script(WAIT % (ROWS, action))
                        seconds.setdefault(label, []).append(took / 1000)
                        print(f"{label}: {took / 1000:.3f} s", flush=True)
        finally:
            browser.quit()
            server.terminate()
            server.communicate()
    for name, values in seconds.items():
        print(f"{name}: {statistics.median(values):.3f} s, at most {max(values):.3f}")
    row = {"case": "rows", "way": "server", "seed": None, "images": images, "classes": classes}
    return [row | {"load": load, "seconds": seconds} | about(torch.device("cpu"))]
