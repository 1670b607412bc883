"""Generated functions: names that arguments cannot hide, and text that tracebacks show."""

from __future__ import annotations

import gc
import inspect
import linecache
import sys
import traceback
from types import FrameType
from typing import Any

import pytest

from tenkey.dispatch import parse_schema
from tenkey.dispatch.calling import codegen


@pytest.mark.parametrize("name", ["x", "helper", "helper_", "total", "len", "default_n", "function", "builtins"])
def test_arguments_cannot_hide_names(name: str) -> None:
    schema = parse_schema(f"f(Tensor {name}, int[] others, *, int n=3) -> int")
    source = (
        f"def f({codegen.parameters(schema, defaults=True)}):\n"
        f"    $total = $helper({name}) + $len(others)\n"
        f"    return $total + n\n"
    )
    function = codegen.define(source, {"helper": lambda value: 10 * value}, "<codegen test>", schema)
    assert function(2, (1, 1)) == 25
    assert function(2, (1, 1), n=0) == 22
    assert [*inspect.signature(function).parameters] == [name, "others", "n"]
    assert "$" not in inspect.getsource(function)
    assert inspect.getsource(function).startswith(f"def f({name}, others, *, n=")


def test_calls_and_parameters_follow_the_schema() -> None:
    schema = parse_schema("f(Tensor x, int n=1, *, bool b=False, Tensor y) -> Tensor")
    assert codegen.parameters(schema) == "x, n, *, b, y"
    assert codegen.parameters(schema, defaults=True) == "x, n=$default_n, *, b=$default_b, y"
    assert codegen.parameters(schema, keyword_only=[]) == "x, n, b, y"
    assert codegen.call(schema) == "x, n, b=b, y=y"
    assert codegen.call(schema, lambda a: f"{a.name}.t") == "x.t, n.t, b=b.t, y=y.t"


def test_equal_functions_share_code_and_keep_their_names() -> None:
    schema = parse_schema("f(int a) -> int")
    one, other = (
        codegen.define(f"def {n}(a):\n    return [$g(i) for i in [a]]\n", {"g": g}, f"<file {n}>", schema)
        for n, g in (("one", abs), ("other", lambda value: 1 / value))
    )
    assert one.__code__.co_code == other.__code__.co_code
    assert (one(-1), other(2)) == ([1], [0.5])
    with pytest.raises(ZeroDivisionError) as caught:
        other(0)
    frames = [f for f in traceback.extract_tb(caught.value.__traceback__) if f.filename == "<file other>"]
    assert [frame.name for frame in frames] == ["other", "<listcomp>"] or [frame.name for frame in frames] == ["other"]
    assert all(frame.line == "return [g(i) for i in [a]]" for frame in frames)
    assert one.__name__ == "one"


def test_texts_of_freed_functions_stay_while_linecache_is_read() -> None:
    """The collector may free a function in the middle of ``checkcache``, which would miss an entry (KeyError)."""
    functions = [codegen.define("def f():\n    return 1\n", {}, "<freed function>")]

    def free(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is linecache.checkcache.__code__ and "filenames" in frame.f_locals:
            functions.clear()
            gc.collect()
        return free

    before = sys.gettrace()
    sys.settrace(free)
    try:
        linecache.checkcache()
    finally:
        sys.settrace(before)
    assert functions == []
    assert linecache.getline("<freed function>", 2) == "    return 1\n"
    codegen.define("def g():\n    return 2\n", {}, "<next function>")
    assert linecache.getline("<freed function>", 2) == ""
