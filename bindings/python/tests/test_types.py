"""What type checkers are told."""

import ast
import pathlib
import subprocess
import sys

import pytest

import atbus
from atbus import _bus

_PACKAGE = pathlib.Path(atbus.__file__).parent


def parameters(function):
    """How many it has, with `self`: of a function of the stub, or of the module."""
    if not isinstance(function, ast.FunctionDef):
        signature = function.__nb_signature__[0][0].replace("\\", "")  # before numbers of defaults
        function = ast.parse(f"{signature}: ...").body[0]
    return len(function.args.posonlyargs) + len(function.args.args)


def functions_of(body):
    return {one.name: one for one in body if isinstance(one, ast.FunctionDef)}


def public_names(of):
    return {name for name in vars(of) if not name.startswith("_")}


def test_the_stub_has_what_the_module_has():
    stub = ast.parse((_PACKAGE / "_bus.pyi").read_text())
    classes = {one.name: one for one in stub.body if isinstance(one, ast.ClassDef)}
    functions = functions_of(stub.body)
    assert set(classes) | set(functions) == public_names(_bus)
    for name, function in functions.items():
        assert parameters(function) == parameters(getattr(_bus, name)), name
    fields = [one.target.id for one in classes.pop("Message").body]
    assert set(fields) | {"n_fields", "n_sequence_fields", "n_unnamed_fields"} == public_names(_bus.Message)
    for class_name, described in classes.items():
        of = getattr(_bus, class_name)
        methods = functions_of(described.body)
        assert {name for name in methods if name != "__init__"} == public_names(of), class_name
        for name, method in methods.items():
            if not method.decorator_list:  # a property
                assert parameters(method) == parameters(getattr(of, name)), f"{class_name}.{name}"


def test_the_codes_are_those_of_the_library():
    assert [code.name for code in atbus.Code] == [_bus.code_name(code) for code in range(len(atbus.Code))]
    assert _bus.code_name(len(atbus.Code)) == "unknown"


def test_a_program_with_types_passes_the_checker(tmp_path):
    pytest.importorskip("mypy")
    assert (_PACKAGE / "py.typed").exists()
    program = pathlib.Path(__file__).parent / "typed_program.py"
    for what in (["-p", "atbus"], [program]):
        checked = subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, *what],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert checked.returncode == 0, checked.stdout + checked.stderr
