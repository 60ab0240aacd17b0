#!/usr/bin/env bash
# Try a wheel in an empty environment, outside the repository: the first examples, then a part of the tests.
#
#     tools/try_wheel.sh python3.13 dist/hitnet-*.whl
#     tools/try_wheel.sh python3.11 dist/hitnet-*.whl torch==2.4.0 numpy==1.26.0    # with these versions of other packages
#
# The environment is made in a temporary folder and removed at the end. It takes about 6 GB.
set -euo pipefail
python=$1 wheel=$(realpath "$2") tests=$(realpath "$(dirname "$0")/../tests")
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$python" -m venv "$folder/venv"
cd "$folder"
venv/bin/python -m pip install --quiet "$wheel" pytest httpx "$@"
venv/bin/python -c "
import platform, torch, numpy, pandas
print('Python', platform.python_version(), 'torch', torch.__version__, 'numpy', numpy.__version__, 'pandas', pandas.__version__)"

venv/bin/hitnet train mnist-sample --limit 1000 --epochs 2 --device cpu --out run
venv/bin/hitnet evaluate run --json >/dev/null
venv/bin/hitnet prototypes run --out prototypes.png
venv/bin/hitnet audit clothing-sample --limit 200 --out clothes
venv/bin/hitnet audit mnist-sample --runs run --limit 500 --out digits
ls run/weights.safetensors prototypes.png clothes/report.html clothes/duplicates.csv digits/report.html

cp -r "$tests" tests # not beside src/, so that the installed package is tested
cd tests
PYTHONPATH=. ../venv/bin/python -m pytest -q -p no:cacheprovider -m "not gpu and not browser" \
    test_capsules.py test_losses.py test_imports.py test_public_names.py test_rooms.py runtime/test_files.py \
    data models plots synthesis training/test_runs.py training/test_step.py training/test_train.py \
    inference/test_evaluation.py decisions/test_corrections.py review/test_review_app.py
