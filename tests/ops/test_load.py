"""Operators that are declared on first use (Note in ``tenkey/ops/builtin/__init__.py``), in processes of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tenkey as tk
from tests._programs import Programs

_BEGIN = """
import sys
import tenkey as tk
from tenkey.dispatch.registry import registry
from tenkey.ops import builtin

waiting = {f"{builtin.__name__}.{name}" for names in builtin._waiting.values() for name in names}
assert waiting and not waiting & set(sys.modules)
names, modules = set(registry.operators), set(sys.modules)
"""


def run(program: str) -> None:
    command = [sys.executable, "-c", _BEGIN + textwrap.dedent(program)]
    result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "use",
    [
        "assert abs(tk.special.i0(tk.asarray(0.0)).item() - 1) < 1e-6",
        "from tenkey.special import i0",
        "import tenkey.fft; assert 'fftshift' in tenkey.fft.__all__",
        "assert tk.linalg.inv(tk.eye(2)).tolist() == [[1, 0], [0, 1]]",
        "from tenkey import *; linalg.svd, fft.fft, special.zeta",
        "assert registry.find('tk::linalg_svd').name == 'tk::linalg_svd'",
        "assert tk.ops.tk.hurwitz",
        "x = tk.zeros(1); tk.ops.tk.special_i0_(x); assert x.item() == 1",
        "assert 'special_i0' in dir(tk.ops.tk)",
        "assert 'tk::special_i0' in [op.name for op in registry]",
        "assert 'tk::special_i0' in [row.name for row in tk.ops.pointwise_operators()]",
        "import numpy as np; assert np.linalg.det(tk.eye(2)) == 1",
        "import numpy as np; assert np.fft.fft(tk.ones(2)).tolist() == [2, 0]",
        "assert {'fft', 'linalg', 'special'} < set(dir(tk)) & set(tk.__all__)",
        "import numpy as np; assert np.modf(tk.ones(1).requires_grad_())[0].requires_grad",
        "import numpy as np; assert np.spacing(tk.ones(2).to('meta')).shape == (2,)",
        "assert tk.unique_values(tk.ones(3)).tolist() == [1] and 'unique_values' in vars(tk)",
        "assert 'add' not in vars(tk) and 'add' in dir(tk) and 'frexp' in tk.__all__",
        "from tenkey import *; add, frexp, histogram",
        "from tenkey import histogram; assert histogram(tk.ones(3), 1)[0].tolist() == [3]",
        "assert tk.rand(3).shape == (3,) and tk.random.normal(2).shape == (2,)",
        "assert tk.ones(1).erf().item() > 0.84 and tk.asarray([0, 1]).argwhere().tolist() == [[1]]",
        "assert tk.cat([tk.ones(1), tk.ones(1)]).shape == (2,) and tk.cat is tk.cat",
        "assert tk.polymul(tk.ones(2), tk.ones(2)).tolist() == [1, 2, 1]",
        "assert tk.cov(tk.ones((2, 3)), aweights=tk.ones(3)).shape == (2, 2)",
        "assert tk.asarray([2.0, 1.0]).argsort().tolist() == [1, 0] and tk.Tensor.argsort is tk.Tensor.argsort",
        "assert tk.zeros(2).cos_().tolist() == [1, 1] and tk.zeros(2).arccos().shape == (2,)",
        "tk.ops.tk.cos_(tk.zeros(1)); assert tk.zeros(2).cos_().tolist() == [1, 1]",
        "assert hasattr(tk.ones(1), 'topk') and {'topk', 'relu_', 'softmax'} < set(dir(tk.Tensor))",
        "assert tk.special.softmax(tk.ones(1), 0).item() == 1 and 'log_softmax' in dir(tk.special)",
        "assert tk.put_along_axis(tk.zeros(2), tk.asarray([1]), 1.0).tolist() == [0, 1]",
        "assert tk.ops.tk.sort(tk.asarray([2, 1])).tolist() == [1, 2]",
    ],
)
def test_every_way_to_an_operator(use: str, programs: Programs, tmp_path: Path) -> None:
    programs.run(_BEGIN + use, tmp_path)


def test_a_name_loads_the_operators_of_its_prefix() -> None:
    run("""
    def declared(*prefixes):
        return not set(prefixes) & set(builtin._waiting)

    tk.relu(tk.ones(1)).log_softmax(0)
    assert set(builtin.FAMILIES) - set(builtin._waiting) == {"elementwise.activations", "nn"}
    registry.find("tk::linalg_svd")
    assert declared("linalg") and not declared("fft") and not declared("special")
    registry.find("tk::special_i0_")
    assert declared("special") and not declared("sorting.sets")
    registry.find("tk::unique_values")
    assert declared("sorting.sets") and not declared("random")
    tk.random.uniform(2)
    assert declared("random") and not declared("fft") and not declared("shape.padding")
    """)


def test_modules_and_blocks_that_may_wait() -> None:
    """They import nothing else for the first time, and their methods stand in the class before they are made."""
    run("""
    from tenkey.ops.declare.methods import DelayedMethod
    delayed = {name for name, value in vars(tk.Tensor).items() if isinstance(value, DelayedMethod)}
    builtin.load_all()
    helpers = {"linalg.common", "numeric.bin_rules", "random_bits", "random_decompositions", "results", "sorting",
               "sorting.insertion", "special", "special.arrays", "special.coefficients", "special.quadrature",
               "special.series", "special.zeta"}  # nothing else imports these
    others = {"tenkey.core.random.draws", "fractions", "decimal", "_decimal"}  # do not take the lock of the registry
    imported = set(sys.modules) - modules - others
    assert imported == waiting | {f"tenkey.ops.builtin.{name}" for name in helpers}, imported
    for name in set(registry.operators) - names:
        operator = registry.operators[name]
        methods = operator.facets["Methods"].names if "Methods" in operator.facets else ()
        assert delayed.issuperset(methods), name
        assert operator.outstanding  # as if it had been declared during the import
    """)


def test_methods_that_wait() -> None:
    """A subclass may override them and call the one of Tensor; what a program puts in their place stays."""
    run("""
    from tenkey.core.tensor import Tensor
    class Noisy(Tensor):
        def std(self):
            return super().std() + 1
    x = tk.asarray([1.0, 3.0])
    assert x.as_subclass(Noisy).std().item() == 2
    Tensor.topk = lambda self: "mine"
    del Tensor.cummin
    assert tk.searchsorted(x, x).tolist() == [0, 1] and x.topk() == "mine" and x.cummax()[0].tolist() == [1, 3]
    assert not hasattr(x, "cummin")
    sort = vars(Tensor)["sort"]
    assert callable(sort) and sort(x).tolist() == [1, 3] and sort.__name__ == "sort"
    registry.undefine(registry.find("tk::relu"))
    registry.undefine(registry.find("tk::cos_"))
    for name in ("relu", "relu_", "cos_"):
        assert not hasattr(x, name), "its operator was removed"
    assert x.cos().shape == (2,)
    """)


def test_names_of_operators_that_wait_are_taken() -> None:
    run("""
    for name in ("relu", "relu_"):
        try:
            registry.define(f"tk::{name}(Tensor{'(a!)' if name[-1] == '_' else ''} x) -> Tensor"
                            f"{'(a!)' if name[-1] == '_' else ''}")
        except tk.dispatch.errors.RegistrationError as error:
            assert "is defined already" in str(error)
        else:
            raise AssertionError(name)
    """)


def test_results_are_unpickled_without_their_operators() -> None:
    import pickle

    result = pickle.dumps(tk.topk(tk.asarray([1.0, 3.0, 2.0]), 2))
    run(f"""
    import pickle
    result = pickle.loads({result!r})
    assert type(result).__name__ == "TopKResult" and result.values.tolist() == [3, 2]
    assert not waiting & set(sys.modules)
    """)


def test_a_family_that_fails_is_repeated() -> None:
    """However far the load came, nothing of it remains: neither operators nor methods."""
    run("""
    methods = dict(vars(tk.Tensor))
    real = registry.define
    def define(*args, **options):
        global left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return real(*args, **options)
    stops = [(family, 1) for family in builtin.FAMILIES]
    stops += [("elementwise.trigonometry", 7), ("elementwise.trigonometry", 20), ("nn", 9), ("sorting.sort", 3)]
    for family, left in stops:
        registry.define = define
        try:
            builtin.load(family)
        except KeyboardInterrupt:
            pass
        registry.define = real
        assert set(registry.operators) == names and not waiting & set(sys.modules), family
        assert dict(vars(tk.Tensor)) == methods, family
    for family in builtin.FAMILIES:
        builtin.load(family)
    assert tk.zeros(2).cos_().tolist() == [1, 1] and len(list(registry)) > 300
    """)


def test_kernels_of_operators_that_wait() -> None:
    run("""
    try:
        tk.library.Library("tk", "IMPL").impl("special_i0", lambda: None, "CPU", allow_override=True)
    except tk.dispatch.errors.RegistrationError as error:
        assert "special_i0" in str(error)
    else:
        raise AssertionError("a kernel without the argument is refused where it is registered")
    """)


def test_a_second_definition_is_refused() -> None:
    run("""
    from tenkey.ops.declare import pointwise
    for name in ("frexp", "linalg_det"):
        try:
            pointwise(f"{name}(Tensor x) -> Tensor", scalar=lambda T: lambda x: x, doc="Return x.")
        except tk.dispatch.errors.RegistrationError as error:
            assert "is defined already" in str(error)
        else:
            raise AssertionError(name)
    pointwise("mine(Tensor x) -> Tensor", scalar=lambda T: lambda x: x, doc="Return x.")
    assert tk.mine(2.0).item() == 2 and "mine" in dir(tk) and "mine" not in tk.__all__
    registry.undefine(registry.find("tk::mine"))
    assert not hasattr(tk, "mine")
    exec("from tenkey import *")
    """)


def test_functions_are_made_once() -> None:
    run("""
    import threading
    sys.setswitchinterval(1e-6)
    found, ready = [], threading.Barrier(8)
    def read():
        ready.wait()
        found.append([getattr(tk, name) for name in ("add", "frexp", "cat", "exp")])
    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(a is b for functions in found for a, b in zip(functions, found[0]))
    """)


def test_unknown_names() -> None:
    run("""
    for find in (lambda: registry.find("tk::special_i"), lambda: tk.ops.tk.special_i, lambda: tk.special.i):
        try:
            find()
        except (tk.dispatch.errors.OperatorNotFoundError, AttributeError) as error:
            assert "special" in str(error)
        else:
            raise AssertionError
    """)


def test_first_use_in_many_threads() -> None:
    run("""
    import threading
    sys.setswitchinterval(1e-5)
    uses = [lambda: tk.special.i0(tk.ones(2)), lambda: registry.find("tk::special_i1"), lambda: tk.fft.fft(tk.ones(2)),
            lambda: tk.linalg.cond(tk.eye(2)), lambda: [*registry], lambda: tk.ops.tk.linalg_qr,
            lambda: tk.linalg.svd(tk.eye(2)), lambda: dir(tk.ops.tk), lambda: tk.ones(2).sort(), lambda: tk.Tensor.sort,
            lambda: tk.hanning(3), lambda: tk.zeros(2).relu_()]
    errors = []
    ready = threading.Barrier(len(uses))
    def work(use):
        ready.wait()
        try:
            use()
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(use,), daemon=True) for use in uses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors and not any(thread.is_alive() for thread in threads), errors
    """)


def test_a_failed_load_leaves_nothing() -> None:
    run("""
    real = builtin.import_module
    def fails(name, package):
        if name.endswith("lu"):
            raise KeyboardInterrupt
        return real(name, package)
    builtin.import_module = fails
    for _ in range(2):
        try:
            tk.linalg
        except KeyboardInterrupt:
            pass
        assert set(registry.operators) == names and not waiting & set(sys.modules)
    builtin.import_module = real
    assert tk.linalg.det(tk.eye(2)).item() == 1
    """)


def test_a_definition_that_fails_is_repeated() -> None:
    run("""
    count, real = 0, registry.define
    def define(*args, **options):
        global count
        count += 1
        if count == 20:
            raise KeyboardInterrupt
        return real(*args, **options)
    registry.define = define
    try:
        builtin.load("random")
    except KeyboardInterrupt:
        pass
    assert count == 20 and set(registry.operators) == names and not waiting & set(sys.modules)
    registry.define = real
    assert registry.find("tk::random_double_log1p") and tk.random.normal(3).shape == (3,)
    """)
