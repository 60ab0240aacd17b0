"""Several processes train one network as one process does, or share out several; and what happens when one is lost."""

import os
import runpy
import textwrap
from pathlib import Path

import pytest
import torch

import hitnet
from hitnet import choose_recipe
from hitnet.data import save_npz
from hitnet.runtime.ranks import Ranks
from hitnet.runtime.tensor_files import read_tensors
from hitnet.training import RunFolder
from torchrun import two_processes
from toy import colour_images, toy_images, write_images

OPTIONS = ("--model", "hitnet-small", "--device", "cpu", "--recipe", "paper")


def tensors(folder):
    return read_tensors(folder / "weights.safetensors")[0]


def assert_close(folder, other, tolerance=2e-5):
    a, b = tensors(folder), tensors(other)
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=1e-3, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}")


TOGETHER = """
    import sys
    from pathlib import Path
    import torch
    import hitnet
    from hitnet import HitNetError
    from hitnet.runtime.ranks import connect, watched
    from toy import toy_images

    def train_on_files(photos, out):
        # From the second epoch on, each process reads what it has decoded from a file of its own.
        recipe = hitnet.choose_recipe("paper", epochs=3, optimizer="sgd", precision="float32")
        hitnet.train(hitnet.open_data(photos, stream=True), recipe=recipe, device="cpu", model="hitnet-small", out=out)

    def train(out, source):
        # The last batch has three images, two for one process and one for the other; or one, which both compute.
        # Modified are the first 30 % of each batch, of which the second process has none; or 75 %.
        norms = {131: "each", 129: "class"}
        for count in norms:
            images = toy_images(count)
            recipe = hitnet.choose_recipe(
                "paper", epochs=2, augment="hybrid", optimizer="sgd", precision="float32",
                average=0.9 if count == 129 else 0.0, augment_share=0.75 if count == 129 else 0.3,
            )
            run = hitnet.train(
                hitnet.open_data(images, test=images), recipe=recipe, device="cpu", augment_from=source,
                model=hitnet.choose_model("hitnet-small", decoder="conv", extra_dim=2, norm=norms[count]),
                out=Path(out) / str(count),
            )
            assert "forward" not in vars(run.model.head.norm)

    def fail():
        # In the first process only, and in both.
        both = connect(torch.device("cpu"))

        def work():
            raise error

        def here():
            raise HitNetError("all meet this")

        attempts = [(MemoryError(), both.from_first), (KeyboardInterrupt(), both.from_first)]
        for error, call in [*attempts, (HitNetError("the disk is full"), both.from_first), (None, lambda _: here())]:
            both.wait()
            try:
                with watched(both):
                    call(work)
            except BaseException as raised:
                print(f"{type(raised).__name__}: {raised}", flush=True)

    def deal_out(data, out):
        # The command line, and once more, which it refuses.
        from contextlib import suppress
        from hitnet.cli import main

        options = ["--epochs", "2", "--seeds", "3", "--model", "hitnet-small", "--device", "cpu", "--recipe", "paper"]
        sys.argv[1:] = ["train", data, *options, "--out", out]
        with suppress(SystemExit):
            main()
        main()

    if __name__ == "__main__":  # all in the same processes: starting them takes longer than training
        out, source, data, many, photos = sys.argv[1:]
        train(out, source)
        train_on_files(photos, Path(out) / "files")
        print("trained", flush=True)
        fail()
        deal_out(data, many)
"""


@pytest.fixture(scope="module")
def together(source, tmp_path_factory):
    """What two processes printed, the folder of what they trained, and their script."""
    folder = tmp_path_factory.mktemp("together")
    script, data = folder / "together.py", folder / "toy.npz"
    script.write_text(textwrap.dedent(TOGETHER))
    save_npz(toy_images(60), data)
    tests = Path(__file__).parents[1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])]))
        photos = write_images(folder / "photos", colour_images(75, side=20))
        ended = two_processes(script, folder / "two", source.folder, data, folder / "two-many", photos)
    return ended, folder, script


@pytest.mark.slow(seconds=180)
def test_two_processes_train_as_one_does(together, source):
    ended, folder, script = together
    assert ended.stdout.count("trained\n") == 2, ended.stderr
    alone = runpy.run_path(str(script))
    alone["train"](folder / "one", source.folder)
    alone["train_on_files"](folder / "photos", folder / "one" / "files")
    for count in ("131", "129", "files"):
        assert_close(folder / "one" / count, folder / "two" / count)
        histories = [hitnet.open_run(folder / name / count).history for name in ("one", "two")]
        for row, other in zip(*histories, strict=True):
            assert row.keys() == other.keys()
            assert row["loss"] == pytest.approx(other["loss"], rel=1e-4)
            assert row["train_error"] == pytest.approx(other["train_error"], abs=2)


@pytest.mark.slow(seconds=180)
def test_seeds_are_dealt_out(together):
    ended, folder, _ = together
    assert "(mean ± standard deviation of 3 runs)" in ended.stdout
    assert ended.stdout.count("seed 1: test error") == 1
    runs = hitnet.train_many(
        folder / "toy.npz",
        model="hitnet-small",
        recipe=choose_recipe("paper", epochs=2),
        seeds=3,
        device="cpu",
        out=folder / "one-many",
    )
    for run in runs:
        there = tensors(folder / "two-many" / run.folder.name)
        here = tensors(run.folder)
        assert all(torch.equal(there[name], here[name]) for name in here)
    assert ended.returncode != 0
    assert " ".join(ended.stderr.split()).count("seed-0 already holds a run. Use --resume to continue it") == 1


@pytest.mark.slow(seconds=180)
def test_an_error_of_one_process_ends_all_and_is_reported_once(together):
    printed = together[0].stdout.splitlines()
    again = "Nothing that was written is lost: start all processes again, with `resume`."
    for first, others in {
        "MemoryError: ": f"Process 0 ended with MemoryError(). {again}",
        "KeyboardInterrupt: ": f"Process 0 ended with KeyboardInterrupt(). {again}",
        "HitNetError: the disk is full": "the disk is full",
        "HitNetError: all meet this": "all meet this",
    }.items():
        assert printed.count(first) == printed.count(f"ReportedElsewhereError: {others}") == 1, printed


@pytest.mark.slow(seconds=180)
def test_a_lost_process_is_said_and_the_work_resumes(tmp_path):
    save_npz(toy_images(360), tmp_path / "toy.npz")
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent("""
        import os, signal, sys, time
        from contextlib import suppress
        from hitnet.cli import main
        from hitnet.runtime import ranks
        from hitnet.training import RunFolder, engine
        engine.CHECKPOINT_SECONDS, engine.ASK_STEPS = 0.0, 1
        step, done = engine.Step.__call__, 0
        def stepping(*arguments):
            global done
            done += 1
            if done == 6 and ranks.rank() == 1:
                while RunFolder(sys.argv[-1]).position() != (1, 2):  # the other one still writes
                    time.sleep(0.05)
                os.kill(os.getpid(), signal.SIGKILL)
            step(*arguments)
        what, *command, folder = sys.argv[1:]
        if what == "kill":
            engine.Step.__call__ = stepping
        sys.argv[1:] = [*command, "--out", folder]
        if what == "resume and repeat":  # both in the same processes: starting them takes longer than training
            sys.argv.append("--resume")
            with suppress(SystemExit):
                main()
            sys.argv[1:] = [*command, "--out", folder + "-again"]
        main()
    """)
    )
    chances = ("--ghosts", 1, "--ghost-probability", 0.5)  # each process draws its own
    command = ("train", tmp_path / "toy.npz", "--epochs", 3, *chances, *OPTIONS)
    killed = two_processes(script, "kill", *command, tmp_path / "run")
    assert killed.returncode != 0
    assert "another process of this job" in killed.stderr.lower()
    assert "--resume" in killed.stderr
    assert RunFolder(tmp_path / "run").position() == (1, 2)
    ended = two_processes(script, "resume and repeat", *command, tmp_path / "run")
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stderr
    assert_close(tmp_path / "run", tmp_path / "run-again")


def test_each_image_is_in_one_part():
    batch = torch.arange(7)
    parts = [Ranks(rank, 3).part(batch) for rank in range(3)]
    assert torch.cat(parts).tolist() == list(range(7))
    assert [len(part) for part in parts] == [3, 2, 2]
    assert Ranks(1, 3).part(batch[:2]).tolist() == [0, 1]
