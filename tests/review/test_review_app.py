"""Requests to the review server, as its page sends them."""

import asyncio
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
from audit_samples import make_audit, make_images, make_summary
from PIL import Image
from review_samples import HOST, ORIGIN, PORT, TOKEN, client_of, make_folder, open_folder

from hitnet.audit import Audit, open_audit
from hitnet.data import open_data, read_image
from hitnet.data.formats import folder as folders
from hitnet.decisions.correction_files import parse_corrections
from hitnet.decisions.steps import Change, Step
from hitnet.review.evidence import LARGE_SIDE, NEIGHBOURS, SIDE
from hitnet.review.server import open_review
from patience import PATIENCE

NASTY = '<img src=x onerror="document.title=1">'


def test_a_decision_is_on_disk_when_the_answer_comes(client, folder):
    answer = client.post("/api/decide", json={"changes": [[3, "drop", ""], [4, "keep", ""]]}).json()
    (line,) = (folder / "decisions.jsonl").read_text().splitlines()
    assert answer["step"] in line
    assert '"reviewer":"anna"' in line
    assert {number: record["decision"] for number, record in answer["records"]} == {3: "drop", 4: "keep"}
    assert answer["counts"]["drop"] == answer["counts"]["keep"] == 1
    expected, unseen = answer["left"]
    assert (0 < expected < 58, unseen) == (True, 58)


@pytest.mark.parametrize(
    "body",
    [{}, {"changes": 3}, {"changes": [[1]]}, {"changes": []}, {"changes": [["a", "keep", ""]]}]
    + [{"changes": [[number, "keep", ""]]} for number in (0.7, True, "0")],
)
def test_a_request_that_makes_no_sense_is_refused(client, review, body):
    answer = client.post("/api/decide", json=body)
    assert answer.status_code == 400
    assert review.board.decisions.steps == {}


@pytest.mark.parametrize("content", [b"{", b"[]", b"3", b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(client, content):
    answer = client.post("/api/decide", content=content, headers={"content-type": "application/json"})
    assert answer.status_code == 400


def test_a_number_that_is_too_large_is_refused(client):
    content = '{"changes": [[1e400, "keep", ""]]}'
    assert client.post("/api/decide", content=content, headers={"content-type": "application/json"}).status_code == 400


def test_an_image_is_decided_on_once_at_a_time(client, review):
    answer = client.post("/api/decide", json={"changes": [[3, "drop", ""], [3, "keep", ""]]})
    assert (answer.status_code, answer.text) == (400, "Decide on each image once at a time.")
    assert review.board.decisions.steps == {}


@pytest.mark.parametrize("end", ["never", "gone"])
def test_a_request_that_never_ends_is_given_up(review, monkeypatch, end):
    monkeypatch.setattr("hitnet.review.app.PATIENCE", 0.1)
    headers = {"host": HOST, "origin": ORIGIN, "cookie": f"hitnet-review-{PORT}={TOKEN}", **HEADERS}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/api/decide", "query_string": b"", "headers": raw}
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        await asyncio.sleep(PATIENCE if end == "never" else 0)
        return {"type": "http.disconnect"}  # a tab that is closed leaves no traceback in the terminal

    asyncio.run(review.build(port=PORT, token=TOKEN)(scope, receive, send))
    assert sent[0]["status"] == 408


def test_all_images_can_be_dropped(client, review):
    changes = [[number, "drop", ""] for number in review.board.rows.ids.tolist()]
    assert client.post("/api/decide", json={"changes": changes}).status_code == 200
    for address in ("/api/state", "/api/rows?grouped=1", "/api/evidence/3", "/typical/0", "/api/export", "/api/steps"):
        assert client.get(address).status_code == 200
    assert client.get("/api/state").json()["left"] == [0.0, 0]


def test_rows_steps_and_undo(client):
    rows = client.get("/api/rows", params={"limit": 3}).json()
    assert rows["total"] == 60
    first = rows["columns"]["id"][0]
    step = client.post("/api/decide", json={"changes": [[first, "drop", ""]]}).json()["step"]
    (line,) = client.get("/api/steps").json()["steps"]
    assert (line["step"], line["ids"], line["kinds"], line["stands"]) == (step, [first], {"drop": 1}, True)
    undone = client.post("/api/undo", json={"step": step}).json()
    assert undone["records"] == [[first, None]]
    assert [line["stands"] for line in client.get("/api/steps").json()["steps"]] == [True, False]
    assert client.post("/api/undo", json={}).status_code == 400


def test_a_stale_group_is_a_conflict(client):
    body = {"query": {}, "given": 0, "suggested": 1, "decision": "keep", "expected": 10_000}
    assert client.post("/api/decide-group", json=body).status_code == 409


@pytest.mark.parametrize("query", ["abc", 5, [1], {"given": "zz"}, {"given": 10**30}])
def test_a_group_that_makes_no_sense_is_refused(client, query):
    body = {"query": query, "given": 0, "suggested": 1, "decision": "keep", "expected": 1}
    assert client.post("/api/decide-group", json=body).status_code == 400


HEADERS = {"content-type": "application/json"}
LONG = "9" * 5000


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("decide", f'{{"changes": [[{LONG}, "keep", ""]]}}'),
        ("decide", f'{{"changes": [[{LONG[:4000]}, "keep", ""]]}}'),
        ("decide", '{"changes": [[-1, "keep", ""]]}'),
        ("decide-group", '{"query": {"text": "\\ud800"}, "decision": "keep", "expected": 1}'),
        ("decide-group", f'{{"query": {{"given": {LONG[:4000]}}}, "decision": "keep", "expected": 1}}'),
        ("decide-group", '{"query": {"suggested": 5}, "decision": "relabel", "expected": 0}'),
        ("decide-group", '{"query": {"suggested": -1}, "decision": "relabel", "expected": 0}'),
        ("import", '{"text": "id,path,given,decision,label\\n1,\\ud800,class 0,keep,"}'),
        ("import", '{"text": "\\ud800"}'),
        ("undo", '{"step": "\\ud800"}'),
    ],
)
def test_numbers_and_texts_that_are_none_are_refused(client, review, name, body):
    answer = client.post(f"/api/{name}", content=body.encode(), headers=HEADERS)
    assert answer.status_code == 400
    assert answer.text
    assert review.board.decisions.steps == {}


@pytest.mark.parametrize("number", [LONG, LONG[:4000], "1e3", "-1", "x"])
def test_addresses_with_odd_numbers_are_refused(client, number):
    for kind in ("thumb", "image", "typical"):
        assert client.get(f"/{kind}/{number}").status_code == 404
    assert client.get(f"/api/evidence/{number}").status_code == 400
    for name in ("given", "near", "limit", "offset", "flags"):
        assert client.get("/api/rows", params={name: number}).status_code == 400


@pytest.mark.parametrize("promised", [{}, {"content-length": "2"}])
def test_more_than_fits_is_refused_whatever_its_header_promises(review, monkeypatch, promised):
    monkeypatch.setattr("hitnet.review.app.LONGEST", 100)
    headers = {"host": HOST, "origin": ORIGIN, "cookie": f"hitnet-review-{PORT}={TOKEN}", **HEADERS, **promised}
    parts = [{"type": "http.request", "body": b" " * 40, "more_body": True} for _ in range(9)]
    sent, taken = [], iter(parts)

    async def receive():
        return next(taken)

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/api/decide", "query_string": b""}
    scope |= {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    asyncio.run(review.build(port=PORT, token=TOKEN)(scope, receive, send))
    assert sent[0]["status"] == 413
    assert len(list(taken)) == 6  # the rest is not read


def test_a_file_of_steps_comes_in_as_one_step(client, review):
    ids, given = review.board.rows.ids.tolist(), [review.board.image(row) for row in range(3)]
    steps = [Step("report.html", (Change(ids[row], *given[row], "drop"),)) for row in range(3)]
    steps.append(Step("report.html", undoes=steps[1].name))
    text = "".join(step.to_line() for step in steps)
    assert client.post("/api/import", json={"text": text}).json()["images"] == 2
    (line,) = client.get("/api/steps").json()["steps"]
    assert (line["reviewer"], line["kinds"]) == ("anna", {"drop": 2})
    refused = client.post("/api/import", json={"text": text.replace("drop", "burn")})
    assert "line 1: unknown decision 'burn'" in refused.text


def test_a_log_that_is_removed_while_it_is_served_does_no_harm(client, folder):
    client.post("/api/decide", json={"changes": [[3, "drop", ""]]})
    (folder / "decisions.jsonl").unlink()
    answer = client.post("/api/decide", json={"changes": [[4, "keep", ""]]})
    assert answer.status_code == 200
    assert (answer.json()["counts"]["keep"], answer.json()["counts"]["drop"]) == (1, 0)
    (folder / "decisions.jsonl").unlink()
    os.mkfifo(folder / "decisions.jsonl")
    for name in ("state", "rows", "export"):
        refused = client.get(f"/api/{name}")
        assert refused.status_code == 400
        assert "decisions.jsonl is no regular file" in refused.text


def test_corrections_go_out_and_come_in(client, folder, tmp_path):
    client.post("/api/decide", json={"changes": [[3, "drop", ""], [4, "neither", ""]]})
    answer = client.get("/api/export")
    assert answer.headers["content-type"].startswith("text/csv")
    lines = {change.id: change.decision for _, change in parse_corrections(answer.text, "it").corrections}
    assert lines == {3: "drop", 4: "neither"}
    (folder / "decisions.jsonl").unlink()
    other = client_of(open_folder(folder, "ben"))
    assert other.post("/api/import", json={"text": answer.text}).json()["images"] == 2
    assert other.get("/api/export").text == answer.text
    refused = other.post("/api/import", json={"text": answer.text.replace("drop", "burn")})
    assert refused.status_code == 400
    assert "line 2: unknown decision 'burn'" in refused.text


def test_thumbnails_and_originals_are_those_of_the_image(client, review, tmp_path):
    row = review.board.rows.row_of(7)
    path = tmp_path / "photos" / review.board.rows.paths[row]
    original = client.get("/image/7")
    assert np.array_equal(Image.open(io.BytesIO(original.content)), Image.open(path))
    assert original.headers["content-type"] == "image/png"
    thumbnail = Image.open(io.BytesIO(client.get("/thumb/7").content))
    assert thumbnail.format == "WEBP"
    assert thumbnail.size == (20, 16)
    expected = Image.open(path).getpixel((5, 5))
    assert max(abs(a - b) for a, b in zip(thumbnail.getpixel((5, 5)), expected, strict=True)) < 12


def test_large_images_are_sent_small_and_whole(tmp_path):
    folder = make_folder(tmp_path)
    review = open_folder(folder)
    path = tmp_path / "photos" / review.board.rows.paths[0]
    Image.new("RGB", (1600, 800), "red").save(path)
    client, number = client_of(review), review.board.rows.ids[0]
    assert Image.open(io.BytesIO(client.get(f"/thumb/{number}").content)).size == (SIDE, SIDE // 2)
    assert Image.open(io.BytesIO(client.get(f"/image/{number}").content)).size == (1600, 800)


@pytest.mark.parametrize(
    "address",
    ["/image/../../etc/passwd", "/image/..%2f..%2fetc%2fpasswd", "/image/-1", "/image/99999", "/image/0.png",
     "/thumb/1e3", "/page/../../../etc/passwd", "/static/report.js", "/image/" + quote("class 0/image-0.png")],
)  # fmt: skip
def test_no_address_leads_to_another_file(client, address):
    assert client.get(address).status_code == 404


def test_only_files_that_the_data_lists_are_served(tmp_path):
    """A table of an audit may name any file: what the data set does not hold is not served."""
    folder = make_folder(tmp_path)
    secret = tmp_path / "secret.png"
    Image.new("RGB", (4, 4), "red").save(secret)
    review = open_folder(folder)
    rows = review.board.rows
    for path in ("../secret.png", str(secret), "class 0/../../secret.png"):
        rows.paths[0] = path
        answer = client_of(review).get(f"/image/{rows.ids[0]}")
        assert answer.status_code == 404
        assert "is not in photos any more" in answer.text


def test_a_file_that_is_no_picture_is_not_served(tmp_path):
    folder = make_folder(tmp_path)
    review = open_folder(folder)
    path = tmp_path / "photos" / review.board.rows.paths[0]
    path.write_bytes(b"<script>alert(1)</script>")
    client, number = client_of(review), review.board.rows.ids[0]
    for kind in ("thumb", "image"):
        answer = client.get(f"/{kind}/{number}")
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("text/plain")
        assert "alert" not in answer.text


def test_what_would_run_a_program_hang_or_fill_the_memory_is_not_shown(tmp_path, monkeypatch):
    folder = make_folder(tmp_path)
    review = open_folder(folder)
    files = [tmp_path / "photos" / path for path in review.board.rows.paths[:4]]
    eps, pipe, huge, truncated = files
    eps.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n")  # Pillow starts Ghostscript for it
    pipe.unlink()
    os.mkfifo(pipe)
    Image.new("1", (10_001, 10_000)).save(huge)
    Image.effect_noise((40, 40), 60).save(truncated)
    truncated.write_bytes(truncated.read_bytes()[:500])
    monkeypatch.setattr("subprocess.check_call", None)  # as Ghostscript is started
    client = client_of(review)
    reasons = ["it is not an image", "not a regular file", "10001 x 10000 pixels", "it is damaged"]
    for row, reason in enumerate(reasons):
        for kind in ("thumb", "image"):
            answer = client.get(f"/{kind}/{review.board.rows.ids[row]}")
            assert answer.status_code == 404
            assert reason in answer.text


def test_people_see_what_the_judges_see(tmp_path):
    """16 bits of grey, a picture on its side, transparent parts: decoded as for the audit."""
    folder = make_folder(tmp_path)
    review = open_folder(folder)
    deep, turned, clear = (tmp_path / "photos" / path for path in review.board.rows.paths[:3])
    ramp = np.linspace(1000, 20_000, 20 * 30).reshape(20, 30)
    Image.fromarray(ramp.astype(np.uint16)).save(deep)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(ramp.astype(np.uint8)).save(turned, "JPEG", exif=exif)
    Image.new("LA", (20, 30), (7, 100)).save(clear)
    client = client_of(review)
    for row, (path, shape) in enumerate(((deep, (1, 20, 30)), (turned, (1, 30, 20)), (clear, (1, 30, 20)))):
        shown = Image.open(io.BytesIO(client.get(f"/image/{review.board.rows.ids[row]}").content))
        assert np.array_equal(np.asarray(shown), read_image(path, shape)[0].numpy())


def test_a_large_photograph_is_sent_within_bounds(tmp_path):
    folder = make_folder(tmp_path)
    review = open_folder(folder)
    path = tmp_path / "photos" / review.board.rows.paths[0]
    Image.effect_noise((6000, 3000), 60).save(path, "BMP")
    answer = client_of(review).get(f"/image/{review.board.rows.ids[0]}")
    assert answer.headers["content-type"] == "image/jpeg"
    assert Image.open(io.BytesIO(answer.content)).size == (LARGE_SIDE, LARGE_SIDE // 2)
    assert len(answer.content) < path.stat().st_size / 2


def test_a_link_out_of_the_set_that_is_no_picture_is_not_served(tmp_path):
    folder = make_folder(tmp_path)
    review = open_folder(folder)
    path = tmp_path / "photos" / review.board.rows.paths[0]
    path.unlink()
    os.symlink("/etc/passwd", path)
    assert client_of(review).get(f"/image/{review.board.rows.ids[0]}").status_code == 404


def test_names_are_data_never_markup(tmp_path):
    names = [NASTY, "</script><script>document.title=1</script>", "c", "d", "e"]
    paths = [f"{i % 5}/x{i}.png" for i in range(60)]
    client = client_of(open_folder(make_folder(tmp_path, names=names, paths=paths), reviewer=NASTY))
    page = client.get("/").text
    assert NASTY not in page
    assert page.count("<script") == 2  # the data and the page's own
    assert client.get("/api/rows").headers["content-type"] == "application/json"


def test_evidence_shows_the_nearest_images_of_both_labels(client, review):
    rows = review.board.rows
    row = next(i for i in range(60) if rows.given[i] != rows.suggested[i])
    why = client.get(f"/api/evidence/{rows.ids[row]}").json()
    features = review.evidence.features.float()
    directions = features - features.mean(0)
    directions /= directions.norm(dim=1, keepdim=True)
    for role, label in (("given", rows.given[row]), ("suggested", rows.suggested[row])):
        others = [i for i in range(60) if i != row and rows.given[i] == label]
        nearest = sorted(others, key=lambda i: -float(directions[i] @ directions[row]))[:NEIGHBOURS]
        assert [entry["id"] for entry in why["similar"][role]] == rows.ids[nearest].tolist()
        assert {entry["label"] for entry in why["similar"][role]} == {int(label)}
    assert why["judges"][0]["kind"] == "heads"
    assert why["judges"][0]["nearest"][0][0] == int(rows.distances[row].argmin())


def test_evidence_shows_a_few_copies_of_an_image_on_either_side_of_a_pair(folder):
    pairs = [(5, other, 1.0, other == 20) for other in range(20, 40)] + [(3, 5, 0.99, False), (1, 2, 1.0, True)]
    table = pd.DataFrame(pairs, columns=["id_a", "id_b", "similarity", "labels_differ"])
    table.assign(path_a="", given_a="", path_b="", given_b="").iloc[::-1].to_csv(folder / "duplicates.csv", index=False)
    client = client_of(open_folder(folder))
    copies = {number: client.get(f"/api/evidence/{number}").json()["copies"] for number in (2, 3, 5, 6)}
    assert [copy["id"] for copy in copies[2]] == [1]
    assert [(copy["id"], copy["similarity"]) for copy in copies[3]] == [(5, 0.99)]
    assert [copy["id"] for copy in copies[5]] == [3, *range(39, 30, -1)]
    assert copies[6] == []


def test_evidence_follows_the_decisions(client, review):
    """An image that was relabelled is no longer a neighbour under its old label."""
    rows = review.board.rows
    row = next(i for i in range(60) if rows.given[i] != rows.suggested[i])
    address = f"/api/evidence/{rows.ids[row]}"
    near = client.get(address).json()["similar"]["given"][0]["id"]
    label = rows.class_names[rows.suggested[row]]
    client.post("/api/decide", json={"changes": [[near, "relabel", label]]})
    assert near not in [entry["id"] for entry in client.get(address).json()["similar"]["given"]]


def test_without_kept_features_there_is_still_a_review(tmp_path):
    client = client_of(open_folder(make_folder(tmp_path, kept=False)))
    assert client.get("/api/rows").json()["total"] == 60
    why = client.get("/api/evidence/0").json()
    assert why["similar"]["given"] == []
    assert why["judges"] == []
    assert len(why["typical"]["given"]) > 0
    assert client.get("/typical/0").status_code == 200
    assert client.get("/typical/5").status_code == 404


def test_pictures_do_not_wait_long_while_typical_images_are_looked_for(client, review):
    with review.evidence._typical.lock:
        assert client.get("/typical/0").status_code == 503
    assert client.get("/typical/0").status_code == 200


def test_annotators_are_shown_where_there_are_several(tmp_path):
    folder = make_folder(tmp_path)
    review = open_folder(folder)
    table = review.board.rows.table.sort_values("id")
    votes = table.assign(label_1=table["given"], label_2=table["given"], label_3=table["suggested"])
    votes[["path", "label_1", "label_2", "label_3"]].to_csv(tmp_path / "photos" / "votes.csv", index=False)
    audit = replace(open_audit(folder), table=review.board.rows.table.assign(agreement=0.7))
    several = open_review(audit, reviewer="anna", data=tmp_path / "photos" / "votes.csv")
    line = next(line for line in table.itertuples() if line.given != line.suggested)
    said = client_of(several).get(f"/api/evidence/{line.id}").json()["annotators"]
    assert said == {line.given: 2, line.suggested: 1}
    assert client_of(review).get(f"/api/evidence/{line.id}").json()["annotators"] == {}


def test_images_in_memory_are_shown_too(tmp_path):
    table, distances, pixels, names = make_audit()
    (tmp_path / "audit").mkdir()
    summary = make_summary(table, names, data="memory")
    Audit(table.assign(path=""), distances, tuple(names), summary).write(tmp_path / "audit")
    audit = replace(open_audit(tmp_path / "audit"), data=open_data(make_images()))
    client = client_of(open_review(audit, reviewer="anna"))
    row = int(table.index[table["id"] == 7][0])
    picture = Image.open(io.BytesIO(client.get("/image/7").content))
    assert np.array_equal(np.asarray(picture), pixels[row, 0].numpy())
    assert client.get("/thumb/7").headers["content-type"] == "image/webp"
    client.post("/api/decide", json={"changes": [[7, "drop", ""]]})
    assert client_of(open_review(audit, reviewer="ben")).get("/api/state").json()["counts"]["drop"] == 1


def test_a_slow_list_of_files_holds_up_nothing_else(tmp_path, monkeypatch):
    """The first picture waits for the list; the others are told to come again."""
    folder = make_folder(tmp_path)
    review = open_folder(folder)
    review.board.rows.paths[0] = "/elsewhere/a.png"  # such a path needs the list
    first, second = (f"/thumb/{number}" for number in review.board.rows.ids[:2])
    started, done, listed = threading.Event(), threading.Event(), folders.list_folder

    def slow(root):
        started.set()
        done.wait(PATIENCE)
        return listed(root)

    monkeypatch.setattr(folders, "list_folder", slow)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client_of(review).get, first)
        started.wait(PATIENCE)
        assert client_of(review).get(first).status_code == 503
        assert client_of(review).get(second).status_code == 200
        done.set()
        assert waiting.result().status_code == 404
    assert client_of(review).get(first).status_code == 404


def test_what_a_spreadsheet_would_run_is_marked_in_corrections(tmp_path):
    paths = [f"=class/image-{i}.png" for i in range(60)]
    client = client_of(open_folder(make_folder(tmp_path, paths=paths)))
    client.post("/api/decide", json={"changes": [[3, "drop", ""]]})
    text = client.get("/api/export").text
    assert '"\'=class/image-3.png"' in text
    assert client.post("/api/import", json={"text": text}).status_code == 200
