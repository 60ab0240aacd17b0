"""Features of images by a frozen backbone, computed once and kept; heads fitted on them, all folds at once."""

from hitnet.features.dataset_features import extract_features as extract_features
from hitnet.features.extraction import Extractor as Extractor
