"""Images and labels: what they are, where they come from, and how they are read.

`load("mnist-sample")` gives a known set; `load("photos", split="test")` a folder of class folders, a table or
a .npz of arrays.
"""

from hitnet.data import catalogue, sample, table
from hitnet.data.catalogue import data_folder
from hitnet.data.decode import read_image
from hitnet.data.images import Images
from hitnet.data.listing import Report, Skipped
from hitnet.data.load import load, load_report
from hitnet.data.npz import save_npz

__all__ = [
    "Images",
    "Report",
    "Skipped",
    "catalogue",
    "data_folder",
    "load",
    "load_report",
    "read_image",
    "sample",
    "save_npz",
    "table",
]
