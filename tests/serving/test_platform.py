"""What holds of the plug-in of vLLM without vLLM: how it is found, and that it imports nothing."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from torch_openreg.integrations import vllm

ROOT = Path(__file__).parents[2]
FOLDER = Path(vllm.__file__).parent


def test_the_entry_point_is_the_function_that_names_the_platform() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (value,) = project["entry-points"]["vllm.platform_plugins"].values()
    assert value == f"{vllm.platform.__module__}:{vllm.platform.__name__}"


def test_each_class_that_vllm_imports_by_its_name_is_where_the_name_says() -> None:
    named = [vllm.platform(), _constant("platform.py", "_WORKER")]
    for name in named:
        assert name is not None
        module, _, defined = name.rpartition(".")
        classes = _classes(FOLDER.joinpath(*module.split(".")[2:]).with_suffix(".py"))
        assert defined in classes


def test_without_a_device_there_is_no_platform() -> None:
    assert _run("print(vllm.platform())", OPENREG_DEVICE_COUNT="0") == "None"


def test_nothing_of_vllm_is_imported_before_vllm_asks() -> None:
    assert _run("print('vllm' in sys.modules, bool(vllm.platform()), 'vllm' in sys.modules)") == "False True False"


def _run(code: str, **variables: str) -> str:
    command = [sys.executable, "-c", f"import sys; import torch; from torch_openreg.integrations import vllm; {code}"]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


def _constant(file: str, name: str) -> str:
    for node in ast.parse((FOLDER / "_vllm" / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return str(ast.literal_eval(node.value))
    raise KeyError(name)


def _classes(file: Path) -> set[str]:
    return {node.name for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef)}
