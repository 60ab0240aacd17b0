"""Read variables of a Matlab file in a process of its own: a damaged file can make scipy crash, or ask for all memory.

python matlab_reader.py FILE OUT BYTES NAME … writes the named variables that hold numbers to the .npz file OUT, the
fields of a structure as NAME.FIELD. It takes no more memory than BYTES, where the system can limit it.
"""

import math
import sys

import numpy as np
from scipy.io import loadmat, whosmat


def main(path: str, out: str, most: str, *names: str) -> None:
    claimed = sum(math.prod(shape) for name, shape, _ in whosmat(path) if name in names)
    if claimed > int(most):
        raise ValueError(f"it claims {claimed:,} values")
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (int(most), int(most)))
    except (ImportError, ValueError):
        pass
    arrays: dict[str, np.ndarray] = {}
    for name, value in loadmat(path, variable_names=names).items():
        if name not in names:
            continue
        fields = value.dtype.names if value.shape == (1, 1) else None
        arrays |= {f"{name}.{field}": value[0, 0][field] for field in fields or ()} or {name: value}
    numbers = {name: array for name, array in arrays.items() if np.asarray(array).dtype.kind in "iuf"}
    np.savez(out, **numbers)  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:  # a damaged file makes the reader raise almost anything
        sys.exit(f"{error or type(error).__name__}")
