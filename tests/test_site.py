"""The documentation site: built without a warning, as GitHub shows the same pages, and without any other server."""

import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

import hitnet

pytestmark = pytest.mark.slow(seconds=180)  # builds the site

ROOT = Path(__file__).parents[1]
COUNTED = ("h1", "h2", "h3", "img", "li", "pre", "table", "td")
PAGES = {  # on the site, by their place in the repository
    "README.md": "index.html",
    "reproduction/README.md": "reproduction/index.html",
    **{
        name: name.replace(".md", ".html")
        for name in ("CHANGELOG.md", "CONTRIBUTING.md", "benchmarks/TRIALS.md", "reproduction/results.md")
    },
    **{f"docs/{path.name}": f"{path.stem}.html" for path in sorted((ROOT / "docs").glob("*.md")) if path.stem != "api"},
}


class Elements(HTMLParser):
    """A page: its elements, anchors and links, and what a browser loads with it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.counts[tag] += 1
        self.anchors.add(values.get("id"))
        addresses = [values[name] for name in ("src", "href") if values.get(name)]
        (self.links if tag == "a" else self.loaded).extend(addresses)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path.relative_to(site).as_posix(): Elements(path.read_text("utf-8")) for path in site.rglob("*.html")}


def test_every_link_leads_to_a_file_and_an_anchor_of_the_site(site, pages):
    for page, elements in pages.items():
        for link in elements.links + elements.loaded:
            address = urlsplit(link)
            if address.scheme or page == "404.html":
                continue
            target = os.path.normpath(Path(page).parent / unquote(address.path)) if address.path else page
            assert (site / target).is_file(), f"{page}: {link}"
            if address.fragment and target in pages:
                assert unquote(address.fragment) in pages[target].anchors | {"__codelineno"}, f"{page}: {link}"


def test_no_page_loads_anything_from_another_server(site, pages):
    for page, elements in pages.items():
        assert not [link for link in elements.loaded if re.match(r"https?:|//", link)], page
    for style in site.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:|//)", style.read_text("utf-8")), style


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_the_elements_that_github_shows(site, page):
    """The site's Markdown is stricter: it takes a list right below a sentence for more of the sentence."""
    expected = Elements(MarkdownIt("commonmark").enable("table").render((ROOT / page).read_text("utf-8"))).counts
    article = re.search(r"<article.*?</article>", (site / PAGES[page]).read_text("utf-8"), re.DOTALL)
    shown = Elements(article[0]).counts
    assert {name: shown[name] for name in COUNTED} == {name: expected[name] for name in COUNTED}


def test_the_reference_has_every_public_name(pages):
    assert {f"hitnet.{name}" for name in hitnet.__all__} <= pages["api.html"].anchors


def test_the_notebook_is_shown_with_its_pictures(site, pages):
    pictures = [link for link in pages["notebook.html"].loaded if link.startswith("notebook/")]
    assert len(pictures) == 3
    assert all((site / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_an_option_is_never_broken_after_its_hyphens(site):
    assert '<code style="white-space: nowrap">--flip</code>' in (site / "guide.html").read_text("utf-8")
