"""`hitnet review` as a process: its address, its end, kill -9, and the package that it needs."""

import json
import signal
import sys
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

import pandas as pd
import pytest

from forked import Forked
from patience import PATIENCE, wait_until

sys.path[:0] = [str(Path(__file__).parents[1] / room) for room in ("audit", "review")]

from review_samples import make_folder  # noqa: E402


@pytest.fixture
def served(tmp_path):
    """Start `hitnet review`; returns the process and the page's address."""
    folder = make_folder(tmp_path)
    processes = []

    def start(*options):
        process = Forked("-m", "hitnet", "review", folder, "--no-open", *options)
        processes.append(process)
        wait_until(lambda: "\n" in process.out, "the page is served")
        line = process.out.splitlines()[0]
        assert line.startswith("review page: http://127.0.0.1:"), process.err
        return process, line.split(": ", 1)[1]

    yield folder, start
    for process in processes:
        process.kill()


class Page:
    """What a browser does: it takes the cookie, and sends its origin with every change."""

    def __init__(self, address):
        self.root = address.partition("/?")[0]
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        assert b"<title>" in self.opener.open(address).read()

    def decide(self, *changes):
        body = json.dumps({"changes": changes}).encode()
        headers = {"content-type": "application/json", "origin": self.root}
        request = urllib.request.Request(f"{self.root}/api/decide", body, headers)
        return json.loads(self.opener.open(request).read())


@pytest.mark.slow
def test_what_the_page_shows_as_saved_survives_kill_9_and_ctrl_c_and_is_applied(served, tmp_path, command):
    folder, start = served
    process, address = start("--reviewer", "anna")
    page = Page(address)
    table = pd.read_parquet(folder / "audit.parquet")
    first, second = table.iloc[0], table.iloc[1]
    page.decide([int(first["id"]), "drop", ""])
    answer = page.decide([int(second["id"]), "keep", ""])
    assert answer["counts"]["keep"] == 1
    process.send_signal(signal.SIGKILL)
    process.wait()
    process, again = start("--reviewer", "ben", "--port", "0")
    assert Page(again).decide([int(second["id"]), "neither", ""])["counts"]["disputed"] == 1
    process.send_signal(signal.SIGINT)
    assert (process.wait(PATIENCE), process.err) == (0, "")
    apply = f"To write the corrected data: hitnet apply {folder} --out NEW"
    assert process.out.splitlines()[-1] == f"2 decisions are saved. {apply}"
    ended = command("apply", folder, "--out", tmp_path / "new")
    assert ended.code == 0
    assert ended.out.splitlines()[0] == "0 relabelled, 1 dropped, 0 kept, 0 unsure, 58 not looked at"
    assert "1 image on which reviewers disagree stays as it is." in ended.out
    assert not (tmp_path / "new" / first["path"]).exists()
    assert (tmp_path / "new" / second["path"]).exists()
    own = command("apply", folder, "--out", tmp_path / "by ben", "--reviewer", "ben")
    assert "1 where neither label fits" in own.out
    none = command("apply", folder, "--out", tmp_path / "by carl", "--reviewer", "carl")
    assert none.code == 1
    assert "holds no decisions by 'carl'" in none.err


@pytest.mark.parametrize(
    ("decided", "said"),
    [(0, "No decisions yet."), (1, "1 decision is saved. To write the corrected data: hitnet apply x --out NEW")],
)
def test_what_is_said_of_few_decisions(command, monkeypatch, decided, said):
    monkeypatch.setattr("hitnet.cli.review.serve_review", lambda *given, **options: decided)
    assert command("review", "x").out.splitlines() == [said]


def test_no_decisions_and_no_audit(command, tmp_path):
    folder = make_folder(tmp_path)
    ended = command("apply", folder, "--out", tmp_path / "new")
    assert ended.code == 1
    assert "holds no decisions. Decide with" in ended.err
    assert "is not the folder of a finished audit" in command("review", tmp_path / "photos").err
