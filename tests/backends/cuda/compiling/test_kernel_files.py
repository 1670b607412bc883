"""The files of compiled CUDA kernels: Note [What compiled CUDA kernels depend on]."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.compiling import cubin_of, kernel_files, ptx_of, translation
from tenkey.backends.llvm import code_cache, complaints
from tests.backends.cuda.compiling._sources import HALVE, SCALE, TRIPLE


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and counts that start at 0."""
    code_cache.environment()
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("TENKEY_CACHE_LIMIT", "TENKEY_PREBUILT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(complaints, "_said", set())
    for name in translation.counts:
        monkeypatch.setitem(translation.counts, name, 0)
    return tmp_path / "cache" / "kernels"


def _counts() -> tuple[int, int, int, int]:
    counts = translation.counts
    return counts["translated"], counts["linked"], counts["loaded"], counts["prebuilt"]


@pytest.mark.parametrize("source", [SCALE, TRIPLE], ids=["Python", "CUDA C++"])
def test_a_kernel_is_compiled_once(source: translation.Source, cache: Path) -> None:
    first = cubin_of(source)
    assert _counts() == (1, 1, 0, 0)
    assert cubin_of(source) == first
    assert f".entry {source.name}(" in ptx_of(source), "the PTX lies beside the machine code"
    assert _counts() == (1, 1, 2, 0)
    assert first.image.startswith(b"\x7fELF")


def test_a_process_that_finds_a_kernel_imports_no_compiler(cache: Path, request: pytest.FixtureRequest) -> None:
    cubin_of(SCALE)
    code = (
        "import sys; from tenkey.backends.cuda.compiling import cubin_of, translation; "
        "from tests.backends.cuda.compiling._sources import SCALE; cubin_of(SCALE); "
        "compilers = {'numba', 'numba_cuda', 'cuda', 'llvmlite'}; "
        "print(translation.counts['loaded'], {m.split('.')[0] for m in sys.modules} & compilers)"
    )
    environment = os.environ | {"PYTHONPATH": str(request.config.rootpath)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "1 set()\n"


@pytest.mark.parametrize(
    ("change", "cc"),
    [
        ({"text": SCALE.text + "\n"}, (9, 0)),
        ({"threads": 128}, (9, 0)),
        ({"shared": 4}, (9, 0)),
        ({"parameters": ("int32", *SCALE.parameters[1:])}, (9, 0)),
        ({}, (8, 0)),
    ],
)
def test_another_kernel_has_another_file(change: dict[str, object], cc: tuple[int, int]) -> None:
    kernel_files.store("cubin", SCALE, (9, 0), b"content")
    assert kernel_files.load("cubin", SCALE, (9, 0)) == b"content"
    assert kernel_files.load("ptx", SCALE, (9, 0)) is None
    assert kernel_files.load("cubin", SCALE._replace(**change), cc) is None


def test_another_compiler_has_other_files(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel_files.store("cubin", SCALE, (9, 0), b"content")
    versions = kernel_files.compiler_versions()
    assert {"numba_cuda", "nvidia_nvjitlink", "nvidia_cuda_nvrtc", "nvidia_nvvm"} <= versions.keys()
    for name in versions:
        with monkeypatch.context() as patch:
            patch.setattr(kernel_files, "compiler_versions", lambda name=name: versions | {name: "another"})
            kernel_files._own.cache_clear()
            assert kernel_files.load("cubin", SCALE, (9, 0)) is None
    kernel_files._own.cache_clear()
    assert kernel_files.load("cubin", SCALE, (9, 0)) == b"content"


def test_versions_are_those_that_are_installed() -> None:
    from importlib.metadata import version

    found = kernel_files.compiler_versions()
    assert {name: version(name) for name in found if name.islower()} == {n: v for n, v in found.items() if n.islower()}


def test_a_damaged_file_is_compiled_again(cache: Path) -> None:
    first = cubin_of(SCALE)
    for path in cache.glob("*.kernel"):
        path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert cubin_of(SCALE) == first
    assert _counts()[:2] == (2, 2)
    with pytest.warns(UserWarning, match="cannot be used"):
        complaints.utter()


class TestPrebuilt:
    """Folders that ``TENKEY_PREBUILT`` names."""

    def _build(self, folder: Path, cc: tuple[int, int] = (9, 0)) -> None:
        folder.mkdir()
        kernel_files.store_prebuilt("cubin", SCALE, cc, cubin_of(SCALE, cc).packed(), str(folder))

    def test_it_is_looked_at_first(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._build(tmp_path / "built")
        monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path / "built"))
        expected = cubin_of(SCALE)
        assert _counts() == (1, 1, 0, 1)
        shutil.copytree(tmp_path / "built", tmp_path / "elsewhere")
        monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path / "elsewhere"))
        assert cubin_of(SCALE) == expected
        assert _counts() == (1, 1, 0, 2)
        cubin_of(HALVE)
        assert _counts() == (2, 2, 0, 2), "what it lacks is compiled"

    def test_on_another_machine(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With another processor and without any compiler."""
        self._build(tmp_path / "built")
        monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path / "built"))
        monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path / "another"))
        monkeypatch.setattr(kernel_files, "compiler_versions", dict)
        monkeypatch.setattr(code_cache, "environment", lambda: b"another processor")
        monkeypatch.setattr("tenkey.backends.cuda.device.driver._PACKAGES", ("a_compiler_of_nobody",))
        kernel_files._own.cache_clear()
        try:
            assert cubin_of(SCALE).registers > 0
            with pytest.raises(RuntimeError, match=r"a_compiler_of_nobody.*tenkey\[cuda\].*halve"):
                cubin_of(HALVE)
        finally:
            kernel_files._own.cache_clear()

    def test_a_device_of_a_higher_minor_number(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._build(tmp_path / "built", (8, 0))
        monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path / "built"))
        assert kernel_files.load_prebuilt("cubin", SCALE, (8, 6)) is not None
        assert kernel_files.load_prebuilt("cubin", SCALE, (8, 0)) is not None
        assert kernel_files.load_prebuilt("cubin", SCALE, (9, 0)) is None
        assert kernel_files.load_prebuilt("cubin", SCALE, (7, 5)) is None

    def test_names_and_files_hold_no_place(self, tmp_path: Path) -> None:
        self._build(tmp_path / "built")
        (file,) = (tmp_path / "built").iterdir()
        assert str(tmp_path).encode() not in file.read_bytes()
        assert str(Path.home()).encode() not in file.read_bytes()

    def test_a_folder_that_does_not_exist(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path / "nowhere"))
        assert kernel_files.load_prebuilt("cubin", SCALE, (9, 0)) is None
        with pytest.warns(UserWarning, match=r"TENKEY_PREBUILT=.*nowhere.* is not a folder"):
            complaints.utter()

    def test_a_file_that_others_can_change(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._build(tmp_path / "built")
        (file,) = (tmp_path / "built").iterdir()
        file.chmod(0o666)
        monkeypatch.setenv("TENKEY_PREBUILT", str(tmp_path / "built"))
        assert kernel_files.load_prebuilt("cubin", SCALE, (9, 0)) is None
        with pytest.warns(UserWarning, match="only you can write to"):
            complaints.utter()

    def test_a_folder_that_cannot_be_written(self, tmp_path: Path) -> None:
        with pytest.raises(OSError, match="nowhere"):
            kernel_files.store_prebuilt("cubin", SCALE, (9, 0), b"content", str(tmp_path / "nowhere"))


def test_processes_that_compile_the_same_kernel(cache: Path, request: pytest.FixtureRequest) -> None:
    code = (
        "from tenkey.backends.cuda.compiling import cubin_of; "
        "from tests.backends.cuda.compiling._sources import SCALE; "
        "import hashlib; print(hashlib.sha256(cubin_of(SCALE).image).hexdigest())"
    )
    environment = os.environ | {"PYTHONPATH": str(request.config.rootpath)}
    processes = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) for _ in "ab"
    ]
    said = {process.communicate()[0] for process in processes}
    assert len(said) == 1
    assert len([*cache.glob("*.kernel")]) <= 3  # the hash of the sources may be one
    assert not [path for path in cache.iterdir() if path.suffix != ".kernel"], "nothing half-written remains"
