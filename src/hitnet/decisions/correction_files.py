"""Files of what people decided: steps that the review page exported, CSV, and the JSON that Label Studio exports."""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from hitnet.decisions.rules import Correction, Decisions, Settled, settled
from hitnet.decisions.steps import Change, Step
from hitnet.errors import HitNetError
from hitnet.runtime.files import check_regular
from hitnet.runtime.spreadsheets import defuse

COLUMNS = ("id", "path", "given", "decision", "label")
LARGEST = 1 << 30  # bytes
SHOWN = 20  # problems named in one message


def read_corrections(path: str | Path) -> Settled:
    """The decisions in a file of steps (.jsonl), a .json that Label Studio exported, or a CSV file.

    What each means is not yet checked, its form is.
    """
    check_regular(path, largest=LARGEST)
    try:
        text = Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise HitNetError(f"Cannot read the corrections {path}: {error.strerror}.") from error
    except UnicodeDecodeError:
        raise HitNetError(f"{path} is not UTF-8 text. Save it as CSV UTF-8.") from None
    suffix = Path(path).suffix.lower()
    return Settled(parse_tasks(text, str(path))) if suffix == ".json" else parse_corrections(text, str(path))


def parse_corrections(text: str, name: str) -> Settled:
    """The decisions in the text of a CSV file or a file of steps; `name` is what to call it in messages."""
    text = text.removeprefix("\ufeff")
    return parse_steps(text, name) if text.lstrip().startswith("{") else Settled(parse_csv(text, name))


def parse_steps(text: str, name: str) -> Settled:
    """What the steps of a file come to; where several reviewers decided, what they agree on."""
    lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
    steps = [(number, Step.from_line(line)) for number, line in lines]
    raise_all([f"line {number}: it is no step of a review" for number, step in steps if step is None], name)
    read, disputed = settled(Decisions(step for _, step in steps if step is not None))
    places = {change: f"line {number}" for number, step in steps for change in (step.changes if step else ())}
    return Settled([Correction(places[change], change) for _, change in read], disputed)


def parse_csv(text: str, name: str) -> list[Correction]:
    records = _records(text, name)
    header = next(records, (1, []))[1]
    if any(column not in header for column in COLUMNS):
        wanted = ",".join(COLUMNS)
        raise HitNetError(f"The first line of {name} must name the columns {wanted}; got {header}.")
    at = [header.index(column) for column in COLUMNS]
    corrections, problems = [], []
    for line, fields in records:
        if len(fields) != len(header):
            problems.append(f"line {line}: {len(fields)} fields where the first line names {len(header)}")
        elif not re.fullmatch("[0-9]{1,18}", number := fields[at[0]]):
            problems.append(f"line {line}: the id {number!r} is not a whole number")
        else:
            corrections.append(Correction(f"line {line}", Change(int(number), *(fields[i] for i in at[1:]))))
    raise_all(problems, name)
    return corrections


def parse_tasks(text: str, name: str) -> list[Correction]:
    """Label Studio's export, JSON or JSON-MIN: the class that people chose for each task of `hitnet export-audit`.

    A task without an answer says nothing; one that was skipped means unsure. Answers that differ are a mistake.
    """
    try:
        tasks = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HitNetError(f"{name} is not JSON: {error}.") from None
    if not isinstance(tasks, list):
        raise HitNetError(f"{name} is no export of Label Studio: it holds no list of tasks. Choose the format JSON.")
    corrections, problems = [], []
    for place, task in enumerate(tasks, start=1):
        try:
            data = task.get("data", task)
            number, path, given = int(data["image_id"]), str(data.get("path", "")), str(data["given"])
            answers = _answers(task)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            problems.append(f"task {place}: it is no task that `hitnet export-audit` wrote")
            continue
        for answer in answers:
            decision = "unsure" if answer is None else "keep" if answer == given else "relabel"
            label = answer or "" if decision == "relabel" else ""
            corrections.append(Correction(f"task {place}", Change(number, path, given, decision, label)))
    raise_all(problems, name)
    return corrections


def _answers(task: dict[str, Any]) -> list[str | None]:
    """The classes that people chose; None for a task that was skipped."""
    if "annotations" not in task:  # JSON-MIN: the last answer stands under the name of the question
        return [task["label"]] if isinstance(task.get("label"), str) else []
    answers: list[str | None] = []
    for annotation in task["annotations"]:
        if annotation.get("was_cancelled"):
            answers.append(None)
            continue
        chosen = [result["value"]["choices"] for result in annotation["result"] if result.get("type") == "choices"]
        answers += [str(choices[0]) for choices in chosen if choices]
    return list(dict.fromkeys(answers))


def corrections_text(changes: Iterable[Change]) -> str:
    """Decisions as a CSV file, by id. Text is quoted, and marked where a spreadsheet would run it."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows([COLUMNS, *(map(defuse, change) for change in sorted(changes))])
    return file.getvalue()


def _records(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """(line on which it begins, fields) of each record that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    begun = 1
    try:
        for fields in reader:
            if fields:
                yield begun, fields
            begun = reader.line_num + 1
    except csv.Error as error:
        raise HitNetError(f"{name}, line {begun}: this is not CSV ({error}).") from error


def raise_all(problems: Sequence[str], name: str) -> None:
    if problems:
        what = "a mistake" if len(problems) == 1 else f"{len(problems)} mistakes"
        raise HitNetError(f"{name} has {what}; nothing was written.\n{listed(problems)}")


def listed(lines: Sequence[str]) -> str:
    more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
    return "\n".join(f"  {line}" for line in [*lines[:SHOWN], *more])
