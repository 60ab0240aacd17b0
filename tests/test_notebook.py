"""The notebook of the documentation runs from top to bottom, and its network learns."""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]


@pytest.mark.slow(seconds=180)
def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))  # the kernel is a process of its own
    notebook = nbformat.read(ROOT / "docs" / "notebook.ipynb", as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    printed = "".join(output.get("text", "") for cell in cells for output in cell.outputs)
    assert float(re.search(r"wrong on ([\d.]+) %", printed)[1]) < 20
    kinds = [sorted(output.get("data", ())) for cell in cells for output in cell.outputs]
    assert kinds.count(["image/png", "text/plain"]) == 3
