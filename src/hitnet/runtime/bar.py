"""A bar over the whole of some long-running work, with its parts by name, in a terminal or a notebook."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from hitnet.runtime import ranks
from hitnet.runtime.progress import Progress, Training
from hitnet.runtime.terminal import make_console, printable

REDRAW_SECONDS = 0.5  # in a notebook
ALMOST = 1 - 1e-6  # of all work: rich stops the clock where all is done, but another part may follow
_showing = False  # whether this process shows a bar already


@contextmanager
def shown(progress: Progress | bool, title: str) -> Iterator[Progress]:
    """Yield hooks: those that are given, or for True a bar where people see it: in a terminal or a notebook.

    HITNET_PROGRESS=0 hides all bars.
    """
    global _showing
    if isinstance(progress, Progress):
        yield progress
        return
    console = make_console(stderr=True)
    hidden = _showing or ranks.rank() > 0 or os.environ.get("HITNET_PROGRESS") == "0"
    if not progress or hidden or not (console.is_terminal or console.is_jupyter):
        yield Progress()
        return
    bar = Bar(title, console)
    _showing = True
    try:
        with bar.bars:
            yield bar
            bar.finish()
    finally:
        _showing = False


class Figures(ProgressColumn):
    """What is done of the current part, and how fast."""

    def render(self, task: Task) -> Text:
        fields = task.fields
        if fields["steps"] is None:
            return Text("")
        done = f"{fields['done']:,} of {fields['steps']:,} {fields['unit']}"
        speed = (task.speed or 0.0) * fields["steps"] / fields["share"]
        return Text(f"{done}, {rate(speed, fields['unit'])}" if speed else done)


def rate(speed: float, unit: str) -> str:
    """Steps per second in words, e.g. 19.7 images/s."""
    return f"{speed:,.0f} {unit}/s" if speed >= 100 else f"{speed:.3g} {unit}/s"


class Bar(Progress):
    """One bar over all parts of the work, as they were planned; without a plan, over one part at a time."""

    def __init__(self, title: str, console: Console) -> None:
        self.title = printable(title)
        self.shares: Mapping[str, float] = {}
        self.before = 0.0  # the share of the parts that are done
        self.notebook: Any = None
        self.redrawn = 0.0
        name, figures = (TextColumn(f"{{task.{each}}}", markup=False) for each in ("description", "fields[figures]"))
        times = TextColumn("elapsed"), TimeElapsedColumn(), TextColumn("remaining"), TimeRemainingColumn()
        # In a notebook, rich needs further packages.
        self.bars = Bars(name, BarColumn(), Figures(), *times, figures, console=console, disable=console.is_jupyter)
        self.task = self.bars.add_task(self.title, total=1.0, done=0, steps=None, unit="", share=1.0, figures="")
        if console.is_jupyter:
            from IPython.display import display

            self.notebook = display(self.bars.make_tasks_table(self.bars.tasks), display_id=True)

    def plan(self, parts: Mapping[str, float]) -> None:
        total = sum(parts.values())
        self.shares = {name: share / total for name, share in parts.items()}
        self.before = 0.0

    def part(self, name: str, steps: int | None = None, unit: str = "steps") -> None:
        if name in self.shares:
            names = list(self.shares)
            self.before = sum(self.shares[each] for each in names[: names.index(name)])
        else:
            self.before, self.shares = 0.0, {}
        fields: dict[str, Any] = {"done": 0, "steps": steps, "unit": unit, "share": self.shares.get(name, 1.0)}
        title = f"{self.title}: {printable(name)}"
        self.bars.update(self.task, completed=self.before, description=title, figures="", **fields)
        self.redraw(now=True)

    def step(self, count: int = 1) -> None:
        fields = self.bars.tasks[self.task].fields
        if fields["steps"]:
            done = fields["done"] + count
            completed = self.before + fields["share"] * done / fields["steps"]
            self.bars.update(self.task, completed=min(completed, ALMOST), done=done)
            self.redraw()

    def epoch(self, training: Training) -> None:
        row = training.history[-1]
        test = f", test error {100 * row['test_error']:.2f} %" if "test_error" in row else ""
        self.bars.update(self.task, figures=f"epoch {row['epoch']}: loss {row['loss']:.4f}{test}")
        self.redraw()

    def finish(self) -> None:
        """Show that all is done."""
        self.bars.update(self.task, completed=1.0)
        self.redraw(now=True)

    def redraw(self, *, now: bool = False) -> None:
        """Draw the bar again in a notebook, but not at every step; a terminal draws it by itself."""
        if self.notebook is not None and (now or time.monotonic() > self.redrawn + REDRAW_SECONDS):
            self.redrawn = time.monotonic()
            self.notebook.update(self.bars.make_tasks_table(self.bars.tasks))
