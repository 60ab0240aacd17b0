import torch

from parts.textbook import TextbookCapsNet
from reproduction.networks import dynamic_routing


def test_the_textbook_capsnet_routes_as_ours_does():
    torch.manual_seed(0)
    network, images = TextbookCapsNet(), torch.rand(2, 1, 28, 28)
    with torch.no_grad():
        output = network(images, torch.tensor([3, 7]))
        expected = dynamic_routing(network.votes(images))
    torch.testing.assert_close(output.capsules, expected, rtol=1e-3, atol=1e-5)
    assert output.reconstruction.shape == images.shape
