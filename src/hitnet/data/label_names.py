"""Labels as names of classes: one rule for tables, arrays and data sets."""

from __future__ import annotations

import re

NO_LABEL = "-1"  # as in data sets of Hugging Face, torchvision and scikit-learn
UNLABELLED = "it has no label (empty or -1)"
WHOLE_NUMBER = re.compile(r"(-?[0-9]+)\.0+")


def label_name(label: object) -> str | None:
    """The class that a label names; None if there is none: nothing, not a number, an empty text, or -1.

    A whole number has no decimal point, also in text: pandas writes 2 as "2.0" if another cell of the column is empty.
    """
    if label is None or label != label:
        return None
    text = str(label).strip()
    name = WHOLE_NUMBER.sub(r"\1", text) if WHOLE_NUMBER.fullmatch(text) else text
    return None if name in ("", NO_LABEL) else name
