"""A table of image files: a .csv, .tsv or .parquet with a column of paths and one or more of labels.

path    path, image, file, filename, image_path ...: relative to the table, or absolute
label   label, class, target or category
votes   label_1, label_2 ... or annotator_*: the labels of several people; or one row per person and image, where a
        column annotator, annotator_id or annotator_name is ignored
split   optional: train, test or validation

If several people labelled an image, the majority's label counts, in a tie the first. A label column takes precedence
over columns of votes. The case of column names does not matter.
"""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hitnet.data.copying import check_target, copy_set, inside, is_within, leads_out, links_in_words
from hitnet.data.image_files import FileData
from hitnet.data.opened import Relabelling
from hitnet.data.survey import Listing
from hitnet.errors import HitNetError
from hitnet.files import expand, new_folder

if TYPE_CHECKING:
    import pandas as pd

    from hitnet.data.table_rows import Table

TABLES = (".csv", ".tsv", ".parquet")  # a table's endings


class TableData(FileData):
    """A table of image files."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        if not isinstance(source, str | Path):
            return False
        path = expand(source)
        return path.suffix.lower() in TABLES and path.exists() and not path.is_dir()

    @property
    def root(self) -> Path:
        return self.path.parent

    @cached_property
    def table(self) -> Table:
        from hitnet.data.table_rows import read_table  # pandas takes a second to import

        return read_table(self.path)

    @cached_property
    def listing(self) -> Listing:
        return self.table.listing()

    def annotations(self) -> pd.DataFrame | None:
        from hitnet.data.table_rows import agreement_of

        agreement = agreement_of(self.table)
        return agreement if int(agreement["votes"].max()) > 1 else None

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Copy the table in its own format, and the files that it names inside its own folder.

        Files outside that folder, also those that a link in it leads to, stay where they are: the copy gives their
        absolute paths. Rows without an image are copied unchanged.
        """
        from hitnet.data.table_copy import write_table

        root, paths = self.root, relabelling.paths
        folders = {(root / path).parent.resolve() for path in paths} - {root.resolve()}
        check_target(out, originals=sorted(folders))
        others = {file for file in self.table.files() if file} - {*paths, *relabelling.dropped}
        outside = {file for file in (*paths, *others) if leads_out(file) or not is_within(root, file)}
        there = {file for file in others - outside if (root / file).is_file()}
        gone = [path for path in paths if path in outside and not (root / path).is_file()]
        if gone:
            raise HitNetError(f"{root / gone[0]} is not there any more. Nothing was written.")
        with new_folder(out) as folder:
            kept = ({*paths} - outside) | there
            left_out = copy_set(root, {file: inside(file) for file in sorted(kept)}, folder)
            changes = zip(paths, relabelling.before, relabelling.after, strict=True)
            note = write_table(
                self.table,
                folder / self.path.name,
                labels=dict(zip(paths, relabelling.after, strict=True)),
                relabelled={path for path, old, new in changes if old != new},
                dropped=relabelling.dropped,
                renamed={file: os.path.abspath(root / file) for file in outside},
            )
        return out / self.path.name, "; ".join(filter(None, [note, links_in_words(left_out)]))
