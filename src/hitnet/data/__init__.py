"""Images and labels: what they are, where they come from, and how they are read.

`open_data` is the door: it opens a known set, a folder of class folders, a table, a .npz of arrays or images in memory.
Everything else receives the opened data.
"""

from hitnet.data.formats.arrays import save_npz as save_npz
from hitnet.data.images import Images as Images
from hitnet.data.known.catalogue import FileState as FileState
from hitnet.data.known.catalogue import data_folder as data_folder
from hitnet.data.known.datasets import fetch_data as fetch_data
from hitnet.data.known.datasets import list_data as list_data
from hitnet.data.known.makers import read_matlab as read_matlab
from hitnet.data.opened import Data as Data
from hitnet.data.opened import DataOptions as DataOptions
from hitnet.data.opened import ImageSet as ImageSet
from hitnet.data.opened import Relabelling as Relabelling
from hitnet.data.opened import Report as Report
from hitnet.data.reading.array_files import read_npz as read_npz
from hitnet.data.reading.decode import read_image as read_image
from hitnet.data.sources import FORMATS as FORMATS
from hitnet.data.sources import Source as Source
from hitnet.data.sources import check_data as check_data
from hitnet.data.sources import open_data as open_data
