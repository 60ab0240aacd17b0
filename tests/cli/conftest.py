"""What the tests of the command line share: calling `main`, a small data set, a trained run."""

import sys
from dataclasses import dataclass

import pytest

import hitnet
from hitnet.cli import main, terminal
from hitnet.data import save_npz
from toy import toy_images


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch, capsys):
    """Call the command line as the installed program does, into a pipe."""
    for console in (terminal.console, terminal.errors):
        monkeypatch.setattr(console, "width", 1000)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["hitnet", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return Ended(end.value.code or 0, printed.out, printed.err)

    return call


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory):
    """A run that was trained on a .npz of toy images beside it: (run folder, data)."""
    folder = tmp_path_factory.mktemp("toy-run")
    save_npz(toy_images(60), folder / "bands.npz")
    recipe = hitnet.choose_recipe("fast", epochs=6, batch_size=16, learning_rate=5e-3)
    hitnet.train(folder / "bands.npz", out=folder / "run", model="hitnet-small", recipe=recipe, device="cpu")
    return folder / "run", folder / "bands.npz"
