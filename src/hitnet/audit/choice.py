"""Which judges suit a data set where none are asked for; docs/audit.md has the measurements behind it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import torch

from hitnet.audit.feature_judges import FeatureHeads
from hitnet.audit.fine_tuned import FineTuned
from hitnet.audit.judges import Case, Judgement, Judges, NewNetworks
from hitnet.audit.mixed import NetworksAndHeads
from hitnet.audit.plan import MANY_IMAGES
from hitnet.data import Images

log = logging.getLogger("hitnet")
FEW = 5_000  # grey images; fewer teach a network from scratch too little to be the only judges


@dataclass(frozen=True)
class SuitableJudges(Judges):
    """The judges that suit the images and the device; says which and why in one line of the log.

    Attributes:
        seed: Seed of the networks or heads.
    """

    seed: int = 0

    def choose(self, images: Images, device: torch.device) -> tuple[Judges, str]:
        """The judges, and who they are and why."""
        if images.shape[0] == 3 and device.type == "cuda":
            reason = "a pretrained backbone, fine-tuned and frozen (colour images, a GPU)"
            if len(images) >= MANY_IMAGES:
                reason = f"a pretrained backbone, fine-tuned ({MANY_IMAGES:,} colour images or more, a GPU)"
            return FineTuned(seed=self.seed), reason
        if images.shape[0] == 3:
            return FeatureHeads(seed=self.seed), "heads on a frozen, pretrained backbone (colour images, no GPU)"
        if len(images) < FEW:
            networks, heads = NewNetworks(seed=self.seed), FeatureHeads(seed=self.seed)
            reason = f"networks from scratch and heads on a frozen backbone (fewer than {FEW:,} grey images)"
            return NetworksAndHeads(networks, heads), reason
        if device.type == "cuda":
            return NewNetworks(seed=self.seed), "networks trained from scratch (many grey images)"
        reason = "networks trained from scratch and the most similar images (many grey images, no GPU)"
        return NewNetworks(seed=self.seed, neighbours=True), reason

    def judge(self, case: Case) -> Judgement:
        judges, who = self.choose(case.images, case.device)
        log.info("Labels are judged by %s. Set `judges` to choose otherwise.", who)
        return judges.judge(case)
