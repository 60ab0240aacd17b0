import base64
import hashlib
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from audit_samples import make_audit, make_summary, with_neighbours
from PIL import Image

from hitnet.audit import report
from hitnet.audit.report import LADDER, SHOWN, choose_rows, make_thumbnails, show_pixels, size_of, write_page
from hitnet.audit.scoring import FLAGS
from hitnet.errors import HitNetError


class Page(HTMLParser):
    """The page as a browser's parser sees it: its elements, and the text of each script by id."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.scripts, self.policy, self.styles, self._open = [], {}, "", [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._open = (tag, dict(attrs))
        if dict(attrs).get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(attrs)["content"]

    def handle_data(self, data):
        tag, attrs = self._open or ("", {})
        if tag == "script":
            self.scripts[attrs.get("id", "code")] = data
        elif tag == "style":
            self.styles.append(data)

    def handle_endtag(self, tag):
        self._open = None

    @property
    def data(self):
        return json.loads(self.scripts["audit-data"])


def write(tmp_path, audit, **options):
    table, distances, pixels, names = audit
    options = {"title": "An audit", "summary": make_summary(table, names), **options}
    shown = write_page(tmp_path / "page.html", table, distances, pixels, **options)
    return shown, Page((tmp_path / "page.html").read_text(encoding="utf-8"))


def test_page_holds_the_shown_rows_in_the_tables_order(tmp_path):
    audit = make_audit()
    shown, page = write(tmp_path, audit)
    rows = page.data["rows"]
    assert shown == 60
    assert rows["id"] == audit[0]["id"].tolist()
    assert [page.data["names"][k] for k in rows["given"]] == audit[0]["given"].tolist()
    assert rows["rule"] == audit[0]["rule"].tolist()
    np.testing.assert_allclose(rows["score"], audit[0]["score"], atol=1e-4)


def test_policy_admits_the_pages_own_style_and_script_alone(tmp_path):
    _, page = write(tmp_path, make_audit())
    assert "default-src 'none'" in page.policy
    for directive, text in (("style-src", page.styles[0]), ("script-src", page.scripts["code"])):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in page.policy
    assert "unsafe" not in page.policy
    assert "</script" not in page.scripts["code"]
    assert "innerHTML" not in page.scripts["code"]


def test_keys_are_in_the_order_of_the_buttons(tmp_path):
    write(tmp_path, make_audit())
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    for keys in (re.findall(r'\bkey: "(\d)"', text), re.findall(r'data-key="(\d)"', text)):
        assert keys == list("123456")


def test_page_names_no_address_outside_itself(tmp_path):
    write(tmp_path, make_audit())
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|//[a-z]+\.[a-z]", re.sub(r'"thumbs":{[^}]*}', "", text))


def test_hostile_names_stay_data(tmp_path):
    names = ["</script><script>alert(1)</script>", "<!--", '"><img src=x onerror=alert(1)>', "\ud800 half", "שלום\r\n"]
    audit = make_audit(names=names)
    _, page = write(tmp_path, audit, title="</title><script>alert(2)</script>\udcff")
    _, plain = write(tmp_path, make_audit())
    assert page.tags == plain.tags
    assert page.data["names"] == names
    assert page.data["rows"]["path"] == audit[0]["path"].tolist()


def test_charts_hold_the_nearest_classes_and_both_labels(tmp_path):
    audit = make_audit(200, 40, suspects=30)
    _, page = write(tmp_path, audit)
    rows = page.data["rows"]
    for i in (0, 5, 100):
        near, distances = rows["near"][i], audit[1][i]
        assert len(near) == 10
        assert {rows["given"][i], rows["suggested"][i]} <= set(near)
        assert set(np.argsort(distances)[:8]) <= set(near)
        assert rows["near_distance"][i] == sorted(rows["near_distance"][i])
        np.testing.assert_allclose(rows["near_distance"][i], distances[near], atol=1e-3)


def test_two_classes_and_missing_figures(tmp_path):
    table, distances, pixels, names = make_audit(12, 2, suspects=4)
    table.loc[0, "ghost_distance"] = np.nan
    _, page = write(tmp_path, (table, distances, pixels, names))
    assert page.data["rows"]["ghost_distance"][0] is None
    assert len(page.data["rows"]["near"][0]) == 2


def test_many_classes_leave_room_for_images(tmp_path):
    table, distances, images, names = make_audit()
    more = [*names, *(f"further class {k}" for k in range(5000))]
    wide = np.concatenate([distances, np.full((len(table), 5000), 1.5, distances.dtype)], axis=1)
    shown, _ = write(tmp_path, (table, wide, images, more))
    assert shown == len(table)


def test_page_holds_the_audits_figures(tmp_path):
    table, _, _, names = audit = make_audit()
    whole = make_summary(table, names, duplicates={"pairs": 3, "labels_differ": 1}, prototypes="typical")
    _, page = write(tmp_path, audit, summary=whole)
    assert page.data["summary"] == {key: whole.to_json()[key] for key in SHOWN}
    assert page.data["flag_counts"] == [int((table["flag"] == flag).sum()) for flag in FLAGS]
    pairs = table[table["given"] != table["suggested"]].groupby(["given", "suggested"]).size()
    assert {(names[a], names[b]): count for a, b, count in page.data["pairs"]} == pairs.to_dict()
    assert page.data["flags"] == list(FLAGS)


def test_fingerprint_tells_audits_apart(tmp_path):
    table, distances, pixels, names = make_audit()
    _, first = write(tmp_path, (table, distances, pixels, names))
    _, again = write(tmp_path, (table, distances, pixels, names), limit=10)
    _, other = write(tmp_path, (table.assign(score=table["score"] / 2), distances, pixels, names))
    assert first.data["fingerprint"] == again.data["fingerprint"] != other.data["fingerprint"]


@pytest.mark.parametrize(
    ("suspects", "others", "limit", "shown"),
    [(0, 1000, 10_000, 200), (500, 5000, 10_000, 1000), (300, 50, 10_000, 350), (900, 5000, 600, 600)],
)
def test_rows_are_suspects_then_the_doubtful(suspects, others, limit, shown):
    flags = np.array(["wrong"] * suspects + ["ok"] * others)
    rows = choose_rows(flags, limit=limit)
    np.testing.assert_array_equal(rows, np.arange(shown))


def test_suspects_below_doubtful_rows_are_not_lost():
    flags = np.array(["ok"] * 300 + ["none of the classes"] * 10)
    rows = choose_rows(flags, limit=50)
    assert set(range(300, 310)) <= set(rows.tolist())
    assert len(rows) == 50


def decoded(thumbnail):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(thumbnail))).convert("RGB"))


def test_each_thumbnail_shows_its_image():
    images = torch.zeros(300, 3, 20, 30, dtype=torch.uint8)
    images[:, 0] = torch.arange(300).remainder(250)[:, None, None]
    images[:, 1] = 40 * torch.arange(300).remainder(6)[:, None, None]
    rows = list(range(299, -1, -1))
    made = make_thumbnails(show_pixels(images), rows, budget=10_000_000)
    assert len(made) == 300
    for place in (0, 17, 255, 299):
        assert decoded(made[place]).shape == (20, 30, 3)
        np.testing.assert_allclose(decoded(made[place]).mean((0, 1)), images[rows[place], :, 0, 0], atol=6)


def test_photographs_shrink_to_readable_thumbnails_and_then_become_fewer():
    images = torch.randint(0, 256, (3, 1, 200, 400), dtype=torch.uint8)
    made, budget = [], 1_000_000
    while len(made) < len(LADDER) or len(made[-1]) == 3:
        made.append(make_thumbnails(show_pixels(images), range(3), budget=budget))
        budget = size_of(made[-1]) - 1  # too little for these: the next are coarser
    sizes = [decoded(each[0]).shape[1::-1] for each in made]
    assert sizes == [(320, 160), (224, 112), *4 * [(160, 80)]]
    assert made[-1] == made[-2][:2]


def test_a_photograph_among_icons_stays_readable(monkeypatch):
    """Also where the sample holds only icons, and nothing fits."""
    monkeypatch.setattr(report, "SAMPLE", 1)
    icons, photograph = torch.zeros(1, 12, 12, dtype=torch.uint8), torch.zeros(1, 300, 400, dtype=torch.uint8)
    images = [icons, photograph]
    made = make_thumbnails(lambda row, side: show_pixels(images[row][None])(0, side), range(2), budget=1, most=10**6)
    assert [decoded(each).shape[:2] for each in made] == [(12, 12), (120, 160)]


def test_each_picture_is_asked_for_once_however_little_room_there_is(monkeypatch):
    """Also where the sample makes finer ones seem to fit, and they do not."""
    monkeypatch.setattr(report, "SAMPLE", 4)
    images = torch.randint(0, 256, (16, 1, 100, 200), dtype=torch.uint8)
    images[::4] = 0
    asked, show = [], show_pixels(images)

    def made(**room):
        asked.clear()
        thumbnails = make_thumbnails(lambda row, side: asked.append(row) or show(row, side), range(16), **room)
        assert sorted(asked) == list(range(16))
        return thumbnails

    whole = made(budget=10**7)
    coarser = made(budget=size_of(whole) - 1)
    coarsest = made(budget=1, most=10**7)
    assert [decoded(each[1]).shape[:2] for each in (whole, coarser)] == [(100, 200), (80, 160)]
    assert len(whole) == len(coarser) == len(coarsest) == 16
    assert size_of(whole) > size_of(coarser) > size_of(coarsest)
    assert made(budget=1, most=size_of(coarsest) - 1) == coarsest[:15]


def test_small_images_keep_their_size_and_the_best_quality():
    images = torch.randint(0, 256, (3, 1, 12, 12), dtype=torch.uint8)
    made = make_thumbnails(show_pixels(images), range(3), budget=1_000_000)
    assert decoded(made[0]).shape == (12, 12, 3)
    assert size_of(made) > size_of(make_thumbnails(show_pixels(images), range(3), budget=size_of(made) - 1))


def test_photographs_in_memory_are_shown_without_the_bars_of_fitting():
    wide, high, dark, black = (torch.zeros(3, 20, 30, dtype=torch.uint8) for _ in range(4))
    wide[:, 5:15] = 90
    high[:, :, 10:20] = 90
    dark[:, 5:15, 10:20] = 90  # an object before black
    made = make_thumbnails(show_pixels(torch.stack([wide, high, dark, black])), range(4), budget=10**6)
    assert [decoded(each).shape[:2] for each in made] == [(10, 30), (20, 10), (20, 30), (20, 30)]
    grey = make_thumbnails(show_pixels(wide[None, :1]), range(1), budget=10**6)
    assert decoded(grey[0]).shape[:2] == (20, 30)


def test_neighbours_of_the_shown_images_are_on_the_page(tmp_path):
    table, distances, _, names = with_neighbours(make_audit())
    pixels = torch.from_numpy(table["id"].to_numpy(np.uint8) * 4)[:, None, None, None].expand(-1, 1, 16, 16)
    shown, page = write(tmp_path, (table, distances, pixels, names), limit=4)
    rows, thumbs = page.data["rows"], page.data["thumbs"]
    assert shown == 4
    assert rows["like_given"] == table["like_given"][:4].tolist()
    assert rows["like_suggested"] == table["like_suggested"][:4].tolist()
    wanted = {*rows["id"], *rows["like_given"], *rows["like_suggested"]}
    assert {int(number) for number in thumbs} == wanted > set(rows["id"])
    for number, thumbnail in thumbs.items():
        np.testing.assert_allclose(decoded(thumbnail), 4 * int(number), atol=4)


def test_a_page_without_neighbours_shows_none(tmp_path):
    table, distances, pixels, names = make_audit()
    _, page = write(tmp_path, (table, distances, pixels, names))
    assert "like_given" not in page.data["rows"]
    alone = table.assign(like_given=-1, like_suggested=-1)
    _, page = write(tmp_path, (alone, distances, pixels, names), limit=10)
    assert len(page.data["thumbs"]) == 10
    _, page = write(tmp_path, with_neighbours((table, distances, pixels, names)))
    assert len(page.data["thumbs"]) == 60  # all images are shown anyway
    assert page.data["rows"]["like_given"][0] in page.data["rows"]["id"]


def test_neighbours_take_no_rows_from_a_small_page(tmp_path):
    table, distances, _, names = make_audit(1200, 5, suspects=200)
    likes = np.random.default_rng(0).permutation(table["id"])
    pixels = torch.randint(0, 256, (1200, 3, 24, 24), dtype=torch.uint8)
    plain = (table, distances, pixels, names)
    similar = (table.assign(like_given=likes, like_suggested=likes[::-1]), distances, pixels, names)
    counts = []
    for budget in (300_000, 500_000, 20_000_000):
        shown, _ = write(tmp_path, plain, max_bytes=budget)
        shown_with, page = write(tmp_path, similar, max_bytes=budget)
        assert (tmp_path / "page.html").stat().st_size <= budget
        assert abs(shown - shown_with) <= shown // 10  # the ids of neighbours take some room
        counts.append((shown, len(page.data["thumbs"]) - shown_with))
    assert 100 < counts[0][0] < counts[1][0] == counts[2][0] == 400  # too small for all rows, for all in detail, enough
    assert counts[0][1] < counts[1][1] <= counts[2][1]
    rows = page.data["rows"]
    assert counts[2][1] == len(set(likes) & {*rows["like_given"], *rows["like_suggested"]} - set(rows["id"]))


def test_a_small_budget_gives_coarser_then_fewer_thumbnails(tmp_path):
    table, distances, _, names = make_audit(300, 5, suspects=300)
    pixels = torch.randint(0, 256, (300, 3, 24, 24), dtype=torch.uint8)
    audit = (table, distances, pixels, names)
    sizes, shown = [], []
    for budget in (20_000_000, 420_000, 300_000):
        shown.append(write(tmp_path, audit, max_bytes=budget)[0])
        sizes.append((tmp_path / "page.html").stat().st_size)
        assert sizes[-1] <= budget
    assert shown[0] == shown[1] == 300
    assert 100 < shown[2] < 300
    assert sizes[1] < sizes[0]


def test_long_paths_leave_room_for_thumbnails(tmp_path):
    audit = make_audit(3000, 5, suspects=3000, paths=["é" * 300] * 3000)
    shown, page = write(tmp_path, audit, max_bytes=800_000)
    assert 0 < shown < 3000
    assert len(page.data["rows"]["id"]) == shown
    assert (tmp_path / "page.html").stat().st_size <= 800_000


def test_mistakes_are_named(tmp_path):
    table, distances, pixels, names = make_audit()
    with pytest.raises(HitNetError, match="prototypes"):
        write(tmp_path, (table, distances, pixels, names), prototypes=pixels[:3])
    with pytest.raises(HitNetError, match="no room"):
        write(tmp_path, (table, distances, pixels, names), max_bytes=80_000)
    assert not list(tmp_path.iterdir())
