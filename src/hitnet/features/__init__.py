"""Features of images by a frozen backbone, computed once and kept; heads fitted on them, all folds at once."""

from hitnet.features.cache import cached_features
from hitnet.features.dataset_features import extract_features
from hitnet.features.extraction import Extractor, extract
from hitnet.features.heads import HeadOptions, fit_heads
from hitnet.features.neighbours import most_typical, near_duplicates, neighbour_votes
from hitnet.features.opinions import Opinion, all_distances, judge_features

__all__ = [
    "Extractor",
    "HeadOptions",
    "Opinion",
    "all_distances",
    "cached_features",
    "extract",
    "extract_features",
    "fit_heads",
    "judge_features",
    "most_typical",
    "near_duplicates",
    "neighbour_votes",
]
