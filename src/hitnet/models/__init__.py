"""Networks: feature extractors, heads and decoders, built by name; and how to add your own."""

from hitnet.models.backbones import open_backbone as open_backbone
from hitnet.models.choice import MODELS as MODELS
from hitnet.models.choice import PRETRAINED as PRETRAINED
from hitnet.models.choice import ModelChoice as ModelChoice
from hitnet.models.choice import build as build
from hitnet.models.choice import choose_model as choose_model
from hitnet.models.choice import default_name as default_name
from hitnet.models.choice import find_choice as find_choice
from hitnet.models.choice import list_models as list_models
from hitnet.models.choice import register_model as register_model
from hitnet.models.classifier import HitOrMissClassifier as HitOrMissClassifier
from hitnet.models.classifier import with_backbone as with_backbone
from hitnet.models.features import Features as Features
from hitnet.models.features import PaperFeatures as PaperFeatures
from hitnet.models.network import HitNet as HitNet
from hitnet.models.network import ModelConfig as ModelConfig
from hitnet.models.network import Network as Network
from hitnet.models.network import Output as Output
from hitnet.models.network import unit_images as unit_images
from hitnet.models.network import weights_fingerprint as weights_fingerprint
from hitnet.models.registry import Head as Head
from hitnet.models.registry import register_features as register_features
from hitnet.models.registry import register_head as register_head
