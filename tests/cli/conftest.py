"""What the tests of the command line share: a small data set, a trained run."""

import pytest

import hitnet
from hitnet.data import save_npz
from toy import toy_images


@pytest.fixture(scope="session")
def toy_run(tmp_path_factory):
    """A run that was trained on a .npz of toy images beside it: (run folder, data)."""
    folder = tmp_path_factory.mktemp("toy-run")
    save_npz(toy_images(60), folder / "bands.npz")
    recipe = hitnet.choose_recipe("fast", epochs=6, batch_size=16, learning_rate=5e-3)
    hitnet.train(folder / "bands.npz", out=folder / "run", model="hitnet-small", recipe=recipe, device="cpu")
    return folder / "run", folder / "bands.npz"
