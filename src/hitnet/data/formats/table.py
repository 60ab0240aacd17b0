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
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from hitnet.data.formats.image_files import FileData
from hitnet.data.opened import Relabelling
from hitnet.data.reading.copying import check_target, copy_set, inside, is_within, leads_out, links_in_words
from hitnet.data.reading.remote import RemotePath, is_remote, path_or_address
from hitnet.data.reading.survey import Listing
from hitnet.errors import HitNetError
from hitnet.runtime.files import new_folder

if TYPE_CHECKING:
    import pandas as pd

    from hitnet.data.formats.table_rows import Table

TABLES = (".csv", ".tsv", ".parquet")  # a table's endings


class TableData(FileData):
    """A table of image files."""

    @classmethod
    def accepts(cls, source: Any) -> bool:
        if not isinstance(source, str | Path):
            return False
        path = path_or_address(source)
        if isinstance(path, RemotePath):
            return path.suffix.lower() in TABLES
        return path.suffix.lower() in TABLES and path.exists() and not path.is_dir()

    @property
    def root(self) -> Path | RemotePath:
        return self.path.parent

    @cached_property
    def table(self) -> Table:
        from hitnet.data.formats.table_rows import read_table  # pandas takes a second to import

        return read_table(self.path)

    @cached_property
    def listing(self) -> Listing:
        return self.table.listing()

    def annotations(self) -> pd.DataFrame | None:
        from hitnet.data.formats.table_rows import agreement_of

        agreement = agreement_of(self.table)
        return agreement if int(agreement["votes"].max()) > 1 else None

    def write_corrected(self, relabelling: Relabelling, out: Path) -> tuple[Path, str]:
        """Copy the table in its own format, and the files that it names inside its own folder.

        Files outside that folder, also those that a link in it leads to, stay where they are: the copy gives their
        absolute paths. Rows without an image are copied unchanged.
        """
        root, paths = self.root, relabelling.paths
        if isinstance(root, RemotePath):
            return self._write(
                relabelling, out, {file: str(self.file(file)) for file in self.table.files() if file}, {}
            )
        folders = {(root / path).parent.resolve() for path in paths} - {root.resolve()}
        check_target(out, originals=sorted(folders))
        others = {file for file in self.table.files() if file} - {*paths, *relabelling.dropped}
        remote = {file for file in (*paths, *others) if is_remote(file)}
        local = {*paths, *others} - remote
        outside = {file for file in local if leads_out(file) or not is_within(root, file)}
        there = {file for file in others & local - outside if (root / file).is_file()}
        gone = [path for path in paths if path in outside and not (root / path).is_file()]
        if gone:
            raise HitNetError(f"{root / gone[0]} is not there any more. Nothing was written.")
        kept = sorted((({*paths} & local) - outside) | there)
        renamed = {file: os.path.abspath(root / file) for file in outside}
        return self._write(relabelling, out, renamed, {file: inside(file) for file in kept})

    def _write(
        self, relabelling: Relabelling, out: Path, renamed: dict[str, str], copied: dict[str, PurePosixPath]
    ) -> tuple[Path, str]:
        """Write the corrected table, with new paths for files that stay where they are, and copy the others."""
        from hitnet.data.formats.table_copy import write_table

        paths, left_out = relabelling.paths, []
        changes = zip(paths, relabelling.before, relabelling.after, strict=True)
        with new_folder(out) as folder:
            if isinstance(self.root, Path):
                left_out = copy_set(self.root, copied, folder)
            note = write_table(
                self.table,
                folder / self.path.name,
                labels=dict(zip(paths, relabelling.after, strict=True)),
                relabelled={path for path, old, new in changes if old != new},
                dropped=relabelling.dropped,
                renamed=renamed,
            )
        return out / self.path.name, "; ".join(filter(None, [note, links_in_words(left_out)]))
