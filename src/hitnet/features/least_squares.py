"""Ridge regression of the classes on features: what Hit-or-Miss heads begin at, and a judge by itself."""

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 4_096  # rows that are computed at once
PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)  # times N·D / 1000: which of them fits is measured
CHOOSING = 8_192  # images that the penalty is chosen on


def standardisation(features: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (D,) and 1 / standard deviation (D,) of each feature, in bounded memory; 0 where a feature never changes."""
    total = torch.zeros(features.shape[1], dtype=torch.float64, device=features.device)
    squares = total.clone()
    # Of shifted values, so that the squares of a large mean do not swallow a small spread.
    shift = features[:1].double()
    for rows in features.split(BLOCK):
        shifted = rows.double() - shift
        total += shifted.sum(dim=0)
        squares += shifted.square().sum(dim=0)
    mean = total / len(features)
    variance = squares / len(features) - mean.square()
    varies = variance > 1e-12 * (mean + shift[0]).square()  # relative: units may be of any size
    scale = torch.where(varies & (variance > 0), variance.clamp_min(torch.finfo(torch.float64).tiny).rsqrt(), 0)
    return (mean + shift[0]).float(), scale.float()


class LeastSquares:
    """Ridge regression of the classes, as zeros and ones (N, K), on standardised features (N, D).

    With the penalty a: W = (XᵀX + a)⁻¹ Xᵀ(Y − mean). What it would say of an image without that image follows without
    fitting anew: (prediction − h y) / (1 − h), h = 1/N + x (XᵀX + a)⁻¹ xᵀ. Where N < D, all this is computed in the
    N dimensions that the images span.
    """

    def __init__(self, features: Tensor, labels: Tensor, num_classes: int) -> None:
        self.features, self.labels, self.num_classes = features, labels, num_classes
        self.mean, self.scale = standardisation(features)
        (count, width), device = features.shape, features.device
        everything = torch.arange(count, device=device)
        self.basis = torch.linalg.qr(self.rows(everything).T)[0] if count < width else None  # (D, N)
        width = min(count, width)
        self.gram = torch.zeros(width, width, device=device)
        self.sums = torch.zeros(num_classes, width, device=device)  # of the images of each class
        for index in everything.split(BLOCK):
            rows = self.coordinates(index)
            self.gram += rows.T @ rows
            self.sums.index_add_(0, labels[index], rows)
        self.counts = torch.bincount(labels, minlength=num_classes).float()
        self.penalty = 0.0

    def rows(self, index: Tensor) -> Tensor:
        """Standardised features of images (B, D)."""
        return (self.features[index].float() - self.mean) * self.scale

    def coordinates(self, index: Tensor) -> Tensor:
        """The same in the basis, if there is one."""
        return self.rows(index) if self.basis is None else self.rows(index) @ self.basis

    def factor(self, gram: Tensor, penalty: float) -> Tensor:
        return torch.linalg.cholesky(gram + penalty * torch.eye(len(gram), device=gram.device))

    def choose_penalty(self, draw: torch.Generator) -> float:
        """The penalty whose leave-one-out predictions have the smallest squared error."""
        unit = len(self.labels) * self.features.shape[1] / 1000
        some = torch.randperm(len(self.labels), generator=draw)[:CHOOSING].to(self.labels.device)
        truth = F.one_hot(self.labels[some], self.num_classes)
        errors = [float((self.leave_one_out(unit * each, some) - truth).square().mean()) for each in PENALTIES]
        return unit * PENALTIES[errors.index(min(errors))]

    def leave_one_out(self, penalty: float, index: Tensor | None = None) -> Tensor:
        """What least squares that have not seen an image say of it (N, K), or of some images (B, K)."""
        index = torch.arange(len(self.labels), device=self.labels.device) if index is None else index
        factor, share = self.factor(self.gram, penalty), self.counts / len(self.labels)
        weights = torch.cholesky_solve(self.sums.T, factor)  # the rows have the mean 0, so that of Y has no part
        said = []
        for some in index.split(BLOCK):
            rows = self.coordinates(some)
            own = torch.linalg.solve_triangular(factor, rows.T, upper=False).square().sum(dim=0)
            own = (own + 1 / len(self.labels)).clamp_max(1 - 1e-6)[:, None]
            truth = F.one_hot(self.labels[some], self.num_classes)
            said.append((rows @ weights + share - own * truth) / (1 - own))
        return torch.cat(said)

    def weights(self, penalty: float, without: Tensor) -> Tensor:
        """The weights (D, K) of a fit without some images (N,)."""
        gram, sums, counts = self.gram.clone(), self.sums.clone(), self.counts.clone()
        for index in torch.nonzero(without)[:, 0].split(BLOCK):
            rows = self.coordinates(index)
            gram -= rows.T @ rows
            sums.index_add_(0, self.labels[index], -rows)
            counts -= torch.bincount(self.labels[index], minlength=self.num_classes)
        left = counts.sum()
        mean = sums.sum(dim=0) / left
        factor = self.factor(gram - left * torch.outer(mean, mean), penalty * float(left) / len(self.labels))
        found = torch.cholesky_solve(sums.T - torch.outer(mean, counts), factor)
        return found if self.basis is None else self.basis @ found
