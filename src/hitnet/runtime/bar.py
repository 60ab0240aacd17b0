"""How far long-running work is: a bar over all its parts, in a terminal or a notebook; elsewhere, lines at times."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.text import Text

from hitnet.runtime import ranks
from hitnet.runtime.progress import Progress, Training
from hitnet.runtime.terminal import make_console, printable

REDRAW_SECONDS = 0.5  # in a notebook
LINE_SECONDS, LINE_SHARE = 30.0, 0.1  # of time and work between lines in a log: work that ends sooner writes none
ALMOST = 1 - 1e-6  # of all work: rich stops the clock where all is done, but another part may follow
_showing = False  # whether this process shows a bar already


@contextmanager
def shown(progress: Progress | bool, title: str) -> Iterator[Progress]:
    """Yield hooks: those that are given, or for True a bar in a terminal or a notebook, and lines in a log or a pipe.

    HITNET_PROGRESS=0 hides both.
    """
    global _showing
    if isinstance(progress, Progress):
        yield progress
        return
    console = make_console(stderr=True)
    hidden = _showing or ranks.rank() > 0 or os.environ.get("HITNET_PROGRESS") == "0"
    if not progress or hidden:
        yield Progress()
        return
    if not (console.is_terminal or console.is_jupyter):
        yield Lines(title, console)
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
        speed = (task.speed or 0.0) * fields["steps"] / (fields["share"] or 1.0)
        return Text(f"{done}, {rate(speed, fields['unit'])}" if speed else done)


def rate(speed: float, unit: str) -> str:
    """Steps per second in words, e.g. 19.7 images/s."""
    return f"{speed:,.0f} {unit}/s" if speed >= 100 else f"{speed:.3g} {unit}/s"


class Shares(Progress):
    """How much is done of all parts of the work, as they were planned; without a plan, of one part at a time.

    It never goes back: of what is left when a part begins, that part gets its share among those that are planned after
    it. So parts may be left out, and the plan may change once more is known.
    """

    def __init__(self, title: str) -> None:
        self.title = self.heading = printable(title)
        self.planned: Mapping[str, float] = {}
        self.name, self.unit, self.steps, self.done = "", "", 0, 0  # of the current part
        self.before, self.share = 0.0, 0.0  # where the current part begins, and how much of all it is

    @property
    def completed(self) -> float:
        """The share of all work that is done."""
        return min(self.before + self.share * min(1.0, self.done / (self.steps or 1)), ALMOST)

    def plan(self, parts: Mapping[str, float]) -> None:
        if not self.planned:
            self.before = self.share = 0.0
        self.planned = dict(parts)

    def part(self, name: str, steps: int | None = None, unit: str = "steps") -> None:
        end = self.before + self.share
        if name not in self.planned:
            self.planned, self.before, self.share = {}, 0.0, 1.0
        elif name == self.name:
            self.before, self.share = self.completed, end - self.completed
        else:
            to_come = list(self.planned.values())[list(self.planned).index(name) :]
            self.before, self.share = end, (1 - end) * to_come[0] / sum(to_come)
        self.name, self.unit, self.steps, self.done = name, unit, steps or 0, 0
        self.heading = f"{self.title}: {printable(name)}"

    def step(self, count: int = 1) -> None:
        self.done += count if self.steps else 0


class Lines(Shares):
    """Long work as lines, where nobody watches: in a log or a pipe."""

    def __init__(self, title: str, console: Console) -> None:
        super().__init__(title)
        self.console = console
        self.began = self.last = time.monotonic()
        self.told = 0.0  # what was done when the last line was written

    def step(self, count: int = 1) -> None:
        super().step(count)
        now, done = time.monotonic(), self.completed
        if now < self.last + LINE_SECONDS or abs(done - self.told) < LINE_SHARE:
            return
        self.last, self.told = now, done
        spent, left = (timedelta(seconds=round(each * (now - self.began))) for each in (1, 1 / done - 1))
        figures = f"{self.done:,} of {self.steps:,} {self.unit}"
        times = f"elapsed {spent}, remaining {left}" if self.planned else f"elapsed {spent}"
        self.console.print(f"{self.heading}, {figures}; {done:.0%} done, {times}", soft_wrap=True)


class Bar(Shares):
    """One bar over all the work."""

    def __init__(self, title: str, console: Console) -> None:
        super().__init__(title)
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

    def part(self, name: str, steps: int | None = None, unit: str = "steps") -> None:
        super().part(name, steps, unit)
        fields: dict[str, Any] = {"done": 0, "steps": steps, "unit": unit, "share": self.share}
        self.bars.update(self.task, completed=self.completed, description=self.heading, figures="", **fields)
        self.redraw(now=True)

    def step(self, count: int = 1) -> None:
        super().step(count)
        if self.steps:
            self.bars.update(self.task, completed=self.completed, done=self.done)
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
