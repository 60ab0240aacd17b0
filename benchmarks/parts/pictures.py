"""How good a network's pictures are: reconstructions, prototypes and samples, named by another network."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

import hitnet
from hitnet.inference.evaluation import measure
from hitnet.models.network import Network, class_distances
from hitnet.synthesis import capsule_distributions
from hitnet.synthesis.decoding import class_prototypes, to_pixels
from hitnet.synthesis.distributions import CapsuleGaussians, fit, paper_gaussians, sample_images, true_capsules

SPREADS = (1.0, 0.9, 0.8)


def picture_figures(
    run: hitnet.Run, train: hitnet.Images, test: hitnet.Images, judge: Network, *, samples: int
) -> dict[str, float]:
    """All figures of one network; `samples` images per class are drawn from each law.

    error_percent, mse        on the test images, each decoded from the capsule of the class that the network predicts
    within_percent            components of true-class capsules of test images within 0.5 ± 2m/√n (paper's law: 95.4)
    component_sd              their standard deviation about their own mean, over classes and components
    prototypes_named          prototypes that the judge takes for their own class
    LAW_named_percent         samples that the judge takes for the class they were made as
    LAW_distance              mean Euclidean distance between two samples of a class, beside that of real test images
                              (real_distance); LAW_distance_ratio is the one over the other

    Laws: `paper`, N(0.5, m/√n); `fitted`, a Gaussian per class with the full covariance of its training images, and the
    same at 0.9 and 0.8 of its spread; `diagonal`, the same without covariances; `checked`, those of `fitted` that the
    network itself takes for their own class (checked_kept_percent of them).
    """
    network, device = run.model, next(run.model.parameters()).device
    evaluation = measure(network, test)
    spread = capsule_distributions(run, test, device=device.type).by_class()
    real = mean_pair_distance(test.pixels.to(device) / 255, test.labels.to(device))
    prototypes = class_prototypes(network, torch.arange(test.num_classes))
    figures = {
        "error_percent": 100 * evaluation.error,
        "mse": float(evaluation.mse or 0.0),
        "hits_percent": 100 * float(evaluation.hits or 0.0),
        "within_percent": 100 * float(spread["within"].mean()),
        "component_sd": float((spread["spread"] ** 2).mean() ** 0.5),
        "prototypes_named": int((named(judge, prototypes) == torch.arange(test.num_classes)).sum()),
        "real_distance": real,
    }
    gaussians = fit(true_capsules(network, train), train.labels, train.num_classes)
    for law, (chosen, share) in laws(gaussians).items():
        images, labels = draw(network, chosen, share, samples)
        right = named(judge, images) == labels
        figures |= law_figures(law, images, labels, right, real)
        if law == "fitted":
            kept = named(network, images) == labels
            figures["checked_kept_percent"] = 100 * float(kept.double().mean())
            if kept.any():
                figures |= law_figures("checked", images[kept.to(device)], labels[kept], right[kept], real)
    return figures


def laws(gaussians: CapsuleGaussians) -> dict[str, tuple[CapsuleGaussians | None, float]]:
    """What capsules are drawn from: Gaussians (None for the paper's) and the factor of their spread."""
    diagonal = replace(gaussians, covariance=torch.diag_embed(gaussians.covariance.diagonal(dim1=1, dim2=2)))
    fitted = {"fitted" if share == 1 else f"fitted_{share}": (gaussians, share) for share in SPREADS}
    return {"paper": (None, 1.0), **fitted, "diagonal": (diagonal, 1.0)}


def draw(network: Network, gaussians: CapsuleGaussians | None, spread: float, samples: int) -> tuple[Tensor, Tensor]:
    """Images (N, C, H, W) on the network's device and the classes that they were made as (N,), on the CPU."""
    classes = range(network.config.num_classes)
    drawn_from = paper_gaussians(network) if gaussians is None else gaussians
    parts = list(sample_images(network, classes, samples, gaussians=drawn_from, spread=spread))
    return torch.cat([part.images for part in parts]), torch.cat([part.labels for part in parts])


def named(network: Network, images: Tensor) -> Tensor:
    """What a network takes images in [0, 1] for, once they are rounded to 256 grey levels: (N,), on the CPU."""
    return network.head.predict(class_distances(network, to_pixels(images))).cpu()


def law_figures(law: str, images: Tensor, labels: Tensor, right: Tensor, real: float) -> dict[str, float]:
    distance = mean_pair_distance(images, labels.to(images.device))
    return {
        f"{law}_named_percent": 100 * float(right.double().mean()),
        f"{law}_distance": distance,
        f"{law}_distance_ratio": distance / real,
    }


def mean_pair_distance(images: Tensor, labels: Tensor) -> float:
    """Euclidean distance between two images of one class in [0, 1]: mean over its pairs, then over classes."""
    flat = images.flatten(1).float()
    groups = [flat[labels == k] for k in labels.unique()]
    means = [torch.pdist(own).mean() for own in groups if len(own) > 1]
    return float(torch.stack(means).mean()) if means else 0.0
