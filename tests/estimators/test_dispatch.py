"""scikit-learn's own checks of array API input, in a process where its dispatch can be switched on."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_checks_that_need_the_dispatch():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "check_array_api or dispatch_too"]
    files = ["tests/estimators/test_scikit_learn.py", "tests/estimators/test_other_arrays.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")} | {
        "SCIPY_ARRAY_API": "1"
    }
    run = subprocess.run([*command, *files], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout
    # PyTorch on the CPU in two precisions and array_api_strict, for each of the estimators; devices we lack are skipped.
    assert int(re.search(r"(\d+) passed", run.stdout)[1]) > 20
