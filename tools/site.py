"""Hooks of the documentation site (see mkdocs.yml): pages that are kept outside docs/, and the notebook.

Links in the repository's pages are relative to where each page lies, so that they work there. They are rewritten to
where the site has the same file; MkDocs then checks them.
"""

from __future__ import annotations

import base64
import json
import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = (
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "benchmarks/*.md", "benchmarks/records/*.json"),
    *("reproduction/*.md", "reproduction/images/*.png", "reproduction/lists/*.csv"),
)
RENAMED = {"README.md": "index.md", "LICENSE": "LICENSE.txt"}
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#|/)([^)\s#]+)")
OPTION = re.compile(r"<code>(--?[a-z][a-z-]{0,30})</code>")
CODE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def place_on_site(path: str) -> str:
    """Where the site has a file of the repository; links to a notebook lead to its page."""
    return RENAMED.get(path, re.sub(r"\.ipynb$", ".md", path.removeprefix("docs/")))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files from outside docs/, and a page for each notebook."""
    for path in sorted(path for pattern in OUTSIDE for path in ROOT.glob(pattern)):
        place = place_on_site(path.relative_to(ROOT).as_posix())
        files.append(File.generated(config, place, abs_src_path=os.fspath(path)))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = json.loads(file.content_string)
        name = file.src_uri.removesuffix(".ipynb")
        files.append(File.generated(config, f"{name}.md", content="\n\n".join(notebook_text(notebook, name))))
        for place, picture in notebook_pictures(notebook, name):
            files.append(File.generated(config, place, content=picture))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to where the site has their files."""
    source = page.file.abs_src_path  # none: the page was made by this file
    if source is None:
        return markdown
    folder, here = Path(source).parent, posixpath.dirname(page.file.src_uri)

    def moved(link: re.Match[str]) -> str:
        target = Path(os.path.normpath(folder / link[1]))
        if not target.is_relative_to(ROOT):
            return link[1]
        return posixpath.relpath(place_on_site(target.relative_to(ROOT).as_posix()), here or ".")

    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(moved, text) for text in parts[::2]]
    return "".join(parts)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Keep options whole: a narrow screen would break them after their hyphens."""
    return OPTION.sub(r'<code style="white-space: nowrap">\1</code>', html)


def notebook_text(notebook: dict[str, Any], name: str) -> Iterator[str]:
    """A notebook's cells and their outputs as Markdown."""
    for i, cell in enumerate(notebook["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield text
            continue
        yield f"```python\n{text}\n```"
        for j, output in enumerate(cell["outputs"]):
            data = output.get("data", {})
            if "image/png" in data:
                yield f"![Output of the cell above]({posixpath.basename(name)}/{i}-{j}.png)"
            elif "text/html" in data:
                yield "".join(data["text/html"])
            else:
                yield f"```text\n{''.join(output.get('text') or data['text/plain']).rstrip()}\n```"


def notebook_pictures(notebook: dict[str, Any], name: str) -> Iterator[tuple[str, bytes]]:
    """The pictures among a notebook's outputs, and where the site has them."""
    for i, cell in enumerate(notebook["cells"]):
        for j, output in enumerate(cell.get("outputs", ())):
            if "image/png" in output.get("data", {}):
                yield f"{name}/{i}-{j}.png", base64.b64decode("".join(output["data"]["image/png"]))
