"""The layout of the package: folders of a size that a reader takes in, and one meaning for each module name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.package.test_import_contract import ROOT, modules_of

MOST = 15  # code files in a folder
# Modules that share a name because they are about the same thing, at different layers.
RELATED = {
    "arg_reduction": "the places of the best elements: loops of the CPU, and kernels of CUDA",
    "compiled": "code that LLVM compiles, and the compiled core",
    "copying": "copies as operators, and as kernels of CUDA",
    "creation": "factories as operators, and those whose arguments no schema describes",
    "cuda": "the namespace tk.cuda, and the backend behind it",
    "device": "the devices of tensors, and memory and queues of those of CUDA",
    "dtypes": "the data types, and functions of them",
    "engine": "the folder's main module",
    "fft": "the operators, and the namespace tk.fft",
    "function": "the folder's main module",
    "gradcheck": "the folder's main module",
    "indexing": "indexing as operators, as CPU kernels, and functions whose arguments no schema describes",
    "kernel_source": "the text of generated kernels: those that record gradients, and those of CUDA",
    "kernels": "hand-written kernels: of the CPU backend, and of native functions",
    "linalg": "linear algebra: operators, functions, and the namespace tk.linalg",
    "loading": "the libraries that are loaded: of native operators, and the compiled core",
    "matmul": "matrix products as an operator, and its CPU kernel",
    "memory": "memory of CUDA devices, and in profiles",
    "modes": "dispatch modes, and those that are ready to use",
    "operations": "operations of scalar expressions, and of the compiled core",
    "ordering": "sorting on the CPU, and on CUDA",
    "places": "positions of elements: of indices, and of the threads of a kernel",
    "pointwise": "pointwise kernels of the CPU, and of CUDA",
    "products": "products of matrices: operators, and the loops of the CPU",
    "promotion": "type promotion: of dtypes, and of declarations",
    "random": "random numbers: bits, operators, distributions",
    "recording": "calls that are recorded: the kernels that do it, and the same in the compiled core",
    "reduction": "reductions as operators, and as CPU kernels",
    "reductions": "reductions as operators, and their gradients",
    "samples": "sample inputs: of declarations, and of any operator",
    "scan": "running results: loops of the CPU, and kernels of CUDA",
    "scatter": "scattering as an operator, and as kernels of CUDA",
    "sort": "sorting as an operator, and as kernels of CUDA",
    "special": "special functions: operators, and the namespace tk.special",
    "splitting": "splitting as operators, and functions whose arguments no schema describes",
    "statistics": "statistics as operators, and functions whose arguments no schema describes",
    "streams": "the queues of a device: of any backend, and of CUDA",
    "sweeps": "operators that are sweeps over rows: their declaration, and kernels of CUDA",
    "views": "views as operators, and views under autograd",
}


def crowded(root: Path) -> dict[str, int]:
    """The folders with more than ``MOST`` code files."""
    counts: dict[str, int] = defaultdict(int)
    for path in modules_of(root).values():
        counts[str(path.parent.relative_to(root))] += 1
    return {folder: count for folder, count in counts.items() if count > MOST}


def homonyms(root: Path) -> dict[str, list[str]]:
    """The base names that several modules have."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules_of(root):
        found[module.rpartition(".")[2]].append(module)
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def test_no_folder_is_crowded() -> None:
    assert crowded(ROOT) == {}


def test_modules_of_one_name_are_related() -> None:
    assert sorted(homonyms(ROOT)) == sorted(RELATED)


def test_the_checks_reject(tmp_path: Path) -> None:
    for name in ("tenkey/core/a.py", "tenkey/dispatch/a.py", *[f"tenkey/ops/m{i}.py" for i in range(MOST + 1)]):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert crowded(tmp_path) == {"tenkey/ops": MOST + 1}
    assert homonyms(tmp_path) == {"a": ["tenkey.core.a", "tenkey.dispatch.a"]}
