"""Input and output of the review page: storage, export, import, hostile names, thousands of rows."""

import json

import pytest
import torch
from audit_samples import make_audit, make_summary, with_neighbours
from browser_keys import END, ENTER, ESCAPE

from hitnet.audit.report import write_page
from hitnet.decisions.correction_files import read_corrections
from hitnet.decisions.corrections import audited_images, check_corrections
from hitnet.decisions.steps import Change, Step
from patience import wait_until

pytestmark = pytest.mark.browser

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "שלום \u202egnp.exe",
    "=1+1, \"two\" 'three'",
    "line\nbreak\r\nand 🎉 " + "long " * 60,
]


def test_decisions_survive_a_reload_and_stay_with_their_audit(open_review, browser):
    table, distances, pixels, names = make_audit()
    review = open_review((table, distances, pixels, names))
    review.keys("1", "2")
    before = review.exported()
    browser.refresh()
    assert review.exported() == before
    other = table.assign(score=table["score"] / 2)
    options = {"title": "Other", "summary": make_summary(other, names)}
    write_page(review.path.with_name("other.html"), other, distances, pixels, **options)
    browser.get(review.path.with_name("other.html").as_uri())
    assert review.text("#progress-count") == "0 of 60 decided"
    browser.get(review.path.as_uri())
    assert review.exported() == before


def test_spoilt_storage_is_passed_over(open_review, browser):
    review = open_review(make_audit())
    key = review.js("Object.keys(localStorage).find((key) => key.startsWith('hitnet-audit:'))")
    step = '{"step":"a","time":"t","reviewer":"r","changes":[%s]}'
    odd = [step % change for change in ("", '[1, "", "", "burn", ""]', '["1", "", "", "keep", ""]', "7", "null")]
    for spoilt in ("{", "7", '[[1, null], [2], "x", {}, null]', f"[{','.join(odd)}]"):
        browser.execute_script("localStorage.setItem(arguments[0], arguments[1])", key, spoilt)
        browser.refresh()
        assert review.text("#progress-count") == "0 of 60 decided"


def test_missing_storage_is_said(open_review, browser):
    review = open_review(make_audit())
    assert not review.element("#banner").is_displayed()
    deny = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied') } })"
    script = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": deny})
    try:
        browser.refresh()
        assert "Export them before you close it" in review.text("#banner")
        review.keys("1")
        assert review.text("#progress-count") == "1 of 60 decided"
        review.click("#open-export")
        review.click("#export-download")  # after an export, the page closes without a question
        review.click("#export [data-close]")
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", script)


def test_download_is_read_by_apply(open_review, browser):
    table, distances, pixels, names = make_audit(names=HOSTILE)
    review = open_review((table, distances, pixels, names))
    review.keys("1", "2", "2", "4", "5")
    review.click("#open-export")
    file = browser.downloads / "decisions.jsonl"
    file.unlink(missing_ok=True)
    review.click("#export-download")
    wait_until(lambda: file.exists() and file.stat().st_size, "the download")
    read = read_corrections(file).corrections
    decided = {
        number: each.change for number, each in check_corrections(audited_images(table), read, names, name="f").items()
    }
    assert [decided[i].decision for i in table["id"][:5]] == ["keep", "relabel", "relabel", "drop", "unsure"]
    assert decided[table["id"][1]].label == table["suggested"][1]
    assert decided[table["id"][0]].path == table["path"][0]


def test_import_continues_elsewhere_and_can_be_undone(open_review, browser):
    audit = make_audit(names=HOSTILE)
    review = open_review(audit)
    review.keys("1", "2", "4")
    before = review.exported()
    browser.execute_script("localStorage.clear()")
    browser.refresh()
    review.keys("5")
    review.click("#open-import")
    review.element("#import-file").send_keys(str(review.path.with_suffix(".jsonl")))
    review.wait("document.querySelectorAll('.row.drop').length === 1")
    assert review.exported() == before
    review.keys("u")
    assert list(review.exported().values()) == [("unsure", "")]


def test_import_carries_images_that_the_page_does_not_show(open_review, tmp_path):
    review = open_review(make_audit(), limit=5)
    file = tmp_path / "more.jsonl"
    file.write_text(Step("anna", (Change(58, "somewhere", "class 3", "relabel", "class 1"),)).to_line())
    review.click("#open-import")
    review.element("#import-file").send_keys(str(file))
    review.wait("document.querySelector('#progress-detail').innerText.includes('1 imported, not on this page')")
    assert review.exported() == {58: ("relabel", "class 1")}


def test_import_with_mistakes_changes_nothing(open_review, tmp_path):
    audit = make_audit()
    review = open_review(audit)
    first = audit[0].iloc[0]
    good = Step("anna", (Change(int(first["id"]), first["path"], first["given"], "keep"),)).to_line()
    file = tmp_path / "bad.jsonl"
    file.write_text(good + '{"step": "<b>bold</b>"}\n' + good + "id,path,given,decision,label\n")
    review.click("#open-import")
    review.element("#import-file").send_keys(str(file))
    problems = review.wait("document.querySelector('#import-problems').innerText")
    assert "Nothing was imported" in problems
    assert "Line 2 is no decision" in problems
    assert "Line 4 is no decision" in problems
    review.click("#import [data-close]")
    assert review.exported() == {}


def test_a_decision_on_another_label_than_the_page_shows_does_not_count(open_review, tmp_path):
    audit = make_audit()
    review = open_review(audit)
    first = audit[0].iloc[0]
    changes = [Change(int(first["id"]), first["path"], "another", "drop")]
    changes.append(Change(int(audit[0]["id"][1]), "another.png", audit[0]["given"][1], "drop"))
    (tmp_path / "other.jsonl").write_text(Step("anna", tuple(changes)).to_line())
    review.click("#open-import")
    review.element("#import-file").send_keys(str(tmp_path / "other.jsonl"))
    review.wait("!document.querySelector('#import').open")
    assert review.text("#progress-count") == "0 of 60 decided"


def test_history_survives_a_reload(open_review, browser):
    review = open_review(make_audit())
    review.keys("1", "4", "u")
    browser.refresh()
    review.keys("h")
    lines = review.js("[...document.querySelectorAll('#history-steps .step-text')].map((line) => line.innerText)")
    assert lines[0] == "undo or redo"
    assert len(lines) == 3
    review.click("#history-steps li.undone button")  # brings it back
    review.wait("document.querySelector('#progress-count').innerText === '2 of 60 decided'")
    review.keys(ESCAPE)


def test_hostile_names_do_no_harm(open_review, browser):
    prototypes = torch.zeros(5, 1, 12, 12, dtype=torch.uint8)
    plain = open_review(with_neighbours(make_audit()), prototypes=prototypes)
    count = "document.querySelectorAll('script, img:not(.thumb), iframe, object, embed, link, style').length"
    elements = plain.js(count)
    browser.get_log("performance")
    paths = [f"{HOSTILE[i % 5]}/{i}{HOSTILE[i % 3]}.png" for i in range(60)]
    audit = with_neighbours(make_audit(names=HOSTILE, paths=paths))
    review = open_review(audit, "hostile.html", title=HOSTILE[0], prototypes=prototypes)
    names = "[...document.querySelectorAll('.row figcaption .name')].map((name) => name.textContent)"
    captions = review.js(names)
    assert len(captions) >= 8
    assert set(captions) <= set(HOSTILE)
    review.keys("2", "3", "line", ENTER, ENTER, "j", ESCAPE, "4", "/", "</script>")
    assert review.js(count) == elements
    assert review.text("#title") == HOSTILE[0]
    assert review.chips == ["“</script>” ×"]
    requests = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses = {r["params"]["request"]["url"] for r in requests if r["method"] == "Network.requestWillBeSent"}
    asked = {address for address in addresses if not address.startswith("data:")}
    assert asked == {review.empty.as_uri(), review.path.as_uri()}


def test_thousands_of_rows_scroll_with_few_elements(open_review):
    audit = make_audit(2_500, 10, suspects=2_500)
    review, ids = open_review(audit), audit[0]["id"].tolist()
    assert review.shown == 2_500
    script = """
        const done = arguments[0], list = document.querySelector("#list");
        const end = list.scrollHeight;
        let most = 0, step = 0;
        const frame = () => {
          most = Math.max(most, document.querySelectorAll("*").length);
          if (step++ < 60) { list.scrollTop = end * step / 60; requestAnimationFrame(frame); }
          else done(most);
        };
        frame();"""
    assert review.browser.execute_async_script(script) < 3000
    assert int(review.all(".row")[-1].get_attribute("data-id")) == ids[-1]
    review.keys(END, "4")
    assert review.exported() == {ids[-1]: ("drop", "")}
