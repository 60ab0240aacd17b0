"""What tests share."""

import os

import pytest
import torch

from hitnet import Images
from toy import toy_images

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels are then interpreted; Triton reads this when it is imported


@pytest.fixture
def toy() -> Images:
    return toy_images()
