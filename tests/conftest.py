"""What tests share."""

import pytest

from hitnet import Images
from toy import toy_images


@pytest.fixture
def toy() -> Images:
    return toy_images()
