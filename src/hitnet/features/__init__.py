"""Features of images by a frozen backbone, computed once and kept; heads fitted on them, all folds at once."""

from hitnet.features.cache import cached_features as cached_features
from hitnet.features.dataset_features import extract_features as extract_features
from hitnet.features.extraction import Extractor as Extractor
from hitnet.features.extraction import extract as extract
from hitnet.features.heads import HeadOptions as HeadOptions
from hitnet.features.heads import fit_heads as fit_heads
from hitnet.features.neighbours import most_typical as most_typical
from hitnet.features.neighbours import near_duplicates as near_duplicates
from hitnet.features.neighbours import neighbour_votes as neighbour_votes
from hitnet.features.opinions import Opinion as Opinion
from hitnet.features.opinions import all_distances as all_distances
