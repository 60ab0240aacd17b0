"""Show what a network has learned, and make images with it: prototypes, traversal, generation, hybrid augmentation."""

from hitnet.models.hybrid import Hybrid, hybrid
from hitnet.synthesis.decoding import Prototypes, decode, prototypes
from hitnet.synthesis.distributions import (
    CapsuleDistributions,
    CapsuleGaussians,
    capsule_distributions,
    fitted_gaussians,
)
from hitnet.synthesis.generation import Generated, generate
from hitnet.synthesis.hybrid_images import HybridExamples, augment, hybrid_examples
from hitnet.synthesis.traversal import Traversal, traverse
from hitnet.synthesis.writing import ImageStream, write_images

__all__ = [
    "CapsuleDistributions",
    "CapsuleGaussians",
    "Generated",
    "Hybrid",
    "HybridExamples",
    "ImageStream",
    "Prototypes",
    "Traversal",
    "augment",
    "capsule_distributions",
    "decode",
    "fitted_gaussians",
    "generate",
    "hybrid",
    "hybrid_examples",
    "prototypes",
    "traverse",
    "write_images",
]
