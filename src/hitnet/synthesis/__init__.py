"""Show what a network has learned, and make images with it: prototypes, traversal, generation, hybrid augmentation."""

from hitnet.models.hybrid import hybrid as hybrid
from hitnet.synthesis.datasets import HybridExamples as HybridExamples
from hitnet.synthesis.datasets import ImageStream as ImageStream
from hitnet.synthesis.datasets import augment as augment
from hitnet.synthesis.datasets import hybrid_examples as hybrid_examples
from hitnet.synthesis.datasets import write_images as write_images
from hitnet.synthesis.decoding import Prototypes as Prototypes
from hitnet.synthesis.decoding import Traversal as Traversal
from hitnet.synthesis.decoding import decode as decode
from hitnet.synthesis.decoding import prototypes as prototypes
from hitnet.synthesis.decoding import traverse as traverse
from hitnet.synthesis.distributions import CapsuleDistributions as CapsuleDistributions
from hitnet.synthesis.distributions import Generated as Generated
from hitnet.synthesis.distributions import capsule_distributions as capsule_distributions
from hitnet.synthesis.distributions import fitted_gaussians as fitted_gaussians
from hitnet.synthesis.distributions import generate as generate
