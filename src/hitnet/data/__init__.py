"""Images and labels: what they are, where they come from, and how they are read.

`open_data` is the door: it opens a known set, a folder of class folders, a table, a .npz of arrays or images in memory.
Everything else receives the opened data.
"""

from hitnet.data.formats.npz import save_npz
from hitnet.data.images import Images
from hitnet.data.known.catalogue import FileState, data_folder
from hitnet.data.known.datasets import fetch_data, list_data
from hitnet.data.opened import Check, Data, DataOptions, ImageSet, Relabelling, Report
from hitnet.data.reading.array_files import read_npz
from hitnet.data.reading.decode import read_image
from hitnet.data.reading.entries import Skipped
from hitnet.data.sources import FORMATS, Source, check_data, open_data

__all__ = [
    "FORMATS",
    "Check",
    "Data",
    "DataOptions",
    "FileState",
    "ImageSet",
    "Images",
    "Relabelling",
    "Report",
    "Skipped",
    "Source",
    "check_data",
    "data_folder",
    "fetch_data",
    "list_data",
    "open_data",
    "read_image",
    "read_npz",
    "save_npz",
]
