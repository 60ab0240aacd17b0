"""Attack the project: damaged files of every kind that it reads, hostile requests, processes killed at any moment.

python tests/attack/attack.py fuzz --seed 0 --minutes 30 --most 15000 --out attack
python tests/attack/attack.py kill --seed 0 --kills 500 --out attack
python tests/attack/attack.py kill --only large --kills 20 --out attack/large
python tests/attack/attack.py serve --seed 0 --kills 200 --soak 20 --out attack
python tests/attack/attack.py repeat attack/findings/NAME.json
python tests/attack/attack.py join RECORD.json attack/fuzz.json attack/server.json attack/kills.json

`make attack` does all four. The records go to OUT/fuzz.json, OUT/kills.json and OUT/server.json, findings to
OUT/findings. Exit code 1 if anything broke.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
TESTS = Path(__file__).resolve().parents[1]
ROOT = TESTS.parent
sys.path[:0] = [str(ROOT / name) for name in ("src", "", "reproduction/tests", "tests", "tests/attack")]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    fuzz = commands.add_parser("fuzz", help="read damaged files")
    fuzz.add_argument("--seed", type=int, default=0)
    fuzz.add_argument("--minutes", type=float, default=30.0)
    fuzz.add_argument("--most", type=int, default=15_000, help="inputs per kind")
    fuzz.add_argument("--kind", action="append", help="only this kind; may be given several times")
    fuzz.add_argument("--out", type=Path, default=Path("attack"))
    kill = commands.add_parser("kill", help="kill long commands")
    kill.add_argument("--seed", type=int, default=0)
    kill.add_argument("--kills", type=int, default=500)
    kill.add_argument("--minutes", type=float, default=30.0)
    kill.add_argument("--only", action="append", help="only this command, or large; may be given several times")
    kill.add_argument("--out", type=Path, default=Path("attack"))
    serve = commands.add_parser("serve", help="send hostile requests to review servers, and kill these")
    serve.add_argument("--seed", type=int, default=0)
    serve.add_argument("--kills", type=int, default=200)
    serve.add_argument("--minutes", type=float, default=30.0, help="for the kills")
    serve.add_argument("--soak", type=float, default=0.0, help="minutes that a last server lives")
    serve.add_argument("--out", type=Path, default=Path("attack"))
    join = commands.add_parser("join", help="write the records of several parts as one")
    join.add_argument("out", type=Path)
    join.add_argument("parts", type=Path, nargs="+")
    cases = commands.add_parser("cases", help="read the inputs that once broke something")
    cases.add_argument("folder", type=Path)
    again = commands.add_parser("repeat", help="read the input of a finding again")
    again.add_argument("finding", type=Path)
    args = parser.parse_args(arguments)
    modes = {"fuzz": run_fuzz, "kill": run_kills, "serve": run_server, "join": run_join}
    (modes | {"cases": run_cases, "repeat": run_repeat})[args.command](args)


def about(args: argparse.Namespace) -> dict[str, object]:
    from reproduction.provenance import code_version

    return {
        "command": "python tests/attack/attack.py " + " ".join(sys.argv[1:]),
        "seed": args.seed,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "code": code_version(),
    }


def write(path: Path, record: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written: {path}", flush=True)


def run_fuzz(args: argparse.Namespace) -> None:
    import attack_fuzz

    tallies = attack_fuzz.attack_all(
        args.seed,
        most=args.most,
        seconds=60 * args.minutes,
        names=args.kind,
        say=lambda text: print(text, flush=True),
    )
    kept = attack_fuzz.keep_findings(tallies, args.out / "findings")
    rows = {
        name: {
            "inputs": tally.inputs,
            **tally.outcomes,
            "slowest_seconds": round(tally.slowest, 3),
            "most_megabytes": round(tally.memory / 2**20, 1),
        }
        for name, tally in tallies.items()
    }
    total = sum(tally.inputs for tally in tallies.values())
    write(args.out / "fuzz.json", {**about(args), "inputs": total, "findings": len(kept), "kinds": rows})
    for path in kept[:20]:
        finding = json.loads(path.read_text())
        print(
            f"{finding['kind']}: {finding['outcome']}: {finding['why'].strip().splitlines()[-1]}\n  {finding['repeat']}"
        )
    print(f"{total:,} inputs, {len(kept)} findings")
    sys.exit(1 if kept else 0)


def run_kills(args: argparse.Namespace) -> None:
    import attack_kills

    record = attack_kills.attack(
        args.seed, args.kills, seconds=60 * args.minutes, only=args.only, say=lambda text: print(text, flush=True)
    )
    write(args.out / "kills.json", {**about(args), **record})
    print(f"{record['kills']} kills, {len(record['findings'])} findings")
    sys.exit(1 if record["findings"] else 0)


def run_server(args: argparse.Namespace) -> None:
    import attack_server

    record = attack_server.attack(
        args.seed,
        kills=args.kills,
        seconds=60 * args.minutes,
        soak=60 * args.soak,
        say=lambda text: print(text, flush=True),
    )
    write(args.out / "server.json", {**about(args), **record})
    print(f"{record['kills']} kills, {record['hostile_requests']} requests, {len(record['findings'])} findings")
    sys.exit(1 if record["findings"] else 0)


def run_join(args: argparse.Namespace) -> None:
    """Sums and largest values of all parts, of which each names its command and seed; a part may be joined itself."""
    parts = [json.loads(path.read_text()) for path in args.parts]
    kinds: dict[str, dict[str, float]] = {}
    for name, row in ((name, row) for part in parts for name, row in part.get("kinds", {}).items()):
        old = kinds.setdefault(name, dict.fromkeys(row, 0))
        for key, value in row.items():
            largest = key in ("slowest_seconds", "most_megabytes")
            old[key] = max(old.get(key, 0), value) if largest else old.get(key, 0) + value
    counted = ("inputs", "kills", "hostile_requests", "acknowledged_decisions")
    left_out = ("kinds", "commands", "statuses")
    alone = [run for part in parts for run in part.get("runs", [part])]
    runs = [{key: value for key, value in run.items() if key not in left_out} for run in alone]
    totals: dict[str, object] = {key: sum(part.get(key, 0) for part in parts) for key in counted}
    totals["findings"] = sum(part["findings"] if "kinds" in part else len(part["findings"]) for part in parts)
    commands: dict[str, Counter[str]] = {}
    for name, row in ((name, row) for part in parts for name, row in part.get("commands", {}).items()):
        commands.setdefault(name, Counter()).update(row)
    statuses = sum((Counter(part.get("statuses", {})) for part in parts), Counter())
    write(args.out, {**totals, "kinds": kinds, "commands": commands, "statuses": statuses, "runs": runs})


def run_cases(args: argparse.Namespace) -> None:
    """Each case is NAME.json, with the kind of file, and NAME.SUFFIX, the file."""
    import attack_fuzz

    broken = 0
    paths = sorted(args.folder.glob("*.json"))
    with attack_fuzz.samples() as root:
        for path in paths:
            kind = json.loads(path.read_text())["kind"]
            content = path.with_suffix(attack_fuzz.suffix_of(kind)).read_bytes()
            outcome, why = attack_fuzz.repeat(kind, content, root)
            if outcome not in (attack_fuzz.READ, attack_fuzz.REFUSED):
                broken += 1
                print(f"{path.stem}: {outcome} {why}")
    print(f"{len(paths)} cases, {broken} broken")
    sys.exit(1 if broken else 0)


def run_repeat(args: argparse.Namespace) -> None:
    import attack_fuzz

    finding = json.loads(args.finding.read_text())
    suffix = attack_fuzz.suffix_of(finding["kind"])
    with attack_fuzz.samples() as root:
        outcome, why = attack_fuzz.repeat(finding["kind"], args.finding.with_suffix(suffix).read_bytes(), root)
    print(outcome, why, sep="\n")
    sys.exit(0 if outcome in (attack_fuzz.READ, attack_fuzz.REFUSED) else 1)


if __name__ == "__main__":
    main()
