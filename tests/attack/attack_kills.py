"""Kill long commands with `kill -9` at random and at forced moments, resume them, and compare with an undisturbed run.

A command runs in a process that is forked from one that has everything imported, through the same entry as the program
`hitnet`. A forced moment is the N-th time that the command opens, renames, removes or makes a file or folder; in a
large audit, the N-th step of its progress, so that kills are spread over its whole length.
"""

from __future__ import annotations

import csv
import hashlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import torch
from PIL import Image
from toy_book import toy_book

import hitnet
import reproduction
from hitnet import cli
from hitnet.audit import Case, Judgement, Opinion
from hitnet.audit.labels import judged_audit
from hitnet.data import save_npz
from hitnet.data.known.datasets import PHOTOS
from hitnet.features import one_pass
from hitnet.runtime import files
from hitnet.training import engine
from toy import toy_images

STEP = "hitnet.step"
EVENTS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "os.truncate", "shutil.copyfile")
WAITING = 900.0  # seconds; a command that takes longer hangs, however busy the machine is
TIMES = ("seconds", "images_per_second", "epoch_seconds", "date", "code")


@dataclass(frozen=True)
class Command:
    """A long command.

    Attributes:
        name: What to call it.
        prepare: Writes what it needs into a folder.
        run: Runs it in a folder, in the forked process; again where an interrupted one is resumed.
        result: What it gave, to be compared; times are left out.
        originals: Files that it must not touch.
        events: What is counted for forced moments. Of steps, all kills are in one round, each after the one before.
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path, bool], None]
    result: Callable[[Path], Any]
    originals: tuple[str, ...]
    events: tuple[str, ...] = EVENTS


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tree(folder: Path) -> dict[str, str]:
    """A hash of each file below a folder, hidden ones too."""
    return {
        str(path.relative_to(folder)): digest(path) if not path.is_symlink() else os.readlink(path)
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def weights(folder: Path) -> dict[str, str]:
    """A hash of each run's weights below a folder, and its history without times."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("weights.safetensors")):
        found[str(path.relative_to(folder))] = digest(path)
        history = json.loads((path.parent / "history.json").read_text())
        found[str(path.parent.relative_to(folder)) + " history"] = [
            {key: value for key, value in row.items() if key not in TIMES} for row in history
        ]
    return found


def litter(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob(".*") if files.LITTER.fullmatch(path.name)]


def hitnet_command(*arguments: object) -> None:
    """Run the command line, as the program does."""
    sys.argv = ["hitnet", *map(str, arguments)]
    cli.main()


def write_set(root: Path) -> None:
    save_npz(toy_images(48), root / "set.npz")


def write_photos(root: Path) -> None:
    images = toy_images(24)
    for i, k in enumerate(images.labels.tolist()):
        folder = root / "photos" / images.class_names[k]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(images.pixels[i, 0].numpy()).save(folder / f"{i}.png")
    (root / "photos" / "notes.txt").write_text("of the whole set")


def run_train(root: Path, resume: bool) -> None:
    again = ["--resume"] if resume and (root / "run" / "config.json").exists() else []
    options = ["--model", "hitnet-small", "--capsule-dim", 4, "--epochs", 2, "--device", "cpu"]
    hitnet_command("train", root / "set.npz", "--out", root / "run", *options, *again)


def run_audit(root: Path, resume: bool) -> None:
    begun = resume and (root / "audit").exists()
    options = ["--judges", "scratch", "--model", "hitnet-small", "--networks", 2, "--epochs", 1, "--device", "cpu"]
    hitnet_command("audit", root / "photos", "--out", root / "audit", *options, *(["--resume"] if begun else []))


def audit_result(root: Path) -> Any:
    audit = hitnet.open_audit(root / "audit")
    with (root / "audit" / "audit.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    summary = {key: value for key, value in audit.summary.to_json().items() if key not in TIMES}
    return [rows, audit.distances.tolist(), summary, weights(root / "audit")]


def write_toy_book(root: Path) -> None:
    toy_book(root)


def run_reproduce(root: Path, resume: bool) -> None:
    reproduction.reproduce(
        "toy",
        "toy-ghost-page",
        runs=1,
        book=toy_book(root),
        ledger=reproduction.Ledger(root / "ledger.jsonl"),
        folder=root / "pages",
        runs_dir=root / "runs",
        device="cpu",
    )


def reproduce_result(root: Path) -> Any:
    lines = [json.loads(line) for line in (root / "ledger.jsonl").read_text().splitlines()]
    facts = [
        [line["kind"], line["experiment"], line["seeds"], {k: v for k, v in line["facts"].items() if k not in TIMES}]
        for line in lines
    ]
    return [sorted(facts, key=str), weights(root / "runs")]


def write_decided(root: Path) -> None:
    """A set, its audit and decisions; all made without training."""
    write_photos(root)
    data = hitnet.open_data(root / "photos")
    images = data.load("all")
    distances = np.random.default_rng(0).random((2, len(images), 3)).astype(np.float32)
    opinions = tuple(Opinion("networks", each, in_sample=True, capsules=True) for each in distances)
    case = Case(data, images, "all", torch.device("cpu"))
    result = replace(judged_audit(case, Judgement(opinions, images, "m"), 0.0), images=None)
    (root / "audit").mkdir()
    result.write(root / "audit")
    rows = [["id", "path", "given", "decision", "label"]]
    for i, row in enumerate(result.table.itertuples()):
        other = next(name for name in images.class_names if name != row.given)
        decision = ("relabel", "drop", "keep")[i % 3]
        rows.append([str(row.id), row.path, row.given, decision, other if decision == "relabel" else ""])
    with (root / "corrections.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)


def run_apply(root: Path, resume: bool) -> None:
    if not (root / "new").exists():  # a finished copy is never overwritten
        hitnet_command("apply", root / "audit", root / "corrections.csv", "--out", root / "new")


def run_features(root: Path, resume: bool) -> None:
    """Judge photographs by features: the pass over the images is kept shard by shard."""
    os.environ["HITNET_CACHE"] = str(root / "cache")
    one_pass.PER_SHARD = 4
    heads = hitnet.Judges("features", backbone=hitnet.open_backbone(Tiny(), input_size=8), repeats=1)
    hitnet.audit_labels(root / "photos", judges=heads, device="cpu", out=root / "audit", resume=resume)


def features_result(root: Path) -> Any:
    audit = hitnet.open_audit(root / "audit")
    return [audit.table.to_csv(), audit.distances.tolist()]


def write_clothes(root: Path) -> None:
    """The photographs that ship, as files."""
    with ZipFile(PHOTOS) as archive:
        for name in archive.namelist():
            path = root / "photos" / Path(name).parent.name / Path(name).name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))


def run_large(root: Path, resume: bool) -> None:
    os.environ["HITNET_CACHE"] = str(root / "cache")
    one_pass.PER_SHARD = 64
    hooks = {"progress": Steps(root), "device": "cpu", "out": root / "audit", "resume": resume}
    hitnet.audit_labels(root / "photos", judges="features", **hooks)


class Steps(hitnet.Progress):
    """Makes an event of each part of the work and each step."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def part(self, name: str, steps: int | None = None, unit: str = "steps") -> None:
        self.step()

    def step(self, count: int = 1) -> None:
        for _ in range(count):
            sys.audit(STEP, self.root)


class Tiny(torch.nn.Module):
    """A backbone of a moment's work; its weights are always the same."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.conv = torch.nn.Conv2d(3, 8, 3, stride=2)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(images)).mean(dim=(2, 3))


COMMANDS = (
    Command("train", write_set, run_train, lambda root: weights(root / "run"), ("set.npz",)),
    Command("audit", write_photos, run_audit, audit_result, ("photos",)),
    Command("reproduce", write_toy_book, run_reproduce, reproduce_result, ("bands.npz",)),
    Command("apply", write_decided, run_apply, lambda root: tree(root / "new"), ("photos", "audit", "corrections.csv")),
    Command("features", write_photos, run_features, features_result, ("photos",)),
)
LARGE = Command("large", write_clothes, run_large, features_result, ("photos",), (STEP,))


@dataclass
class Ended:
    """How a forked command ended: its exit code, or minus the signal; seconds; file events; what it printed."""

    code: int
    seconds: float
    events: int
    printed: str


def start(
    command: Command, root: Path, *, resume: bool, kill_at: int | None = None, kill_after: float | None = None
) -> Ended:
    """Run a command in a forked process, and kill it at its N-th file event or after some seconds."""
    log, count = root.parent / f"{root.name}.log", root.parent / f"{root.name}.events"
    count.write_text("0")
    began = time.monotonic()
    child = os.fork()
    if not child:
        _run(command, root, resume, kill_at, log, count)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        passed = time.monotonic() - began
        if pid:
            break
        if passed > WAITING or (kill_after is not None and passed > kill_after):
            os.kill(child, signal.SIGKILL)
            kill_after = None
        time.sleep(0.002)
    code = os.waitstatus_to_exitcode(status)
    return Ended(code, passed, int(count.read_text() or 0), log.read_text(errors="replace"))


def _run(command: Command, root: Path, resume: bool, kill_at: int | None, log: Path, count: Path) -> None:
    """In the forked process: count file events, run the command, exit."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    counter = os.open(count, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(output, stream)
    engine.CHECKPOINT_SECONDS = 0.0
    events, inside = 0, str(root)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal events
        if event not in command.events or not str(arguments[0]).startswith(inside):
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        events += 1
        os.pwrite(counter, str(events).encode(), 0)
        if events == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    os.environ["HITNET_TRACEBACK"] = "1"
    code = 1
    try:
        command.run(root, resume)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 70
    finally:
        sys.stdout.flush()
        os._exit(code)


@dataclass
class Tally:
    """What came of the kills of one command."""

    kills: int = 0
    forced: int = 0
    rounds: int = 0
    findings: list[dict[str, Any]] = field(default_factory=list)


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` gives, computed in a process of its own: this one must start no threads before it forks."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            content = json.dumps(work(), default=str).encode()
        except BaseException as error:
            content = json.dumps({"failed": f"{type(error).__name__}: {error}"}).encode()
        os.close(reading)
        with os.fdopen(writing, "wb") as out:
            out.write(content)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as received:
        content = received.read()
    os.waitpid(child, 0)
    return json.loads(content)


def attack_command(command: Command, base: Path, kills: int, rng: random.Random, end: float) -> Tally:
    """Kill a command again and again until it is done; then compare, and begin a new round, until `kills` are made."""
    tally = Tally()
    whole = base / command.name / "set"  # every round uses the same path, which results name
    samples = base / command.name / "samples"
    samples.mkdir(parents=True)
    in_child(lambda: command.prepare(samples))
    shutil.copytree(samples, whole)
    in_child(lambda: command.prepare(whole)) if command.name == "apply" else None
    reference = start(command, whole, resume=False)
    if reference.code:
        raise RuntimeError(f"{command.name} fails undisturbed: {reference.printed[-2000:]}")
    expected = in_child(lambda: command.result(whole))
    originals = {name: _hash(whole / name) for name in command.originals}
    forced_moments = list(range(1, reference.events + 1))
    rng.shuffle(forced_moments)
    while tally.kills < kills and time.monotonic() < end:
        _clear(whole, samples, command)
        if command.events == (STEP,):
            moments: Sequence[int | float] = np.linspace(1, reference.events, kills).round().astype(int).tolist()
        elif forced_moments and tally.rounds % 2 == 0:
            moments = [forced_moments.pop()]
        else:
            several = min(rng.choice((2, 4, 8)), max(2, kills - tally.kills))
            moments = [rng.uniform(0, reference.seconds) for _ in range(several)]
        done = _round(command, whole, moments, tally)
        tally.rounds += 1
        if done is not None:
            _compare(command, whole, done, expected, originals, moments, tally)
    return tally


def _round(command: Command, root: Path, moments: Sequence[int | float], tally: Tally) -> Ended | None:
    """Kill at each moment, then let the command end; None if it was over before the last moment."""
    for i, moment in enumerate(moments):
        at = {"kill_at": moment} if isinstance(moment, int) else {"kill_after": moment}
        ended = start(command, root, resume=i > 0, **at)  # type: ignore[arg-type]
        if ended.code != -signal.SIGKILL:
            return ended
        tally.kills += 1
        tally.forced += isinstance(moment, int)
    return start(command, root, resume=True)


def _compare(
    command: Command,
    root: Path,
    ended: Ended,
    expected: Any,
    originals: dict[str, Any],
    moments: Sequence[int | float],
    tally: Tally,
) -> None:
    problems = []
    if ended.code:
        problems.append(f"exit {ended.code}: {ended.printed[-1500:]}")
    elif in_child(lambda: command.result(root)) != expected:
        problems.append("its result differs from that of an undisturbed run")
    if any(_hash(root / name) != content for name, content in originals.items()):
        problems.append("an original was changed")
    if left := litter(root) + [path.name for path in root.parent.iterdir() if files.LITTER.fullmatch(path.name)]:
        problems.append(f"litter: {left}")
    for problem in problems:
        print(f"{command.name}, killed at {moments}: {problem}", flush=True)
        tally.findings.append({"command": command.name, "moments": list(moments), "problem": problem})


def _hash(path: Path) -> Any:
    return tree(path) if path.is_dir() else digest(path)


def _clear(root: Path, samples: Path, command: Command) -> None:
    """The folder as it was before the command."""
    keep = {name.split("/")[0] for name in command.originals}
    for path in root.iterdir():
        if path.name not in keep:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in samples.iterdir():
        if path.name not in keep and not (root / path.name).exists():
            shutil.copytree(path, root / path.name) if path.is_dir() else shutil.copyfile(path, root / path.name)


def warm_up() -> None:
    """Import and compile here what every forked process would otherwise do again; start no threads."""
    for module in (
        "matplotlib.figure",
        "matplotlib.backends.backend_agg",
        "pyarrow.parquet",
        "jinja2",
        "scipy.special",
    ):
        importlib.import_module(module)
    for module in set(cli.MODULES.values()):
        importlib.import_module(f"hitnet.cli.{module}")
    torch.set_num_threads(1)
    recipe = hitnet.choose_recipe(epochs=1)
    hitnet.train(toy_images(48), model=hitnet.choose_model("hitnet-small"), recipe=recipe, device="cpu")


def attack(
    seed: int, kills: int, *, seconds: float, only: list[str] | None = None, say: Callable[[str], None] = print
) -> dict[str, Any]:
    """Kill the commands, each equally often, `kills` times or a few more in all."""
    warm_up()
    commands = [each for each in (*COMMANDS, LARGE) if (each is not LARGE if only is None else each.name in only)]
    end = time.monotonic() + seconds
    tallies: dict[str, Tally] = {}
    with tempfile.TemporaryDirectory(prefix="hitnet-kills-") as folder:
        for i, command in enumerate(commands):
            limit = time.monotonic() + (end - time.monotonic()) / (len(commands) - i)
            tallies[command.name] = attack_command(
                command, Path(folder), -(-kills // len(commands)), random.Random(f"{seed}/{command.name}"), limit
            )
            say(f"{command.name}: {tallies[command.name].kills} kills, {len(tallies[command.name].findings)} findings")
    rows = {name: {"kills": t.kills, "forced": t.forced, "rounds": t.rounds} for name, t in tallies.items()}
    findings = [finding for tally in tallies.values() for finding in tally.findings]
    return {"kills": sum(t.kills for t in tallies.values()), "commands": rows, "findings": findings}
