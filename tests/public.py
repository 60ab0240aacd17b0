"""Which names of a module are public."""

import ast
from pathlib import Path
from types import ModuleType


def public_names(module: ModuleType) -> set[str]:
    """Those of `__all__`; without it, those that a package imports under their own names (`import x as x`)."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    imports = (
        node for node in ast.walk(ast.parse(Path(module.__file__).read_text())) if isinstance(node, ast.ImportFrom)
    )
    return {alias.name for node in imports for alias in node.names if alias.asname == alias.name}
