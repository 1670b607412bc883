"""Each planted mistake in a call of a library is refused, with the rule that it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tenkey.testing.cuda_libraries import LibraryCallError
from tests.backends.cuda.libraries._memory import STREAM, Memory

N = 4


class Correct:
    """Correct calls as dictionaries of arguments, in which a test changes one."""

    def __init__(self) -> None:
        self.memory = memory = Memory()
        self.solver, self.blas, self.fft, self.lt = memory.solver, memory.blas, memory.fft, memory.lt
        self.handle, self.blas_handle = memory.opened(memory.solver), memory.opened(memory.blas)
        self.params, self.jacobi = memory.solver.create_params(), memory.solver.create_gesvdj_info()
        self.a = self.put(np.eye(N) + 1)
        self.b = self.put(np.ones((N, 2)))
        self.u, self.v = self.put(np.zeros((N, N))), self.put(np.zeros((N, N)))
        self.s, self.w = self.put(np.zeros(N)), self.put(np.zeros(2 * N))
        self.tau, self.info = self.put(np.zeros(N)), self.put(np.zeros(2, np.int32))
        self.pivots, self.narrow = self.put(np.arange(1, N + 1)), self.put(np.arange(1, N + 1, dtype=np.int32))
        self.work, self.host = self.put(np.zeros(4096, np.uint8)), np.zeros(4096, np.uint8)
        self.status = np.zeros(1, np.int32)
        self.places = memory.put(np.array([self.a]))
        self.others = memory.put(np.array([self.b]))

    def put(self, values: Any) -> int:
        return int(self.memory.put(values).ctypes.data)

    def spaces(self, name: str, given: dict[str, Any]) -> dict[str, Any]:
        """The workspaces of the 64-bit interface in the sizes that the query returns."""
        sizes = getattr(self.solver, f"{name}_buffer_size")(**given)
        return {
            "buffer_on_device": self.work, "workspace_in_bytes_on_device": sizes[0],
            "buffer_on_host": self.host.ctypes.data, "workspace_in_bytes_on_host": sizes[1], "info": self.info,
        }  # fmt: skip

    def xgetrf(self) -> tuple[Any, dict[str, Any]]:
        given = {"handle": self.handle, "params": self.params, "m": N, "n": N, "data_type_a": 1, "a": self.a, "lda": N,
                 "compute_type": 1}  # fmt: skip
        return self.solver.xgetrf, {**given, **self.spaces("xgetrf", given), "ipiv": self.pivots}

    def xgetrs(self) -> tuple[Any, dict[str, Any]]:
        return self.solver.xgetrs, {
            "handle": self.handle, "params": self.params, "trans": 0, "n": N, "nrhs": 2, "data_type_a": 1,
            "a": self.a, "lda": N, "ipiv": self.pivots, "data_type_b": 1, "b": self.b, "ldb": N, "info": self.info,
        }  # fmt: skip

    def dlaswp(self) -> tuple[Any, dict[str, Any]]:
        return self.solver.dlaswp, {
            "handle": self.handle, "n": N, "a": self.a, "lda": N, "k1": 1, "k2": N, "dev_ipiv": self.narrow, "incx": 1,
        }  # fmt: skip

    def xpotrf(self) -> tuple[Any, dict[str, Any]]:
        given = {"handle": self.handle, "params": self.params, "uplo": 0, "n": N, "data_type_a": 1, "a": self.a,
                 "lda": N, "compute_type": 1}  # fmt: skip
        return self.solver.xpotrf, {**given, **self.spaces("xpotrf", given)}

    def dpotrf_batched(self) -> tuple[Any, dict[str, Any]]:
        return self.solver.dpotrf_batched, {
            "handle": self.handle, "uplo": 0, "n": N, "aarray": int(self.places.ctypes.data), "lda": N,
            "info_array": self.info, "batch_size": 1,
        }  # fmt: skip

    def xgeqrf(self) -> tuple[Any, dict[str, Any]]:
        given = {"handle": self.handle, "params": self.params, "m": N, "n": N, "data_type_a": 1, "a": self.a, "lda": N,
                 "data_type_tau": 1, "tau": self.tau, "compute_type": 1}  # fmt: skip
        return self.solver.xgeqrf, {**given, **self.spaces("xgeqrf", given)}

    def dorgqr(self) -> tuple[Any, dict[str, Any]]:
        given = {"handle": self.handle, "m": N, "n": N, "k": N, "a": self.a, "lda": N, "tau": self.tau}
        size = self.solver.dorgqr_buffer_size(**given)
        return self.solver.dorgqr, {**given, "work": self.work, "lwork": size, "info": self.info}

    def xgesvd(self) -> tuple[Any, dict[str, Any]]:
        given = {"handle": self.handle, "params": self.params, "jobu": ord("A"), "jobvt": ord("A"), "m": N, "n": N,
                 "data_type_a": 1, "a": self.a, "lda": N, "data_type_s": 1, "s": self.s, "data_type_u": 1, "u": self.u,
                 "ldu": N, "data_type_vt": 1, "vt": self.v, "ldvt": N, "compute_type": 1}  # fmt: skip
        return self.solver.xgesvd, {**given, **self.spaces("xgesvd", given)}

    def dgesvdj_batched(self) -> tuple[Any, dict[str, Any]]:
        given = {"handle": self.handle, "jobz": 1, "m": N, "n": N, "a": self.a, "lda": N, "s": self.s, "u": self.u,
                 "ldu": N, "v": self.v, "ldv": N, "params": self.jacobi, "batch_size": 1}  # fmt: skip
        size = self.solver.dgesvdj_batched_buffer_size(**given)
        return self.solver.dgesvdj_batched, {**given, "work": self.work, "lwork": size, "info": self.info}

    def xsyevd(self) -> tuple[Any, dict[str, Any]]:
        given = {"handle": self.handle, "params": self.params, "jobz": 1, "uplo": 0, "n": N, "data_type_a": 1,
                 "a": self.a, "lda": N, "data_type_w": 1, "w": self.w, "compute_type": 1}  # fmt: skip
        return self.solver.xsyevd, {**given, **self.spaces("xsyevd", given)}

    def xsyev_batched(self) -> tuple[Any, dict[str, Any]]:
        _, given = self.xsyevd()
        known = [*given][:11]
        given = {name: given[name] for name in known} | {"batch_size": 1}
        return self.solver.xsyev_batched, {**given, **self.spaces("xsyev_batched", given)}

    def xgeev(self) -> tuple[Any, dict[str, Any]]:
        given = {"handle": self.handle, "params": self.params, "jobvl": 0, "jobvr": 1, "n": N, "data_type_a": 1,
                 "a": self.a, "lda": N, "data_type_w": 1, "w": self.w, "data_type_vl": 1, "vl": 0, "ldvl": N,
                 "data_type_vr": 1, "vr": self.v, "ldvr": N, "compute_type": 1}  # fmt: skip
        return self.solver.xgeev, {**given, **self.spaces("xgeev", given)}

    def dgetrf_batched(self) -> tuple[Any, dict[str, Any]]:
        return self.blas.dgetrf_batched, {
            "handle": self.blas_handle, "n": N, "a": int(self.places.ctypes.data), "lda": N, "p": self.narrow,
            "info": self.info, "batch_size": 1,
        }  # fmt: skip

    def dgetrs_batched(self) -> tuple[Any, dict[str, Any]]:
        return self.blas.dgetrs_batched, {
            "handle": self.blas_handle, "trans": 0, "n": N, "nrhs": 2, "aarray": int(self.places.ctypes.data),
            "lda": N, "dev_ipiv": self.narrow, "barray": int(self.others.ctypes.data), "ldb": N,
            "info": self.status.ctypes.data, "batch_size": 1,
        }  # fmt: skip

    def plan(self, **changes: Any) -> tuple[int, int]:
        """A plan of two transforms of four numbers, and the size of its work area."""
        plan = self.fft.create()
        self.fft.set_auto_allocation(plan, 0)
        self.fft.set_stream(plan, STREAM)
        given = {"rank": 1, "n": [4], "inembed": [4], "istride": 1, "idist": 4, "onembed": [4], "ostride": 1,
                 "odist": 4, "type": 0x69, "batch": 2}  # fmt: skip
        return plan, self.fft.make_plan_many64(plan, **given | changes)

    def exec_z2z(self) -> tuple[Any, dict[str, Any]]:
        plan, _ = self.plan()
        self.fft.set_work_area(plan, self.work)
        return self.fft.exec_z2z, {
            "plan": plan, "idata": self.put(np.ones(8, complex)), "odata": self.put(np.ones(8, complex)),
            "direction": -1,
        }  # fmt: skip

    def exec_z2d(self) -> tuple[Any, dict[str, Any]]:
        plan, _ = self.plan(type=0x6C, idist=3)
        self.fft.set_work_area(plan, self.work)
        x = self.memory.put(np.ones(6, complex))
        return self.fft.exec_z2d, {"plan": plan, "idata": int(x.ctypes.data), "odata": self.put(np.ones(8))}

    def matmul(self, scale: int = 1, batch: int = 1, dtype: int = 1) -> tuple[Any, dict[str, Any]]:
        lt = self.lt
        operation, layout = lt.matmul_desc_create(70, 1), lt.matrix_layout_create(dtype, N, N, N)
        out = lt.matrix_layout_create(dtype, N, N, N)
        for each in (layout, out):
            lt.matrix_layout_set_attribute(each, 5, np.array([batch], np.int32).ctypes.data, 4)
        preference, handle = lt.matmul_preference_create(), lt.create()
        lt.matmul_preference_set_attribute(preference, 1, np.array([4096], np.uint64).ctypes.data, 8)
        self.found, count = np.zeros(1, lt.matmul_heuristic_result_dtype), np.zeros(1, np.int32)
        lt.matmul_algo_get_heuristic(
            handle, operation, layout, layout, out, out, preference, 1, self.found.ctypes.data, count.ctypes.data
        )  # fmt: skip
        self.one, self.zero = np.ones(1), np.zeros(1)
        return lt.matmul, {
            "light_handle": handle, "compute_desc": operation, "alpha": self.one.ctypes.data, "a": self.u,
            "adesc": layout, "b": self.v, "bdesc": layout, "beta": self.zero.ctypes.data, "c": self.a, "cdesc": out,
            "d": self.a, "ddesc": out, "algo": self.found.ctypes.data, "workspace": self.work,
            "workspace_size_in_bytes": int(self.found["workspace_size"][0]), "stream": STREAM,
        }  # fmt: skip


CALLS = [
    "xgetrf", "xgetrs", "dlaswp", "xpotrf", "dpotrf_batched", "xgeqrf", "dorgqr", "xgesvd", "dgesvdj_batched", "xsyevd",
    "xsyev_batched", "xgeev", "dgetrf_batched", "dgetrs_batched", "exec_z2z", "exec_z2d", "matmul",
]  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_the_calls_are_correct_otherwise(name: str) -> None:
    function, given = getattr(Correct(), name)()
    function(**given)


# function, argument, its wrong value as a number or as a function of the correct calls, words of the rule
WRONG: list[tuple[str, str, Any, str]] = [
    ("xgetrf", "handle", 17, "not a handle"),
    ("xgetrf", "handle", lambda c: c.params, "set of options"),
    ("xgetrf", "params", lambda c: c.handle, "set of options"),
    ("xgetrf", "lda", N - 1, "max"),
    ("xgetrf", "m", -1, "at least 0"),
    ("xgetrf", "m", N + 1, "max"),
    ("xgetrf", "n", N + 1, "allocation ends|query"),
    ("xgetrf", "data_type_a", 0, "must be equal"),
    ("xgetrf", "data_type_a", 2, "float16"),
    ("xgetrf", "compute_type", 5, "must be equal"),
    ("xgetrf", "a", 0, "null pointer"),
    ("xgetrf", "a", 4096, "no allocation"),
    ("xgetrf", "a", lambda c: c.a + 4, "multiple of 8"),
    ("xgetrf", "a", lambda c: c.a + 8, "allocation ends"),
    ("xgetrf", "ipiv", lambda c: c.narrow, "allocation ends"),  # 32-bit pivots
    ("xgetrf", "ipiv", lambda c: c.a, "overlap"),
    ("xgetrf", "info", lambda c: c.status.ctypes.data, "no allocation"),  # host memory
    ("xgetrf", "workspace_in_bytes_on_device", 0, "query"),
    ("xgetrf", "workspace_in_bytes_on_device", 1 << 40, "allocation ends|overlap"),  # or `a`
    ("xgetrf", "workspace_in_bytes_on_host", 0, "query"),
    ("xgetrf", "buffer_on_host", 0, "null pointer"),
    ("xgetrf", "buffer_on_device", lambda c: c.work + 8, "multiple of 16"),
    ("xgetrf", "buffer_on_device", lambda c: c.host.ctypes.data, "no allocation"),
    ("xgetrs", "trans", 3, "one of 0, 1, 2"),
    ("xgetrs", "ldb", 2, "max"),
    ("xgetrs", "nrhs", 3, "allocation ends"),
    ("xgetrs", "data_type_b", 0, "must be equal"),
    ("xgetrs", "b", lambda c: c.a, "overlap"),
    ("xgetrs", "ipiv", lambda c: c.put(np.zeros(N, np.int64)), "a pivot is"),  # counted from 0
    ("dlaswp", "k1", 0, "must hold"),
    ("dlaswp", "k2", N + 1, "must hold"),
    ("dlaswp", "incx", -1, "supports 1 only"),
    ("dlaswp", "dev_ipiv", lambda c: c.put(np.full(N, N + 1, np.int32)), "a pivot is"),
    ("xpotrf", "uplo", 2, "one of 0, 1"),
    ("xpotrf", "lda", 3, "max"),
    ("dpotrf_batched", "aarray", lambda c: [c.a], "sequence"),
    ("dpotrf_batched", "aarray", lambda c: np.array([c.a]).ctypes.data, "no allocation"),  # addresses in host memory
    ("dpotrf_batched", "aarray", lambda c: c.put(np.array([c.a + 8])), "allocation ends"),
    ("dpotrf_batched", "batch_size", 0, "at least 1"),
    ("dpotrf_batched", "batch_size", 3, "allocation ends"),
    ("xgeqrf", "tau", lambda c: c.put(np.zeros(N - 1)), "allocation ends"),
    ("xgeqrf", "data_type_tau", 4, "must be equal"),
    ("dorgqr", "k", N + 1, "must hold"),
    ("dorgqr", "n", N + 1, "must hold"),
    ("dorgqr", "lwork", 1, "query"),
    ("dorgqr", "m", 2**31, "32-bit"),
    ("xgesvd", "n", N + 1, "m >= n only"),
    ("xgesvd", "jobu", ord("O"), "one of"),
    ("xgesvd", "jobu", 0, "one of"),
    ("xgesvd", "data_type_s", 5, "float64"),
    ("xgesvd", "ldu", 1, "max"),
    ("xgesvd", "ldvt", 1, "max"),
    ("xgesvd", "u", lambda c: c.a, "overlap"),
    ("xgesvd", "vt", lambda c: c.u, "overlap"),
    ("dgesvdj_batched", "m", 33, "1 to 32"),
    ("dgesvdj_batched", "params", lambda c: c.params, "gesvdj"),
    ("dgesvdj_batched", "batch_size", 2, "allocation ends|query"),
    ("dgesvdj_batched", "lwork", 3, "query"),
    ("dgesvdj_batched", "ldv", 3, "at least 4"),
    ("xsyevd", "jobz", 2, "one of 0, 1"),
    ("xsyevd", "data_type_w", 0, "float64"),
    ("xsyevd", "w", lambda c: c.a, "overlap"),
    ("xsyev_batched", "batch_size", 2, "allocation ends|query"),
    ("xgeev", "jobvl", 1, "left eigenvectors"),
    ("xgeev", "data_type_w", 5, "must be equal"),
    ("xgeev", "w", lambda c: c.s, "allocation ends"),  # real parts only
    ("xgeev", "vr", lambda c: c.a, "overlap"),
    ("dgetrf_batched", "p", lambda c: c.put(np.zeros(N - 1, np.int32)), "allocation ends"),
    ("dgetrf_batched", "a", lambda c: c.a, "no allocation"),  # the matrices in place of their addresses
    ("dgetrs_batched", "trans", 5, "one of 0, 1, 2"),
    ("dgetrs_batched", "info", 0, "null pointer"),
    ("dgetrs_batched", "dev_ipiv", lambda c: c.put(np.zeros(N, np.int32)), "not a row"),
    ("exec_z2z", "plan", 99, "not a plan"),
    ("exec_z2z", "direction", 0, "one of -1, 1"),
    ("exec_z2z", "idata", lambda c: c.put(np.ones(7, complex)), "allocation ends"),
    ("exec_z2z", "idata", lambda c: c.put(np.ones(10, complex)) + 8, "multiple of 16"),
    ("exec_z2z", "odata", 0, "null pointer"),
    ("exec_z2z", "plan", lambda c: c.plan(type=0x29)[0], "made for the type"),
    ("exec_z2z", "plan", lambda c: c.plan()[0], "no work area"),
    ("exec_z2z", "plan", lambda c: c.fft.create(), "no stream"),
    ("exec_z2d", "idata", lambda c: c.put(np.full(6, 1j)), "imaginary"),
    ("matmul", "light_handle", 3, "not a handle"),
    ("matmul", "compute_desc", lambda c: c.lt.matmul_desc_create(68, 0), "do not go with"),
    ("matmul", "adesc", lambda c: c.lt.matrix_layout_create(1, N, N, N + 1), "another product"),
    ("matmul", "adesc", lambda c: c.lt.matrix_layout_create(1, N, N - 1, N), "op"),
    ("matmul", "bdesc", lambda c: c.lt.matrix_layout_create(0, N, N, N), "different data types"),
    ("matmul", "d", lambda c: c.put(np.zeros((N, N))), "C and D differ"),
    ("matmul", "a", lambda c: c.a, "overlap"),
    ("matmul", "b", lambda c: c.v + 128, "multiples of 256"),
    ("matmul", "workspace_size_in_bytes", 8, "query"),
    ("matmul", "algo", lambda c: c.host.ctypes.data, "another product"),
]


@pytest.mark.parametrize(
    ("name", "argument", "value", "rule"), WRONG, ids=[f"{w[0]}-{w[1]}-{i}" for i, w in enumerate(WRONG)]
)
def test_a_wrong_argument_is_refused(name: str, argument: str, value: Any, rule: str) -> None:
    correct = Correct()
    function, given = getattr(correct, name)()
    wrong = value(correct) if callable(value) else value
    assert wrong != given[argument], "the argument is not changed"
    with pytest.raises(LibraryCallError, match=rule):
        function(**given | {argument: wrong})


# mistakes in the order of calls, and in descriptors
def without_stream(c: Correct) -> None:
    function, given = c.xgetrs()
    function(**given | {"handle": c.solver.create()})


def destroyed_handle(c: Correct) -> None:
    function, given = c.xgetrs()
    c.solver.destroy(c.handle)
    function(**given)


def handle_of_another_device(c: Correct) -> None:
    function, given = c.xgetrs()
    c.memory.current = 1
    function(**given)


def freed_memory(c: Correct) -> None:
    function, given = c.xgetrs()
    c.memory.arrays = [x for x in c.memory.arrays if x.ctypes.data != c.b]
    function(**given)


def freed_work_area(c: Correct) -> None:
    function, given = c.exec_z2z()
    c.memory.arrays = [x for x in c.memory.arrays if x.ctypes.data != c.work]
    function(**given)


def work_area_before_the_plan(c: Correct) -> None:
    plan = c.fft.create()
    c.fft.set_auto_allocation(plan, 0)
    c.fft.set_work_area(plan, c.work)


def work_area_of_an_automatic_plan(c: Correct) -> None:
    plan = c.fft.create()
    c.fft.make_plan_many64(plan, 1, [4], [4], 1, 4, [4], 1, 4, 0x69, 2)
    c.fft.set_work_area(plan, c.work)


def automatic_after_the_plan(c: Correct) -> None:
    c.fft.set_auto_allocation(c.plan()[0], 1)


def small_work_area(c: Correct) -> None:
    plan, _ = c.plan()
    c.fft.set_work_area(plan, c.put(np.zeros(8, np.uint8)))
    function, given = c.exec_z2z()
    function(**given | {"plan": plan})


SEQUENCES: list[tuple[Callable[[Correct], Any], str]] = [
    (without_stream, "set_stream was not called"),
    (destroyed_handle, "not a handle"),
    (handle_of_another_device, "device 0, but 1 is current"),
    (freed_memory, "no allocation"),
    (freed_work_area, "no allocation"),
    (work_area_before_the_plan, "not made"),
    (work_area_of_an_automatic_plan, "set_auto_allocation"),
    (automatic_after_the_plan, "made already"),
    (small_work_area, "allocation ends"),
    (lambda c: c.plan(inembed=None), "steps are ignored"),
    (lambda c: c.plan(istride=0), "istride"),
    (lambda c: c.plan(type=3), "type"),
    (lambda c: c.plan(batch=0), "batch"),
    (lambda c: c.plan(odist=0), "odist"),
    (lambda c: c.lt.matmul_desc_create(68, 1), "not in the table"),
    (lambda c: c.lt.matrix_layout_create(1, 4, 4, 3), "ld"),
    (lambda c: c.lt.matrix_layout_create(99, 4, 4, 4), "type"),
    (lambda c: c.lt.matmul_desc_set_attribute(c.lt.matmul_desc_create(70, 1), 3, c.host.ctypes.data, 8), "4 bytes"),
    (lambda c: c.lt.matmul_desc_set_attribute(c.lt.matmul_desc_create(70, 1), 99, c.host.ctypes.data, 4), "attr"),
    (lambda c: c.matmul(batch=2), "overlap|allocation ends"),
]


@pytest.mark.parametrize(("mistake", "rule"), SEQUENCES, ids=[str(i) for i in range(len(SEQUENCES))])
def test_a_wrong_sequence_is_refused(mistake: Callable[[Correct], Any], rule: str) -> None:
    def run() -> None:
        made = mistake(Correct())
        if isinstance(made, tuple) and callable(made[0]):
            made[0](**made[1])

    with pytest.raises(LibraryCallError, match=rule):
        run()


def test_results_in_workspaces_are_lost() -> None:
    """What a caller leaves in a workspace is overwritten, so that an overlap that no check sees shows in the values."""
    correct = Correct()
    function, given = correct.xgetrf()
    function(**given)
    work = next(x for x in correct.memory.arrays if x.ctypes.data == correct.work)
    assert (work[: given["workspace_in_bytes_on_device"]] == 0xFF).all()


def test_work_is_done_in_the_order_of_the_stream() -> None:
    memory = Memory(deferred=True)
    handle = memory.opened(memory.solver)
    x, pivots = memory.put(np.arange(4.0).reshape(4, 1)), memory.put(np.full(4, 4, np.int32))
    memory.solver.dlaswp(handle, 1, int(x.ctypes.data), 4, 1, 1, int(pivots.ctypes.data), 1)
    assert x[:, 0].tolist() == [0, 1, 2, 3]
    assert [stream for stream, _ in memory.queued] == [STREAM]
    memory.work()
    assert x[:, 0].tolist() == [3, 1, 2, 0]


def test_memory_that_is_freed_before_the_work_is_done() -> None:
    memory = Memory(deferred=True)
    handle = memory.opened(memory.solver)
    x, pivots = memory.put(np.arange(4.0).reshape(4, 1)), memory.put(np.full(4, 4, np.int32))
    memory.solver.dlaswp(handle, 1, int(x.ctypes.data), 4, 1, 1, int(pivots.ctypes.data), 1)
    memory.arrays = [x]
    with pytest.raises(LibraryCallError, match=r"dev_ipiv .* no allocation"):
        memory.work()


def test_addresses_may_be_written_by_work_that_is_queued_before() -> None:
    memory = Memory(deferred=True)
    handle = memory.opened(memory.blas)
    x, places = memory.put(np.eye(2)), memory.put(np.zeros(1, np.int64))
    pivots, info = memory.put(np.zeros(2, np.int32)), memory.put(np.zeros(1, np.int32))
    memory.queued.append((STREAM, lambda: places.__setitem__(0, x.ctypes.data)))
    memory.blas.dgetrf_batched(
        handle, 2, int(places.ctypes.data), 2, int(pivots.ctypes.data), int(info.ctypes.data), 1
    )  # fmt: skip
    memory.work()
    assert pivots.tolist() == [1, 2]
