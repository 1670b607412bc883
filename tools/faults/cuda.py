"""Faults of the CUDA backend: wrong kernels, missing synchronization, and files that are mistaken for others."""

from __future__ import annotations

from typing import Final

from .fault import Fault

__all__ = ["CUDA"]

_KERNELS: Final = "tenkey/backends/cuda/kernels/"
_COMPILING: Final = "tenkey/backends/cuda/compiling/"
_DEVICE: Final = "tenkey/backends/cuda/device/"
_MEMORY: Final = "tenkey/backends/cuda/memory/"
_PLANS: Final = "tenkey/backends/external/runtime/call_plans.py"
_TEST_KERNELS: Final = "tests/backends/cuda/kernels/"
_TEST_COMPILING: Final = "tests/backends/cuda/compiling/"
_TEST_DEVICE: Final = "tests/backends/cuda/device/"
_TEST_MEMORY: Final = "tests/backends/cuda/memory/"

_WRONG_KERNELS: Final = (
    Fault(
        "cuda kernels: a copy in tiles reads a tile before it is complete",
        f"{_KERNELS}copying.py",
        "    cuda.syncthreads()",
        "    pass",
        (f"{_TEST_KERNELS}test_copying.py",),
    ),
    Fault(
        "cuda kernels: a copy in tiles writes beyond the last column",
        f"{_KERNELS}copying.py",
        "            out[wrap_add(at, wrap_multiply(column, out_column))] = tile[tx, ty + k]",
        "            out[wrap_add(at, wrap_multiply(column, out_column))] = tile[ty + k, tx]",
        (f"{_TEST_KERNELS}test_copying.py",),
    ),
    Fault(
        "cuda kernels: the last elements of a row of vectors are left out",
        f"{_KERNELS}pointwise.py",
        'lines += ["else:", "    while i < n:", ',
        'lines += ["else:", "    while wrap_add(i, uint32(1)) < n:", ',
        (f"{_TEST_KERNELS}test_pointwise.py",),
    ),
    Fault(
        "cuda kernels: vectors at addresses that are not aligned",
        f"{_KERNELS}pointwise.py",
        "vector = all(address(w) % min(16, _VECTOR * word(w.dtype)) == 0 for w in windows)",
        "vector = all(address(w) % word(w.dtype) == 0 for w in windows)",
        (f"{_TEST_KERNELS}test_chosen_forms.py",),
    ),
    Fault(
        "cuda kernels: a thread beyond the end of a strided window computes",
        f"{_KERNELS}pointwise.py",
        'lines = [f"i = {form.first_index()}", "if i < n:", *[f"    {line}" for line in lines]]',
        'lines = [f"i = {form.first_index()}", "if i <= n:", *[f"    {line}" for line in lines]]',
        (f"{_TEST_KERNELS}test_pointwise.py",),
    ),
    Fault(
        "cuda kernels: the indices of a strided window in the wrong order",
        f"{_KERNELS}pointwise.py",
        'lines.append(f"i{d} = unsigned_remainder(rest{d}, n{d})")',
        'lines.append(f"i{d} = unsigned_remainder(rest{d}, n{max(1, d - 1)})")',
        (f"{_TEST_KERNELS}test_pointwise.py",),
    ),
    Fault(
        "cuda kernels: large windows are addressed with 32 bits",
        f"{_KERNELS}pointwise.py",
        "wide = n >= _MOST_32 or any(not 0 <= reach(w) < _MOST_32 for w in windows)",
        "wide = n >= _MOST_32",
        (f"{_TEST_KERNELS}test_chosen_forms.py",),
    ),
    Fault(
        "cuda kernels: a tree of shuffles lacks its last step",
        f"{_KERNELS}reduction.py",
        "for offset in (16, 8, 4, 2, 1):",
        "for offset in (16, 8, 4, 2):",
        (f"{_TEST_KERNELS}test_reduction.py",),
    ),
    Fault(
        "cuda kernels: a tree of shuffles takes lanes beyond the end",
        f"{_KERNELS}reduction.py",
        'lines += self.kept(f"uint64(lane + {offset}) < {count}", "total", "joined")',
        'lines += self.kept(f"uint64(lane + {offset}) <= {count}", "total", "joined")',
        (f"{_TEST_KERNELS}test_reduction.py",),
    ),
    Fault(
        "cuda kernels: a reduction counts elements twice",
        f"{_KERNELS}reduction.py",
        'f"k = wrap_add(k, uint64({4 * stride}))"',
        'f"k = wrap_add(k, uint64({3 * stride}))"',
        (f"{_TEST_KERNELS}test_reduction.py",),
    ),
    Fault(
        "cuda kernels: the first warp reads partial results of warps that have none",
        f"{_KERNELS}reduction.py",
        '"    warps = unsigned_quotient(wrap_add(count, uint64(31)), uint64({_WARP}))",',
        '"    warps = unsigned_quotient(wrap_add(count, uint64(63)), uint64({_WARP}))",',
        (f"{_TEST_KERNELS}test_reduction.py",),
    ),
    Fault(
        "cuda kernels: a part of a row is empty",
        f"{_KERNELS}reduction.py",
        "    return -(-columns // chunk)",
        "    return -(-columns // chunk) + 1",
        (f"{_TEST_KERNELS}test_chosen_forms.py",),
    ),
    Fault(
        "cuda kernels: a row of columns writes into its neighbour",
        f"{_KERNELS}reduction.py",
        '"    place_of_row = wrap_add(wrap_multiply(split, rows), row)",',
        '"    place_of_row = wrap_add(wrap_multiply(split, wrap_subtract(rows, uint64(1))), row)",',
        (f"{_TEST_KERNELS}test_reduction.py",),
    ),
    Fault(
        "cuda kernels: float16 is cut off instead of rounded",
        f"{_KERNELS}intrinsics.py",
        '"cvt.rn.f16.f32 $0, $1;"',
        '"cvt.rz.f16.f32 $0, $1;"',
        (f"{_TEST_KERNELS}test_emission.py",),
    ),
    Fault(
        "cuda kernels: a quotient of integers is rounded towards zero",
        f"{_KERNELS}intrinsics.py",
        "quotient = builder.select(lower, builder.sub(quotient, one), quotient)",
        "quotient = builder.select(lower, quotient, quotient)",
        (f"{_TEST_KERNELS}test_emission.py",),
    ),
    Fault(
        "cuda kernels: a shift by all bits but one gives nothing",
        f"{_KERNELS}intrinsics.py",
        'return builder.icmp_unsigned("<", count, ir.Constant(count.type, x.type.width))',
        'return builder.icmp_unsigned("<", count, ir.Constant(count.type, x.type.width - 1))',
        (f"{_TEST_KERNELS}test_emission.py",),
    ),
)
_WRONG_SWEEPS: Final = (
    Fault(
        "cuda rows: a running sum of exponentials is not scaled when a larger element appears",
        f"{_KERNELS}sweeps/sweep_source.py",
        'f"{own[1]} = {own[1]} * {self.power(own[0], top)} + {other[1]} * {self.power(other[0], top)}",',
        'f"{own[1]} = {own[1]} + {other[1]} * {self.power(other[0], top)}",',
        (f"{_TEST_KERNELS}sweeps/test_sweeping.py",),
    ),
    Fault(
        "cuda rows: the warps of a row read each other's parts without a barrier",
        f"{_KERNELS}sweeps/sweep_source.py",
        'lines.append("cuda.syncthreads()")',
        "pass",
        (f"{_TEST_KERNELS}sweeps/test_sweeping.py",),
    ),
    Fault(
        "cuda rows: pieces beyond the end of a row count",
        f"{_KERNELS}sweeps/sweep_source.py",
        'f"in_{k} = place_{k} < columns",',
        'f"in_{k} = place_{k} <= columns",',
        (f"{_TEST_KERNELS}sweeps/test_sweeping.py",),
    ),
    Fault(
        "cuda rows: a group beyond the last row reads",
        f"{_KERNELS}sweeps/sweep_source.py",
        '"row = select(valid, row, uint32(0))",',
        '"row = select(valid, row, row)",',
        (f"{_TEST_KERNELS}sweeps/test_sweeping.py",),
    ),
    Fault(
        "cuda rows: moments are joined without the distance of the means",
        f"{_KERNELS}sweeps/sweep_source.py",
        'f"{squares} = {squares} + {squares2} + away * away * {n} * share",',
        'f"{squares} = {squares} + {squares2}",',
        (f"{_TEST_KERNELS}sweeps/test_sweeping.py",),
    ),
    Fault(
        "cuda rows: rows with gaps are read in vectors that are not aligned",
        f"{_KERNELS}sweeps/sweeping.py",
        "aligned = aligned and not step % width",
        "aligned = aligned and step >= 0",
        (f"{_TEST_KERNELS}sweeps/test_sweeping.py",),
    ),
    Fault(
        "cuda rows: a block sums the rows of others",
        f"{_KERNELS}sweeps/sweep_source.py",
        "row = wrap_add(row, uint32(cuda.gridDim.x))",
        "row = wrap_add(row, uint32(1))",
        (f"{_TEST_KERNELS}sweeps/test_sweeping.py",),
    ),
    Fault(
        "device rows: rows whose elements have gaps are not copied",
        "tenkey/backends/external/runtime/sweep_calls.py",
        "if found.strides[1] == size or plan.columns == 1:",
        "if found.strides[1] >= size or plan.columns == 1:",
        ("tests/backends/test_sweep_templates.py",),
    ),
)
_WRONG_VECTORS: Final = (
    Fault(
        "cuda reductions: rows with gaps are read in vectors",
        f"{_KERNELS}reduction.py",
        "if column_step != size or columns % _VECTOR or (rows > 1 and row_step % (_VECTOR * size)):",
        "if column_step != size or columns % _VECTOR:",
        (f"{_TEST_KERNELS}test_chosen_forms.py",),
    ),
    Fault(
        "cuda reductions: far places have 32 bits",
        f"{_KERNELS}reduction.py",
        "wide = not 0 <= reach(x) < _MOST_32 or x.size >= _MOST_32",
        "wide = x.size >= _MOST_32",
        (f"{_TEST_KERNELS}test_chosen_forms.py",),
    ),
)
_WRONG_ROWS: Final = (
    Fault(
        "cuda kernels: an index one past the end is read",
        f"{_KERNELS}gather.py",
        "        if found >= 0 and found < n:",
        "        if found >= 0 and found <= n:",
        (f"{_TEST_KERNELS}test_gather.py",),
    ),
    Fault(
        "cuda kernels: a block reads the totals of warps that are not there yet",
        f"{_KERNELS}scan.py",
        'tile += ["cuda.syncthreads()", *write.at("load", "whole", "shared", "0")',
        'tile += [*write.at("load", "whole", "shared", "0")',
        (f"{_TEST_KERNELS}test_scan.py",),
    ),
    Fault(
        "cuda kernels: the totals of warps are overwritten while others read them",
        f"{_KERNELS}scan.py",
        '        tile += ["cuda.syncthreads()"]',
        "        tile += []",
        (f"{_TEST_KERNELS}test_scan.py",),
    ),
    Fault(
        "cuda kernels: a scan of lanes lacks its last step",
        f"{_KERNELS}scan.py",
        "for distance in (1, 2, 4, 8, 16):",
        "for distance in (1, 2, 4, 8):",
        (f"{_TEST_KERNELS}test_scan.py",),
    ),
    Fault(
        "cuda kernels: the best places of warps are read before they are stored",
        f"{_KERNELS}arg_reduction.py",
        '"cuda.syncthreads()", "lane = cuda.threadIdx.x"]',
        '"lane = cuda.threadIdx.x"]',
        (f"{_TEST_KERNELS}test_arg_reduction.py",),
    ),
    Fault(
        "cuda kernels: of equal elements the last one is found",
        f"{_KERNELS}arg_reduction.py",
        "((other_place < place)",
        "((other_place > place)",
        (f"{_TEST_KERNELS}test_arg_reduction.py",),
    ),
    Fault(
        "cuda kernels: threads claim a place without an atomic operation",
        f"{_KERNELS}scatter.py",
        '"claim": ["atomic_maximum(out, to, uint32(j))"]',
        '"claim": ["out[to] = uint32(j)"]',
        (f"{_TEST_KERNELS}test_scatter.py",),
    ),
    Fault(
        "cuda kernels: an atomic sum subtracts",
        f"{_KERNELS}atomics.py",
        'return builder.atomic_rmw("add", at, given[2], "monotonic")',
        'return builder.atomic_rmw("sub", at, given[2], "monotonic")',
        (f"{_TEST_KERNELS}test_scatter.py",),
    ),
)
_COMPILED: Final = (
    Fault(
        "cuda compiling: sums of products are contracted",
        f"{_COMPILING}numba_compiler.py",
        'options = {"opt": 3, "fma": False}',
        'options = {"opt": 3, "fma": True}',
        (f"{_TEST_COMPILING}test_compilers.py",),
    ),
    Fault(
        "cuda compiling: the launch bounds are forgotten",
        f"{_COMPILING}numba_compiler.py",
        "nvvm.set_launch_bounds(function, source.threads)",
        "nvvm.set_launch_bounds(function, None)",
        (f"{_TEST_COMPILING}test_compilers.py",),
    ),
    Fault(
        "cuda compiling: names that depend on what the process compiled before",
        f"{_COMPILING}numba_compiler.py",
        'memory.setdefault(found[0], f"{source.name}_{found[1]}mem_{len(memory)}")',
        "memory.setdefault(found[0], found[0])",
        (f"{_TEST_COMPILING}test_compilers.py",),
    ),
    Fault(
        "cuda compiling: kernels of one architecture are found for another",
        f"{_COMPILING}kernel_files.py",
        'return f"cuda {kind} {cc[0]}.{cc[1]} {source.__class__.__name__} {tuple(source)!r}"',
        'return f"cuda {kind} {source.__class__.__name__} {tuple(source)!r}"',
        (f"{_TEST_COMPILING}test_kernel_files.py",),
    ),
    Fault(
        "cuda compiling: kernels of another compiler are found",
        f"{_COMPILING}kernel_files.py",
        "for name, version in compiler_versions().items()",
        "for name, version in ()",
        (f"{_TEST_COMPILING}test_kernel_files.py",),
    ),
    Fault(
        "cuda compiling: a prebuilt folder depends on the machine",
        f"{_COMPILING}kernel_files.py",
        "found = code_cache.load(_key(kind, source, (cc[0], minor)), _portable(), folder)",
        "found = code_cache.load(_key(kind, source, (cc[0], minor)), None, folder)",
        (f"{_TEST_COMPILING}test_kernel_files.py",),
    ),
    Fault(
        "cuda compiling: spills are not seen",
        f"{_COMPILING}linking.py",
        "max(f[1] + f[2] for f in frames)",
        "max(f[1] * 0 for f in frames)",
        (f"{_TEST_COMPILING}test_linking.py",),
    ),
    Fault(
        "cuda compiling: accesses of 64 bits count as wide",
        f"{_COMPILING}figures.py",
        "int(vector[2:] or 1) * int(bits) >= 128",
        "int(vector[2:] or 1) * int(bits) >= 32",
        (f"{_TEST_COMPILING}test_figures.py",),
    ),
    Fault(
        "cuda compiling: a kernel of a user lacks a number that it uses",
        f"{_COMPILING}function_text.py",
        'parts[used] = _Part(f"{used} = {_number(value)}")',
        'parts[used] = _Part("")',
        (f"{_TEST_COMPILING}test_function_text.py",),
    ),
    Fault(
        "cuda compiling: a kernel of a user does not get its results",
        "tenkey/backends/cuda/user_kernels.py",
        "self._run(device, grid, block, [*values, *made, *sizes])",
        "self._run(device, grid, block, [*made, *values, *sizes])",
        ("tests/backends/cuda/test_user_kernels.py",),
    ),
)
_SYNCHRONIZATION: Final = (
    Fault(
        "cuda memory: use in another queue is not recorded",
        f"{_MEMORY}allocator.py",
        "        if stream == block.segment.arena.stream:",
        "        if stream != block.segment.arena.stream:",
        (f"{_TEST_MEMORY}test_allocator.py", f"{_TEST_MEMORY}test_order_of_memory.py"),
    ),
    Fault(
        "cuda memory: a block is used again before its event has passed",
        f"{_MEMORY}allocator.py",
        "if stream in waits or query(event)[0] == _NOT_READY:",
        "if stream in waits:",
        (f"{_TEST_MEMORY}test_allocator.py", f"{_TEST_MEMORY}test_order_of_memory.py"),
    ),
    Fault(
        "cuda memory: segments are freed without waiting",
        f"{_MEMORY}allocator.py",
        "            if wait:",
        "            if not wait:",
        (f"{_TEST_MEMORY}test_allocator.py", f"{_TEST_MEMORY}test_order_of_memory.py"),
    ),
    Fault(
        "cuda memory: two copies share a piece of the staging memory",
        f"{_MEMORY}transfers.py",
        "        self._next = (start + nbytes + _LINE - 1) & -_LINE",
        "        self._next = start",
        (f"{_TEST_MEMORY}test_transfers.py", f"{_TEST_MEMORY}test_order_of_memory.py"),
    ),
    Fault(
        "cuda memory: the staging memory is used again while it is copied",
        f"{_MEMORY}transfers.py",
        "            pinned.record(pinned.block_of(self._chunk), stream)",
        "            pinned.block_of(self._chunk)",
        (f"{_TEST_MEMORY}test_transfers.py", f"{_TEST_MEMORY}test_order_of_memory.py"),
    ),
    Fault(
        "cuda memory: a copy from another device does not wait for its target",
        f"{_MEMORY}transfers.py",
        "    stream.wait_event(other.record_event())",
        "    other.record_event()",
        (f"{_TEST_MEMORY}test_transfers.py", f"{_TEST_MEMORY}test_order_of_memory.py"),
    ),
    Fault(
        "cuda memory: work does not wait for a copy from another device",
        f"{_MEMORY}transfers.py",
        "    other.wait_event(stream.record_event())",
        "    stream.record_event()",
        (f"{_TEST_MEMORY}test_transfers.py", f"{_TEST_MEMORY}test_order_of_memory.py"),
    ),
    Fault(
        "cuda memory: pinned memory is used again while it is copied",
        f"{_MEMORY}pinned.py",
        "    HOST_POOL.record(block, stream)",
        "    HOST_POOL.record(block, None)",
        (f"{_TEST_MEMORY}test_pinned.py", f"{_TEST_MEMORY}test_order_of_memory.py"),
    ),
    Fault(
        "cuda streams: a stream does not wait for an event",
        f"{_DEVICE}streams.py",
        "                cu.cuStreamWaitEvent(self._handle, event._handle, 0)",
        "                cu.cuStreamQuery.__wrapped__(self._handle)",
        (f"{_TEST_DEVICE}test_streams.py",),
    ),
    Fault(
        "cuda streams: the end of a block does not restore the stream",
        f"{_DEVICE}streams.py",
        "            _choice.set(made.before)",
        "            _choice.set(made)",
        (f"{_TEST_DEVICE}test_streams.py",),
    ),
    Fault(
        "cuda streams: an event is recorded in the current stream instead of the one that was given",
        f"{_DEVICE}streams.py",
        "where = current_stream(self.device) if stream is None else stream",
        "where = current_stream(self.device)",
        (f"{_TEST_DEVICE}test_streams.py",),
    ),
    Fault(
        "cuda graphs: launches in several streams run at the same time",
        f"{_DEVICE}graphs.py",
        "            stream.wait_stream(self.last)",
        "            self.last.query()",
        (f"{_TEST_DEVICE}test_graphs.py",),
    ),
    Fault(
        "cuda graphs: a replay computes with the arguments of the capture",
        f"{_DEVICE}graphs.py",
        "            silently(_copy, static, x)",
        "            silently(_copy, static, static)",
        (f"{_TEST_DEVICE}test_graphs.py",),
    ),
    Fault(
        "cuda contexts: the device of the caller is not restored",
        f"{_DEVICE}contexts.py",
        "            cu.cuCtxSetCurrent(self._before)",
        "            cu.cuCtxGetCurrent()",
        (f"{_TEST_DEVICE}test_contexts.py",),
    ),
    Fault(
        "cuda launches: arguments without their alignment",
        f"{_DEVICE}launching.py",
        'return struct.Struct("@" + "".join(codes)), offsets',
        'return struct.Struct("=" + "".join(codes)), offsets',
        (f"{_TEST_DEVICE}test_launching.py",),
    ),
)

_PREPARED: Final = (
    Fault(
        "plans: the plan of a call with a number is looked up by its value",
        _PLANS,
        "a.offset & _ALIGNED, device.index, is_second, n.dtype.num, n.tobytes()",
        "a.offset & _ALIGNED, device.index, is_second, n.dtype.num, float(n)",
        ("tests/backends/test_call_plans.py",),
    ),
    Fault(
        "plans: a plan outlives the kernel for which it was made",
        _PLANS,
        "plan[0] is slot(plan[1])",
        "plan[0]",
        ("tests/backends/test_call_plans.py",),
    ),
    Fault(
        "plans: a plan is used for memory that overlaps",
        _PLANS,
        "if window.owner is owner:",
        "if window is owner:",
        (f"{_TEST_DEVICE}test_prepared_launches.py",),
    ),
    Fault(
        "cuda launches: a prepared result takes memory of another stream",
        f"{_DEVICE}prepared_launches.py",
        "arena.stream == handle",
        "arena.stream",
        (f"{_TEST_DEVICE}test_prepared_launches.py",),
    ),
    Fault(
        "cuda launches: a prepared result takes memory that another stream uses",
        f"{_DEVICE}prepared_launches.py",
        "and taken.users is None",
        "and taken.size",
        (f"{_TEST_DEVICE}test_prepared_launches.py",),
    ),
    Fault(
        "cuda launches: a prepared launch is used with another driver",
        f"{_DEVICE}prepared_launches.py",
        "if _epoch[0] != epoch:",
        "if epoch < 0:",
        (f"{_TEST_DEVICE}test_prepared_launches.py",),
    ),
    Fault(
        "cuda launches: a prepared launch for memory that is not aligned",
        f"{_DEVICE}prepared_launches.py",
        "if (bases | address) & _ALIGNED:",
        "if not bases:",
        (f"{_TEST_DEVICE}test_failures.py",),
    ),
    Fault(
        "cuda launches: prepared arguments end before their last word",
        f"{_DEVICE}launch_functions.py",
        "arguments.pointers, -(-len(arguments.packed) // 8)",
        "arguments.pointers, len(arguments.packed) // 8",
        (f"{_TEST_DEVICE}test_launch_functions.py",),
    ),
    Fault(
        "cuda launches: the arguments of prepared launches are freed",
        f"{_DEVICE}launch_functions.py",
        "kept = record, method",
        "kept = None, method",
        (f"{_TEST_DEVICE}test_launch_functions.py",),
    ),
    Fault(
        "cuda streams: an error word that was read once is not read again",
        f"{_DEVICE}streams.py",
        "        words.mark(device)  # work in other streams may still report something",
        "        words.code",
        (f"{_TEST_DEVICE}test_failures.py",),
    ),
    Fault(
        "cuda graphs: memory from outside is not kept",
        f"{_DEVICE}graphs.py",
        "windows = [*kept.windows.values(), ",
        "windows = [",
        (f"{_TEST_DEVICE}test_graphs.py",),
    ),
)
CUDA: Final = (
    *_WRONG_KERNELS,
    *_WRONG_SWEEPS,
    *_WRONG_VECTORS,
    *_WRONG_ROWS,
    *_COMPILED,
    *_SYNCHRONIZATION,
    *_PREPARED,
)
