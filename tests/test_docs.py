"""The documentation: links lead somewhere."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md"))
)
CODE_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@cache
def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    headings = HEADING.findall(CODE_BLOCK.sub("", path.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_pages_are_found():
    assert {"README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/guide.md", "docs/results.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_links_within_the_repository_lead_somewhere(page):
    text = CODE_BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8"))
    # Words on a result are shown on the page of results, and their links count from there.
    folder = (ROOT / page).parent
    folder = ROOT / "docs" if folder.name == "discussion" and not page.endswith("README.md") else folder
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = folder / name if name else (ROOT / "docs/results.md" if "discussion" in page else ROOT / page)
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
