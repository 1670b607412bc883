"""Faults of backends, of the library for custom operators, and of all the rest."""

from __future__ import annotations

from typing import Final

from .fault import Fault, sweep, values

__all__ = ["BACKENDS", "LIBRARY", "OTHERS"]

BACKENDS: Final = (
    Fault(
        "libm: a coefficient of exp",
        "tenkey/backends/libm/exponentials.py",
        "(0.5000000000000011, 0.166666666666664,",
        "(0.5000000000000011, 0.166666666666674,",
        ("tests/backends/test_libm.py",),
    ),
    Fault(
        "libm: the reduction of angles",
        "tenkey/backends/libm/angles.py",
        "_PI_2_SECOND = each(-4.371139e-08, 6.123233995736766e-17)",
        "_PI_2_SECOND = each(-4.371139e-08, 6.123233995736766e-16)",
        ("tests/backends/test_libm.py",),
    ),
    Fault(
        "libm: cosh lacks the falling exponential",
        "tenkey/backends/libm/exponentials.py",
        "return half + QUARTER / half",
        "return half + HALF / half",
        ("tests/backends/test_libm.py",),
    ),
    Fault(
        "cpu: log1p of complex numbers near zero",
        "tenkey/backends/cpu/complex_functions.py",
        "0.5 * np.log1p(x * (2 + x) + y * y)",
        "0.5 * np.log1p(x * (2 + x))",
        (*values("log1p"), "tests/ops/test_complex_expressions.py"),
    ),
    Fault(
        "cpu: the last piece of a large call is left out",
        "tenkey/backends/cpu/threads.py",
        "count = -(-length // piece)",
        "count = max(1, length // piece)",
        ("tests/backends/test_cpu_threads.py",),
    ),
    Fault(
        "cpu: the share of a worker overlaps the caller's",
        "tenkey/backends/cpu/threads.py",
        "start = own + (index - 1) * share",
        "start = own + index * share",
        ("tests/backends/test_cpu_threads.py",),
    ),
    Fault(
        "meta: pointwise operators do not promote",
        "tenkey/backends/meta.py",
        "return TensorSpec(shape, dtype)",
        "return TensorSpec(shape, compute)",
        sweep("test_meta.py::test_shape_and_dtype", "equal", "isnan"),
    ),
    Fault(
        "external: the fallback does not write back",
        "tenkey/backends/external/fallback.py",
        "host.write_back(tensors_in(value))",
        "tensors_in(value)",
        ("tests/backends/test_external_backend.py",),
    ),
    Fault(
        "external: the fallback counts no call",
        "tenkey/backends/external/coverage.py",
        "row[0] += 1",
        "row[0] += 0",
        ("tests/backends/test_external_backend.py",),
    ),
    Fault(
        "external: an operator in a composite is not looked for",
        "tenkey/backends/external/coverage.py",
        "                frame = frame.f_back",
        "                frame = None",
        ("tests/backends/test_backend_coverage.py",),
    ),
    Fault(
        "external: all composites of one code are said to fall back",
        "tenkey/backends/external/coverage.py",
        "return all(local.get(name) is value for name, value in cells.items())",
        "return True",
        ("tests/backends/test_backend_coverage.py",),
    ),
    Fault(
        "external: the error word stays set",
        "tenkey/backends/external/runtime/device_errors.py",
        "self._backend.copy_from_host(word.buffer, np.zeros(_WORD.itemsize, np.uint8))",
        "pass",
        ("tests/backends/test_device_errors.py",),
    ),
    Fault(
        "external: threads of a synchronous backend share the error word",
        "tenkey/backends/external/runtime/device_errors.py",
        "if self._backend.asynchronous:",
        "if True:",
        ("tests/backends/test_device_errors.py",),
    ),
    Fault(
        "external: the collector finds what frees a buffer",
        "tenkey/backends/external/buffers.py",
        "self._end[()] = end",
        "self._end = end",
        ("tests/backends/test_backend_memory.py",),
    ),
    Fault(
        "external: a cached buffer waits for no other queue",
        "tenkey/backends/external/runtime/pool.py",
        "            if others:",
        "            if False:",
        ("tests/backends/test_backend_memory.py",),
    ),
    Fault(
        "external: a cached buffer serves any queue",
        "tenkey/backends/external/runtime/pool.py",
        "_Place(device, self._backend.current_stream(device), _size_class(nbytes))",
        "_Place(device, None, _size_class(nbytes))",
        ("tests/backends/test_backend_memory.py",),
    ),
    Fault(
        "external: an array is copied ahead of the batch",
        "tenkey/backends/external/interface.py",
        "submit(backend, data.device.index)",
        "data.device.index",
        ("tests/backends/test_backend_memory.py",),
    ),
    Fault(
        "external: the parts of a concatenation overlap",
        "tenkey/backends/external/derived.py",
        "start += x.shape[axis]",
        "start += 1",
        ("tests/backends/test_backend_templates.py",),
    ),
)

LIBRARY: Final = (
    Fault(
        "library: a result may share the memory of an argument",
        "tenkey/library/kernel_checks.py",
        "if _overlap(tensor, given):",
        "if False and _overlap(tensor, given):",
        ("tests/library/test_checks.py",),
    ),
    Fault(
        "library: a kernel may change what it only reads",
        "tenkey/library/kernel_checks.py",
        "if _fingerprint(tensor) != before:",
        "if False:",
        ("tests/library/test_checks.py",),
    ),
    Fault(
        "library: defaults are left out of an inferred schema",
        "tenkey/library/schema_inference.py",
        'default = "" if parameter.default is parameter.empty',
        'default = "" if parameter.default is not None',
        ("tests/library/test_infer_schema.py",),
    ),
    Fault(
        "library: an optional annotation is required",
        "tenkey/library/schema_inference.py",
        "return Nullable(node) if len(rest) < len(args)",
        "return Nullable(node) if len(rest) > len(args)",
        ("tests/library/test_infer_schema.py",),
    ),
    Fault(
        "library: a reduction may have a wrong identity",
        "tenkey/library/declaration_checks.py",
        "for left in (combine(identity, a), combine(a, identity)):",
        "for left in ():",
        ("tests/library/test_declaration_errors.py",),
    ),
    Fault(
        "opcheck: the row for layouts compares nothing",
        "tenkey/testing/checks/variations.py",
        " found = differing(got, want)",
        " found = None",
        ("tests/library/test_opcheck.py::test_a_wrong_operator_is_reported_in_its_row_alone",),
    ),
    Fault(
        "opcheck: the row for the schema takes any change",
        "tenkey/testing/checks/contract.py",
        "if not leaf.mutable and not same_bytes:",
        "if False:",
        ("tests/library/test_opcheck.py::test_a_wrong_operator_is_reported_in_its_row_alone",),
    ),
)

OTHERS: Final = (
    Fault(
        "profiler: the time of a recursive call counts twice",
        "tenkey/profiler/averages.py",
        "        if not nested:",
        "        if True:",
        ("tests/profiler/test_profiler.py",),
    ),
    Fault(
        "profiler: memory that is freed stays",
        "tenkey/profiler/memory.py",
        "MemoryRecord(perf_counter_ns(), -nbytes,",
        "MemoryRecord(perf_counter_ns(), nbytes,",
        ("tests/profiler/test_profiler_memory.py",),
    ),
    Fault(
        "random: a geometric draw counts from zero",
        "tenkey/random/_discrete.py",
        "minimum(maximum(trials, 1.0), 2.0**63 - 1024)",
        "minimum(maximum(trials - 1.0, 0.0), 2.0**63 - 1024)",
        ("tests/random/test_random.py",),
    ),
    Fault(
        "random: a triangular draw falls with the slope of its rise",
        "tenkey/random/_basic.py",
        "(1.0 - u) * width * fall",
        "(1.0 - u) * width * rise",
        ("tests/random/test_random.py",),
    ),
    Fault(
        "serialization: tensors of a file lie one byte further",
        "tenkey/serialization/_safetensors.py",
        "begin += sizes[name]",
        "begin += sizes[name] + 1",
        ("tests/serialization/test_serialization.py",),
    ),
    Fault(
        "serialization: the checksum of the structure is not read",
        "tenkey/serialization/_safetensors.py",
        "if metadata[_CHECKSUM] != _checksum(metadata):",
        "if False:",
        ("tests/serialization/test_serialization_damage.py",),
    ),
    Fault(
        "serialization: an array of NumPy in Fortran's order",
        "tenkey/serialization/_numpy_files.py",
        "return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)",
        "return flat.reshape(shape)",
        ("tests/serialization/test_serialization_numpy.py",),
    ),
    Fault(
        "serialization: a header may repeat a name",
        "tenkey/serialization/_safetensors.py",
        'parse_json(bytes(content[8 : 8 + int.from_bytes(content[:8], "little")]), "the header")',
        "pass",
        ("tests/serialization/test_serialization_damage.py",),
    ),
    Fault(
        "serialization: others may enter the folder of a new file",
        "tenkey/_util/atomic_write.py",
        "folder.chmod(0o700 |",
        "folder.chmod(0o755 |",
        ("tests/serialization/test_serialization_writing.py",),
    ),
    Fault(
        "backends: the checksum of a cached kernel is not compared",
        "tenkey/backends/cpu/numba/kernel_files.py",
        "!= hashlib.sha256(rest).digest():",
        "== b'':",
        ("tests/backends/test_kernel_files.py::test_damaged_files_are_noticed",),
    ),
    Fault(
        "backends: the cache may lie in a folder of another user",
        "tenkey/_util/cache_folder.py",
        "if found.st_uid not in (0, os.getuid()):",
        "if False:",
        ("tests/package/test_cache_folder.py",),
    ),
    Fault(
        "interop: np.arctan2 of tensors is the hypotenuse",
        "tenkey/interop/numpy_names.py",
        '"arctan2": "atan2"',
        '"arctan2": "hypot"',
        ("tests/interop/test_numpy_functions.py", "tests/functions/test_asarray.py"),
    ),
    Fault(
        "testing: two results that differ by one element are equal",
        "tenkey/testing/checks/variations.py",
        "if np.all(same):",
        "if np.any(same):",
        ("tests/library/test_opcheck.py::test_a_wrong_operator_is_reported_in_its_row_alone",),
    ),
)
