"""bfloat16 in training where the CPU has it; float32 everywhere else."""

import pytest
import torch

from arithmetic import own_arithmetic
from hitnet import choose_recipe, models
from hitnet.models.network import class_distances
from hitnet.runtime import device as devices
from hitnet.training.augmentation import draw
from hitnet.training.step import Step
from toy import toy_images

CPU = torch.device("cpu")


def losses(monkeypatch, *, able, precision="mixed", model="hitnet-small", images=None, steps=10):
    """The loss of each of the first steps, as a CPU with or without bfloat16 instructions takes them."""
    monkeypatch.setattr(devices, "bfloat16_in_cpu", lambda: able)
    images = images or toy_images(64)
    torch.manual_seed(0)
    network = models.build(model, images.shape, images.num_classes)
    recipe = choose_recipe("paper", precision=precision).complete()
    step = Step(network, recipe, CPU)
    values = []
    for i in range(steps):
        draws = draw(recipe, len(images), images.shape[1:], torch.Generator().manual_seed(i))
        step.totals.zero_()
        step((images.pixels, images.labels, draws), 1e-3)
        values.append(float(step.totals[0]) / len(images))
    return torch.tensor(values), network


def test_mixed_precision_follows_float32(monkeypatch):
    mixed, network = losses(monkeypatch, able=True)
    exact, _ = losses(monkeypatch, able=False)
    assert not torch.equal(mixed, exact)
    torch.testing.assert_close(mixed, exact, rtol=0.02, atol=0)
    assert mixed[-1] < mixed[0]
    assert {value.dtype for value in network.state_dict().values()} == {torch.float32, torch.int64}


@pytest.mark.parametrize("model", models.MODELS)
def test_all_networks_take_a_mixed_step(monkeypatch, model):
    images = toy_images(6, shape=(1, 18, 18))
    mixed, exact = (losses(monkeypatch, able=able, model=model, images=images, steps=1)[0] for able in (True, False))
    # Fifty batch-norms of an untrained backbone amplify the rounding of six images.
    torch.testing.assert_close(mixed, exact, rtol=0.5 if model == models.PRETRAINED else 0.02, atol=0)


def test_float32_where_the_recipe_says_so_or_the_cpu_has_nothing_else(monkeypatch):
    plain, _ = losses(monkeypatch, able=False)
    asked, _ = losses(monkeypatch, able=True, precision="float32")
    assert torch.equal(plain, asked)


def test_evaluation_on_a_cpu_is_in_float32(monkeypatch):
    monkeypatch.setattr(devices, "bfloat16_in_cpu", lambda: True)
    images = toy_images(20)
    torch.manual_seed(0)
    network = models.build("hitnet-small", images.shape, images.num_classes).eval()
    with torch.inference_mode():
        exact = network.double()(images.pixels.double() / 255).distances.float()
    distances = class_distances(network.float(), images.pixels)
    torch.testing.assert_close(distances, exact, rtol=1e-5, atol=1e-5)


def test_what_a_cpu_without_bfloat16_does_to_the_process_ends_with_the_test(request):
    """PyTorch switches oneDNN off when a CPU fails at bfloat16; the next test must not inherit that."""
    assert "_own_arithmetic" in request.fixturenames  # around every test
    before = torch._C._get_mkldnn_enabled()
    with own_arithmetic():
        torch._C._set_mkldnn_enabled(not before)
        assert torch._C._get_mkldnn_enabled() != before
    assert torch._C._get_mkldnn_enabled() == before


def test_an_old_pytorch_cannot_tell(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert devices.bfloat16_in_cpu() is False
    assert not devices.training_precision(CPU)._enabled
