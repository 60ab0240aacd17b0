"""Read variables of a Matlab file in a process of its own: a damaged file can make scipy crash, or ask for all memory.

python matlab_reader.py FILE FOLDER BYTES NAME … writes the named variables that hold numbers as FOLDER/NAME.npy, the
fields of a structure as FOLDER/NAME.FIELD.npy. It takes no more memory than BYTES, where the system can limit it.
"""

import math
import sys

import numpy as np
from scipy.io import loadmat, whosmat


def main(path: str, folder: str, most: str, *names: str) -> None:
    claimed = sum(math.prod(shape) for name, shape, _ in whosmat(path) if name in names)
    if claimed > int(most):
        raise ValueError(f"it claims {claimed:,} values")
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(most), int(most)))
    except (ImportError, ValueError):
        pass
    content = loadmat(path, variable_names=names)
    arrays = {name: content[name] for name in names if name in content}
    for name, value in list(arrays.items()):
        if value.dtype.names and value.shape == (1, 1):
            arrays |= {f"{name}.{field}": value[0, 0][field] for field in value.dtype.names if field.isidentifier()}
    for name, array in arrays.items():
        if np.asarray(array).dtype.kind in "iuf":
            np.save(f"{folder}/{name}.npy", array, allow_pickle=False)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # a damaged file makes the reader raise almost anything
        sys.exit(f"{error or type(error).__name__}")
