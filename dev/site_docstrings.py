"""The docstrings below the fields of a class, which are not there when the program runs."""

import ast
import inspect
from functools import cache


@cache
def _of_class(owner: type) -> dict[str, str]:
    """Read them from the source: field -> text."""
    [node] = ast.parse(inspect.getsource(owner)).body
    assert isinstance(node, ast.ClassDef)
    texts = {}
    for field, text in zip(node.body, node.body[1:], strict=False):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                texts[name] = " ".join(words.split())
    return texts


def of_field(owner: type, field: str) -> str:
    """The text of a field, which a base may have; empty without one."""
    declared = next(base for base in owner.__mro__ if field in vars(base).get("__annotations__", {}))
    return _of_class(declared).get(field, "")
