"""The review page of a hostile data set, in Chromium: no script runs, nothing is fetched, the export is read back."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from hitnet.audit.audit_table import ClassHealth, summarise
from hitnet.audit.report import write_page
from hitnet.decisions.correction_files import read_corrections
from hitnet.decisions.corrections import audited_images, check_corrections

MARK = "window.hacked=1"
HOSTILE = [
    f"<img src=x onerror={MARK}>",
    f"</script><script>{MARK}</script>",
    f"<!--<script>{MARK}",
    f'"><svg onload={MARK}>',
    f"javascript:{MARK}",
    "${" + MARK + "}",
    "{{" + MARK + "}}",
    '=HYPERLINK("http://attack.invalid")',
    "\u2028\u2029\u202e",
    "__proto__",
    "constructor",
    "https://attack.invalid/x.png",
    "a" * 5000,
    "\x1b[2J\r\n\t\"',;",
    "\ud800",
    "@import url(http://attack.invalid)",
]


def hostile_table() -> pd.DataFrame:
    count = len(HOSTILE)
    given = np.arange(count)
    names = np.array(HOSTILE, dtype=object)

    def text(values: object) -> pd.Series:
        return pd.Series(list(values), dtype=object)  # pandas' own text cannot hold half a surrogate pair

    return pd.DataFrame(
        {
            "id": np.arange(count),
            "path": pd.Series(
                [f"{names[k]}/{i}{names[(k + 1) % len(names)]}" for i, k in enumerate(given)], dtype=object
            ),
            "given": text(names[given]),
            "suggested": text(names[(given + 1) % len(names)]),
            "score": np.linspace(0, 1, count),
            "hits": 1,
            "votes": 2,
            "models": 4,
            "margin_mean": 0.1,
            "margin_std": 0.1,
            "ghost": text(names[(given + 2) % len(names)]),
            "ghost_distance": 0.4,
            "flag": (["wrong", "ok", "ambiguous: two labels"] * count)[:count],
            "rule": text(HOSTILE),
        }
    )


def write(path: Path) -> pd.DataFrame:
    table = hostile_table()
    pixels = torch.zeros(len(table), 1, 8, 8, dtype=torch.uint8)
    distances = np.full((len(table), len(HOSTILE)), 0.5, np.float32)
    summary = replace(
        summarise(table, HOSTILE, data=HOSTILE[0], source="", models=4, model=HOSTILE[1], seconds=1.0),
        flags={"wrong": 3, HOSTILE[2]: 4},
        classes=[ClassHealth(name, 1, 1, 0.5, 0.5) for name in HOSTILE],
    )
    write_page(path, table, distances, pixels, title=HOSTILE[1], summary=summary)
    return table


def test_a_hostile_set_runs_no_script_and_fetches_nothing(browser, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains

    table = write(tmp_path / "report.html")
    browser.get_log("performance")  # of other tests
    browser.get((tmp_path / "report.html").as_uri())
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return document.querySelectorAll('.row').length") > 0
    for key in ("r", "1", "k", "d", "u", "?"):  # decide, and open what can be opened
        ActionChains(browser).send_keys(key).perform()
    ActionChains(browser).send_keys("\ue00c").perform()
    browser.execute_script("for (const row of document.querySelectorAll('.row')) row.click()")
    change = [0, table["path"][0], table["given"][0], "relabel", HOSTILE[1]]
    stored = json.dumps([{"step": HOSTILE[2], "time": HOSTILE[3], "reviewer": HOSTILE[0], "changes": [change]}])
    browser.execute_script(
        "for (const key of [...Object.keys(localStorage)]) localStorage.setItem(key, arguments[0])", stored
    )
    assert browser.execute_script("return window.hacked") is None
    assert browser.execute_script("return document.scripts.length") == browser.page_source.count("<script")
    requests = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    fetched = {
        request["params"]["request"]["url"].split(":", 1)[0]
        for request in requests
        if request["method"] == "Network.requestWillBeSent" and request["params"]["documentURL"].startswith("file:")
    }
    assert fetched <= {"file", "data", "blob"}
    refused = [
        entry["message"] for entry in browser.get_log("browser") if "Content Security Policy" in entry["message"]
    ]
    assert refused == []  # nothing even tried


def test_what_the_page_exports_is_read_back(browser, tmp_path):
    from selenium.webdriver.common.action_chains import ActionChains

    table = write(tmp_path / "report.html")
    browser.get((tmp_path / "report.html").as_uri())
    browser.execute_script("localStorage.clear()")
    browser.get((tmp_path / "report.html").as_uri())
    ActionChains(browser).send_keys("1" * len(table), "e").perform()
    text = browser.execute_script("return document.querySelector('#export-text').value")
    (tmp_path / "d.jsonl").write_text(text, encoding="utf-8", newline="")
    corrections = read_corrections(tmp_path / "d.jsonl").corrections
    assert len(check_corrections(audited_images(table), corrections, HOSTILE, name="d.jsonl")) == len(table)
    assert [change.path for _, change in corrections] == table["path"].tolist()
