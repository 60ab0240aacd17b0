"""The progress bar: readable figures, one bar over all parts, and silence where nobody looks."""

import io
import re
import sys

import pytest
from rich.console import Console

import hitnet
from hitnet import Progress
from hitnet.runtime import Training, bar
from hitnet.runtime.bar import Bar, rate, shown
from toy import toy_images


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def made():
    """A bar on a clock of its own, without a terminal."""
    made = Bar("Auditing shoes\x1b[2J", Console(file=io.StringIO(), width=200))
    made.bars.get_time = Clock()
    made.bars.tasks[0]._get_time = made.bars.get_time
    made.bars.tasks[0].start_time = made.bars.get_time()
    return made


def line(made):
    console = Console(file=io.StringIO(), width=200)
    console.print(made.bars.make_tasks_table(made.bars.tasks))
    return re.sub(r"\s+", " ", console.file.getvalue()).strip()


def walk(made, steps, seconds, count=1):
    for _ in range(steps):
        made.bars.get_time.now += seconds
        made.step(count)


def test_part_rate_elapsed_and_remaining_are_named(made):
    made.part("features", 800, "images")
    walk(made, 40, 1.0, 10)
    shows = line(made)
    assert shows.startswith("Auditing shoes\\x1b[2J: features ")
    assert "400 of 800 images, 10 images/s elapsed 0:00:40 remaining 0:00:40" in shows


def test_rates_are_read_at_a_glance():
    assert [rate(value, "images") for value in (189_123.4, 19.71, 0.4239)] == [
        "189,123 images/s",
        "19.7 images/s",
        "0.424 images/s",
    ]


def test_one_bar_over_all_planned_parts(made):
    made.plan({"features": 3, "heads": 1})
    made.part("features", 10, "images")
    walk(made, 10, 3.0)
    assert made.bars.tasks[0].completed == pytest.approx(0.75)
    made.part("heads")
    made.bars.get_time.now += 5
    assert ": heads " in line(made)
    assert "elapsed 0:00:35" in line(made)  # the clock runs on
    made.part("heads", 4)
    walk(made, 2, 5.0)
    assert made.bars.tasks[0].completed == pytest.approx(0.875)
    made.finish()
    assert made.bars.tasks[0].completed == 1


def test_it_never_goes_back_when_the_plan_changes_or_parts_are_left_out(made):
    made.plan({"features": 1, "training": 3, "heads": 1, "results": 1})
    made.part("features", 4)
    walk(made, 4, 1.0)
    assert made.completed == pytest.approx(1 / 6)
    made.plan({"training": 8, "features": 1, "heads": 1})  # more is known: it divides what is left
    assert made.completed == pytest.approx(1 / 6)
    made.part("training", 2)
    walk(made, 3, 1.0)  # one more than was announced
    assert made.completed == pytest.approx(1 / 6 + 5 / 6 * 0.8)
    made.part("heads", 10)  # without features
    assert made.completed == pytest.approx(1 / 6 + 5 / 6 * 0.8)
    walk(made, 5, 1.0)
    assert made.completed == pytest.approx(1 - 5 / 6 * 0.2 / 2)
    assert made.bars.tasks[0].completed == made.completed


def test_work_without_a_plan_has_one_part_at_a_time(made):
    for name in ("reading", "training"):
        made.part(name, 4)
        assert made.bars.tasks[0].completed == 0
        walk(made, 4, 1.0)
        assert made.bars.tasks[0].completed == pytest.approx(1, abs=1e-5)
        assert not made.bars.tasks[0].finished  # the clock runs on


def test_the_last_epoch_is_shown(made):
    made.part("training", 10)
    made.epoch(Training(None, [{"epoch": 3, "loss": 0.5, "test_error": 0.0123}], None, 0, None))
    assert line(made).endswith("epoch 3: loss 0.5000, test error 1.23 %")


@pytest.fixture
def terminal(monkeypatch):
    """As if standard error were a terminal; gives what is written there."""
    console = Console(file=io.StringIO(), force_terminal=True, width=200)
    monkeypatch.setattr(bar, "make_console", lambda stderr: console)
    monkeypatch.delenv("HITNET_PROGRESS", raising=False)
    return console.file


def test_training_shows_a_bar_on_a_terminal(terminal):
    options = {"model": "hitnet-small", "recipe": hitnet.choose_recipe(epochs=2), "device": "cpu"}
    hitnet.train(toy_images(30), **options)
    assert "Training on toy: training" in terminal.getvalue()
    assert "2 of 2 steps" in terminal.getvalue()
    before = terminal.getvalue()
    hitnet.train(toy_images(30), progress=False, **options)
    hitnet.train(toy_images(30), progress=Progress(), **options)
    assert terminal.getvalue() == before


def test_one_bar_at_a_time(terminal, monkeypatch):
    with shown(True, "outer") as outer, shown(True, "inner") as inner:
        assert isinstance(outer, Bar)
        assert not isinstance(inner, Bar)
    assert bar._showing is False
    monkeypatch.setenv("HITNET_PROGRESS", "0")
    with shown(True, "none") as hidden:
        assert not isinstance(hidden, Bar)


@pytest.mark.parametrize("seconds", [0.29, 0.31, 1.0])
def test_only_long_work_writes_lines_into_a_pipe(capsys, monkeypatch, seconds):
    """At most one per tenth of the work and per half minute; nothing of work that ends before."""
    clock = Clock()
    monkeypatch.setattr(bar.time, "monotonic", clock)
    with shown(True, "work\x1b[2J") as progress:
        progress.plan({"images": 1, "results": 1})
        progress.part("images", 50, "images")
        for _ in range(50):
            clock.now += seconds
            progress.step()
        progress.part("results", 50)
        for _ in range(50):
            clock.now += seconds
            progress.step()
    out, err = capsys.readouterr()
    start = "work\\x1b[2J: "
    expected = {
        0.29: [],
        0.31: [start + "results, 47 of 50 steps; 97% done, elapsed 0:00:30, remaining 0:00:01"],
        1.0: [
            start + "images, 30 of 50 images; 30% done, elapsed 0:00:30, remaining 0:01:10",
            start + "results, 10 of 50 steps; 60% done, elapsed 0:01:00, remaining 0:00:40",
            start + "results, 40 of 50 steps; 90% done, elapsed 0:01:30, remaining 0:00:10",
        ],
    }
    assert (out, err.splitlines()) == ("", expected[seconds])


def test_a_notebook_shows_the_same_figures(monkeypatch):
    """Without further packages: each drawing replaces the last."""
    drawn = []

    class Handle:
        def update(self, table):
            drawn.append(table)

    def display(table, *, display_id):
        drawn.append(table)
        return Handle()

    module = type(sys)("IPython.display")
    module.display = display
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(bar, "REDRAW_SECONDS", 3600.0)
    console = Console(file=io.StringIO(), width=200, force_jupyter=True)
    monkeypatch.setattr(bar, "make_console", lambda stderr: console)
    with shown(True, "Features of photos") as progress:
        progress.part("features", 5, "images")
        for _ in range(5):
            progress.step()
    text = Console(file=io.StringIO(), width=200)
    text.print(drawn[-1])
    assert "Features of photos: features" in text.file.getvalue()
    assert "5 of 5 images" in text.file.getvalue()
    assert len(drawn) == 3  # at the start, at the new part and at the end, but not at every step
