"""What tests share."""

import os

import pytest
import torch

from hitnet import Images
from toy import toy_images

# The networks of the tests are too small for several cores. Processes that tests start inherit the setting.
os.environ["OMP_NUM_THREADS"] = "1"
torch.set_num_threads(1)
if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # kernels are then interpreted; Triton reads this when it is imported


@pytest.fixture
def toy() -> Images:
    return toy_images()
