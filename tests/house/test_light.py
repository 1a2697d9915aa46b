"""What must start fast or run without torch does not import it."""

import subprocess
import sys

import pytest


def loaded_by(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    return set(output.split())


@pytest.mark.parametrize("statement", ["import lmscope", "import backend", "import lmscope.cli"])
def test_the_front_door_imports_nothing_heavy(statement: str) -> None:
    assert not loaded_by(statement) & {"torch", "transformers", "dash", "plotly", "fastapi", "numpy"}


@pytest.mark.parametrize(
    "statement",
    ["import backend.schema", "import lmscope.client", "import frontend.app", "import lmscope; lmscope.Client"],
)
def test_the_frontend_and_the_client_never_import_torch(statement: str) -> None:
    assert not loaded_by(statement) & {"torch", "transformers", "backend.models", "backend.measure", "backend.desk"}
