"""One bar over a whole audit, whoever judges: it never goes back, and every part of the work has its share."""

import pytest
from safetensors.torch import save_file

import hitnet
from hitnet import Judges, choose_recipe, open_data
from hitnet.models import backbones
from hitnet.runtime.bar import Shares
from toy import TinyBackbone, colour_images, toy_images, write_images

pytestmark = pytest.mark.usefixtures("quick_heads")
RECIPE = choose_recipe(epochs=2, batch_size=16)
TRAINED, HEADS = ["training", "judging"], ["finding neighbours", "fitting heads"]


class Watched(Shares):
    """Notes the parts that begin, and where the bar is after whatever it is told."""

    def __init__(self):
        super().__init__("audit")
        self.parts, self.seen = [], [0.0]

    def plan(self, parts):
        super().plan(parts)
        self.seen.append(self.completed)

    def part(self, name, *rest):
        super().part(name, *rest)
        self.parts.append((name, self.completed, self.share))
        self.seen.append(self.completed)

    def step(self, count=1):
        super().step(count)
        assert self.done <= self.steps
        self.seen.append(self.completed)


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.setenv("HITNET_CACHE", str(tmp_path / "cache"))
    settings = backbones.Settings(16, (0.5,) * 3, (0.5,) * 3)
    monkeypatch.setattr(backbones, "architecture", lambda _: (TinyBackbone(), settings))
    save_file(TinyBackbone().state_dict(), tmp_path / "w.safetensors")
    return {"backbone": "timm:tiny", "weights": tmp_path / "w.safetensors"}


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("features", ["features", *HEADS]),
        ("fine-tuned", ["features", *TRAINED, *HEADS]),
        ("mixed", ["features", *TRAINED, *HEADS]),
        ("scratch", TRAINED),
    ],
)
def test_the_bar_only_grows(tiny, tmp_path, kind, parts, on_disk):
    images = toy_images(24) if kind in ("mixed", "scratch") else colour_images(24)
    data = open_data(write_images(tmp_path / "photos", images), image_size=16) if on_disk else images
    networks = {"networks": 2, "recipe": RECIPE} if "training" in parts else {}
    small = {"model": "hitnet-small"} if kind in ("mixed", "scratch") else {}
    judges = Judges(kind, **(tiny if "features" in parts else {}), **networks, **small)
    bar = Watched()
    hitnet.audit_labels(data, judges=judges, device="cpu", progress=bar)
    if not on_disk and kind in ("fine-tuned", "mixed"):  # their features are computed after the networks
        parts = [*TRAINED, "features", *HEADS]
    assert [name for name, _, _ in bar.parts] == [*parts, "results"]
    assert bar.seen == sorted(bar.seen)
    shares = [share for _, _, share in bar.parts]
    assert min(shares) > 0
    assert sum(shares) == pytest.approx(1)  # nothing is left when all is done
    if kind == "fine-tuned":  # two networks, two epochs: longer than to compute the features
        assert shares[parts.index("training")] > 0.6
