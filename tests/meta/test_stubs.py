"""The stub of the compiled module tells what the module holds."""

import ast
from pathlib import Path

import quarkfast
from quarkfast import _core

STUB = ast.parse(Path(str(quarkfast.__file__)).with_name("_core.pyi").read_text(encoding="utf-8"))


def public(names: object) -> set[str]:
    return {name for name in dir(names) if not name.startswith("_")}


def declared(body: list[ast.stmt]) -> dict[str, ast.FunctionDef | ast.ClassDef]:
    """Return what a stub defines; an assignment declares a function like another one."""
    found: dict[str, ast.FunctionDef | ast.ClassDef] = {}
    for node in body:
        match node:
            case ast.FunctionDef() | ast.ClassDef() if not node.name.startswith("_"):
                found[node.name] = node
            case ast.Assign(targets=[ast.Name(name)], value=ast.Name(like)) if like in found:
                found[name] = found[like]
    return found


def test_the_stub_declares_every_name_of_the_compiled_module_and_no_other() -> None:
    assert set(declared(STUB.body)) == public(_core)


def test_the_stub_declares_every_member_of_the_compiled_classes() -> None:
    for name, node in declared(STUB.body).items():
        if isinstance(node, ast.ClassDef):
            assert set(declared(node.body)) == public(getattr(_core, name))


def test_the_stub_names_arguments_as_the_compiled_functions_do() -> None:
    for name, node in declared(STUB.body).items():
        if isinstance(node, ast.FunctionDef):
            signature = (getattr(_core, name).__doc__ or "").partition("\n")[0]
            for argument in node.args.args:
                assert f"{argument.arg}: " in signature, f"{name}: {argument.arg} is not in {signature}"
