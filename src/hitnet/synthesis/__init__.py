"""Show what a network has learned, and make images with it: prototypes, traversal, generation, hybrid augmentation."""

from hitnet.models.hybrid import Hybrid, hybrid
from hitnet.synthesis.decoding import decode
from hitnet.synthesis.distributions import (
    CapsuleGaussians,
    FeatureDistributions,
    feature_distributions,
    fitted_gaussians,
)
from hitnet.synthesis.generation import Generated, generate
from hitnet.synthesis.hybrid_images import HybridExamples, augment, hybrid_examples
from hitnet.synthesis.prototype import Prototypes, prototypes
from hitnet.synthesis.traversal import Traversal, traverse
from hitnet.synthesis.writing import ImageStream, write_images

__all__ = [
    "CapsuleGaussians",
    "FeatureDistributions",
    "Generated",
    "Hybrid",
    "HybridExamples",
    "ImageStream",
    "Prototypes",
    "Traversal",
    "augment",
    "decode",
    "feature_distributions",
    "fitted_gaussians",
    "generate",
    "hybrid",
    "hybrid_examples",
    "prototypes",
    "traverse",
    "write_images",
]
