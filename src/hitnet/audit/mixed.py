"""Networks that are trained on the labels, beside heads on a frozen backbone.

The networks have seen the labels that they judge, the heads have not. They make different mistakes: together they find
more wrong labels than either of them, and the heads say how many labels are wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hitnet.audit.feature_judges import FeatureHeads
from hitnet.audit.judges import Case, Judgement, Judges, NewNetworks
from hitnet.errors import HitNetError


@dataclass(frozen=True)
class NetworksAndHeads(Judges):
    """Networks trained on the labels, and heads on features of a frozen backbone.

    Attributes:
        networks: The networks, without neighbours: the heads ask these already.
        heads: The heads.
    """

    networks: NewNetworks = field(default_factory=NewNetworks)
    heads: FeatureHeads = field(default_factory=FeatureHeads)

    def __post_init__(self) -> None:
        if self.networks.neighbours:
            raise HitNetError(
                "NetworksAndHeads: the heads ask neighbours already. Leave out `neighbours` of `networks`."
            )

    def judge(self, case: Case) -> Judgement:
        networks, heads = self.networks.judge(case), self.heads.judge(case)
        trained = len(networks.distances)
        about = networks.about | {
            "models": trained + len(heads.distances),
            "model": f"{networks.about['model']}, {heads.about['model']}",
            "networks": [*networks.about["networks"], *heads.about["networks"]],
        }
        if networks.prototypes is None:
            about["prototypes"] = heads.about["prototypes"]
        return Judgement(
            np.concatenate([networks.distances, heads.distances]),
            case.images,
            about,
            heads.prototypes if networks.prototypes is None else networks.prototypes,
            heads.features,
            trained=trained,
            capsules=trained + (heads.capsules or 0),
            kinds=("networks",) * trained + heads.kinds,
        )
