"""Stream capture and graphs of the stub driver."""

from __future__ import annotations

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from cuda.bindings import driver

import tenkey as tk
from tests.testing.cuda_driver._driver_calls import KERNELS, Program, checked, code, host_function

MODE = driver.CUstreamCaptureMode
GLOBAL, LOCAL, RELAXED = (MODE.CU_STREAM_CAPTURE_MODE_GLOBAL, MODE.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                          MODE.CU_STREAM_CAPTURE_MODE_RELAXED)  # fmt: skip
NODE = driver.CUgraphNodeType
N = 64


def begin(stream: Any, mode: Any = LOCAL) -> None:
    checked(driver.cuStreamBeginCapture(stream, mode))


def end(stream: Any) -> Any:
    return checked(driver.cuStreamEndCapture(stream))


def instantiate(graph: Any) -> Any:
    return checked(driver.cuGraphInstantiate(graph, 0))


def nodes_of(graph: Any) -> list[Any]:
    count = driver.cuGraphGetNodes(graph, 0)[2]
    return checked(driver.cuGraphGetNodes(graph, count))[0] if count else []


def kernel_parameters(program: Program, x: int, a: float) -> Any:
    parameters = driver.CUDA_KERNEL_NODE_PARAMS()
    parameters.func = program.function("scale")
    parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1
    parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = 64, 1, 1
    parameters.kernelParams = ((x, a, N), (ctypes.c_uint64, ctypes.c_float, ctypes.c_uint32))
    return parameters


def test_captured_work_is_done_at_each_launch(program: Program, emulator: Any) -> None:
    stream, x = program.stream(), program.device_array(np.ones(N))
    begin(stream)
    program.scale(x, 2, N, stream)
    program.scale(x, 3, N, stream)
    graph = end(stream)
    np.testing.assert_array_equal(program.download(x, N), np.ones(N))
    executable = instantiate(graph)
    for _ in range(3):
        checked(driver.cuGraphLaunch(executable, stream))
    checked(driver.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(program.download(x, N), np.full(N, 216))
    assert emulator.counts.graph_launches == 3
    checked(driver.cuGraphExecDestroy(executable))
    checked(driver.cuGraphDestroy(graph))
    assert code(driver.cuGraphLaunch(executable, stream)) == 1


def test_other_streams_join_a_capture_by_events(program: Program) -> None:
    a, b, fork, join = program.stream(), program.stream(), program.event(), program.event()
    x, y = program.device_array(np.ones(N)), program.device_array(np.ones(N))
    begin(a)
    program.scale(x, 2, N, a)
    checked(driver.cuEventRecord(fork, a))
    checked(driver.cuStreamWaitEvent(b, fork, 0))
    assert int(checked(driver.cuStreamIsCapturing(b))) == 1
    program.axpy(y, x, x, 1, N, b)
    checked(driver.cuEventRecord(join, b))
    checked(driver.cuStreamWaitEvent(a, join, 0))
    program.scale(y, 10, N, a)
    graph = end(a)
    assert int(checked(driver.cuStreamIsCapturing(b))) == 0
    kinds = [checked(driver.cuGraphNodeGetType(node)) for node in nodes_of(graph)]
    assert kinds == [NODE.CU_GRAPH_NODE_TYPE_KERNEL] * 3
    executable = instantiate(graph)
    checked(driver.cuGraphLaunch(executable, b))
    checked(driver.cuStreamSynchronize(b))
    np.testing.assert_array_equal(program.download(y, N), np.full(N, 40))


def test_a_capture_with_work_that_is_not_joined(program: Program) -> None:
    a, b, fork = program.stream(), program.stream(), program.event()
    x = program.device_array(np.ones(N))
    begin(a)
    checked(driver.cuEventRecord(fork, a))
    checked(driver.cuStreamWaitEvent(b, fork, 0))
    program.scale(x, 2, N, b)
    assert code(driver.cuStreamEndCapture(a)) == 904
    assert int(checked(driver.cuStreamIsCapturing(a))) == 0


def test_the_rules_of_captures(program: Program) -> None:
    a, b, outside = program.stream(), program.stream(), program.event()
    x = program.device_array(np.ones(N))
    assert code(driver.cuStreamBeginCapture(0, LOCAL)) == 900  # the legacy default stream
    assert code(driver.cuStreamEndCapture(a)) == 401
    checked(driver.cuEventRecord(outside, b))
    begin(a)
    assert code(driver.cuStreamBeginCapture(a, LOCAL)) == 401
    assert code(driver.cuStreamWaitEvent(a, outside, 0)) == 905  # not captured
    assert int(checked(driver.cuStreamIsCapturing(a))) == 2
    assert program.launch_code("nothing", [], a) == 901
    assert code(driver.cuStreamEndCapture(a)) == 901
    begin(a)
    assert code(driver.cuStreamSynchronize(a)) == 900
    assert code(driver.cuStreamEndCapture(a)) == 901
    begin(a)
    inside = program.event()
    checked(driver.cuEventRecord(inside, a))
    assert code(driver.cuEventSynchronize(inside)) == 907
    assert code(driver.cuStreamEndCapture(a)) == 901
    begin(a)
    begin(b)
    checked(driver.cuEventRecord(inside, a))
    assert code(driver.cuStreamWaitEvent(b, inside, 0)) == 902
    assert code(driver.cuStreamEndCapture(a)) == code(driver.cuStreamEndCapture(b)) == 901
    program.scale(x, 2, N, a)
    checked(driver.cuStreamSynchronize(a))


def test_the_default_stream_is_not_used_while_a_blocking_stream_is_captured(program: Program) -> None:
    blocking, independent = program.stream(blocking=True), program.stream()
    x = program.device_array(np.ones(N))
    begin(independent)
    program.scale(x, 2, N, 0)
    assert int(end(independent)) != 0
    begin(blocking)
    assert program.launch_code("nothing", [], 0) == 906
    assert code(driver.cuStreamEndCapture(blocking)) == 901


@pytest.mark.parametrize(("mode", "expected"), [(GLOBAL, 900), (LOCAL, 900), (RELAXED, 0)])
def test_unsafe_calls_by_the_mode_of_the_capture(program: Program, mode: Any, expected: int) -> None:
    stream, event = program.stream(), program.event()
    checked(driver.cuEventRecord(event, 0))
    begin(stream, mode)
    assert code(driver.cuMemAlloc(16)) == expected
    assert code(driver.cuStreamEndCapture(stream)) == (901 if expected else 0)
    begin(stream, mode)
    assert code(driver.cuEventQuery(event)) == expected
    assert code(driver.cuStreamEndCapture(stream)) == (901 if expected else 0)


@pytest.mark.parametrize(("mode", "expected"), [(GLOBAL, 900), (LOCAL, 0)])
def test_unsafe_calls_of_another_thread(program: Program, mode: Any, expected: int) -> None:
    stream, found = program.stream(), list[int]()

    def other() -> None:
        checked(driver.cuCtxSetCurrent(program.context))
        found.append(code(driver.cuMemAlloc(16)))

    begin(stream, mode)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [expected]
    assert code(driver.cuStreamEndCapture(stream)) == (901 if expected else 0)


def test_a_thread_may_exchange_its_mode(program: Program) -> None:
    stream = program.stream()
    begin(stream, GLOBAL)
    before = checked(driver.cuThreadExchangeStreamCaptureMode(RELAXED))
    address = checked(driver.cuMemAlloc(16))
    checked(driver.cuThreadExchangeStreamCaptureMode(before))
    assert int(end(stream)) != 0
    checked(driver.cuMemFree(address))


def test_another_thread_may_not_end_a_capture(program: Program) -> None:
    stream, found = program.stream(), list[int]()

    def other() -> None:
        checked(driver.cuCtxSetCurrent(program.context))
        found.append(code(driver.cuStreamEndCapture(stream)))

    begin(stream)
    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [908]
    assert code(driver.cuStreamEndCapture(stream)) == 901


def test_graphs_are_built_of_nodes(program: Program) -> None:
    stream, seen = program.stream(), list[float]()
    x, pinned = program.device_array(np.ones(N)), program.pinned(N)
    graph = checked(driver.cuGraphCreate(0))
    clear = driver.CUDA_MEMSET_NODE_PARAMS()
    clear.dst, clear.value, clear.elementSize, clear.width, clear.height = x, 0x3F800000, 4, N, 1
    first = checked(driver.cuGraphAddMemsetNode(graph, [], 0, clear, program.context))
    kernel = checked(driver.cuGraphAddKernelNode(graph, [first], 1, kernel_parameters(program, x, 4)))
    space = driver.CUDA_MEMCPY3D()
    space.srcMemoryType, space.srcDevice = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, x
    space.dstMemoryType, space.dstHost = driver.CUmemorytype.CU_MEMORYTYPE_HOST, pinned.ctypes.data
    space.WidthInBytes, space.Height, space.Depth = 4 * N, 1, 1
    copied = checked(driver.cuGraphAddMemcpyNode(graph, [kernel], 1, space, program.context))
    host = driver.CUDA_HOST_NODE_PARAMS()
    address, kept = host_function(lambda: seen.append(pinned[0].item()))
    host.fn, host.userData = address, 0
    called = checked(driver.cuGraphAddHostNode(graph, [copied], 1, host))
    checked(driver.cuGraphAddEmptyNode(graph, [called], 1))
    kinds = [int(checked(driver.cuGraphNodeGetType(node))) for node in nodes_of(graph)]
    assert kinds == [2, 0, 1, 3, 5]
    assert driver.cuGraphGetEdges(graph, 0)[-1] == 4
    assert driver.cuGraphGetRootNodes(graph, 0)[-1] == 1
    executable = instantiate(graph)
    checked(driver.cuGraphLaunch(executable, stream))
    checked(driver.cuGraphExecKernelNodeSetParams(executable, kernel, kernel_parameters(program, x, 9)))
    checked(driver.cuGraphLaunch(executable, stream))
    checked(driver.cuStreamSynchronize(stream))
    assert seen == [4, 9]
    checked(driver.cuGraphNodeSetEnabled(executable, kernel, 0))
    checked(driver.cuGraphLaunch(executable, stream))
    checked(driver.cuStreamSynchronize(stream))
    assert seen == [4, 9, 1]
    found = checked(driver.cuGraphKernelNodeGetParams(kernel))
    assert (found.gridDimX, found.blockDimX) == (1, 64)
    del kept


def test_cycles_and_foreign_nodes_are_refused(program: Program) -> None:
    graph, other = checked(driver.cuGraphCreate(0)), checked(driver.cuGraphCreate(0))
    a = checked(driver.cuGraphAddEmptyNode(graph, [], 0))
    b = checked(driver.cuGraphAddEmptyNode(graph, [a], 1))
    assert code(driver.cuGraphAddEmptyNode(other, [a], 1)) == 1
    assert code(driver.cuGraphAddDependencies(graph, [a], [b], None, 1)) == 1  # it exists
    checked(driver.cuGraphAddDependencies(graph, [b], [a], None, 1))
    assert code(driver.cuGraphInstantiate(graph, 0)) == 1
    checked(driver.cuGraphRemoveDependencies(graph, [b], [a], None, 1))
    assert int(instantiate(graph)) != 0


def test_child_graphs_are_copied(program: Program) -> None:
    stream, x = program.stream(), program.device_array(np.ones(N))
    child = checked(driver.cuGraphCreate(0))
    checked(driver.cuGraphAddKernelNode(child, [], 0, kernel_parameters(program, x, 2)))
    graph = checked(driver.cuGraphCreate(0))
    first = checked(driver.cuGraphAddChildGraphNode(graph, [], 0, child))
    checked(driver.cuGraphAddChildGraphNode(graph, [first], 1, child))
    checked(driver.cuGraphDestroy(child))
    executable = instantiate(graph)
    checked(driver.cuGraphLaunch(executable, stream))
    checked(driver.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(program.download(x, N), np.full(N, 4))


def test_an_executable_is_updated_as_a_whole(program: Program) -> None:
    stream, x = program.stream(), program.device_array(np.ones(N))

    def captured(*factors: float) -> Any:
        begin(stream)
        for factor in factors:
            program.scale(x, factor, N, stream)
        return end(stream)

    executable = instantiate(captured(2, 3))
    checked(driver.cuGraphExecUpdate(executable, captured(5, 7)))
    checked(driver.cuGraphLaunch(executable, stream))
    checked(driver.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(program.download(x, N), np.full(N, 35))
    assert code(driver.cuGraphExecUpdate(executable, captured(5))) == 910
    begin(stream)
    checked(driver.cuMemsetD8Async(x, 0, N, stream))
    program.scale(x, 2, N, stream)
    assert code(driver.cuGraphExecUpdate(executable, end(stream))) == 910
    checked(driver.cuGraphLaunch(executable, stream))  # as before
    checked(driver.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(program.download(x, N), np.full(N, 35 * 35))


def test_user_objects_outlive_the_replay(emulator: Any) -> None:
    with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True) as deferred:
        program = Program()
        stream, x, gone = program.stream(), program.device_array(np.ones(N)), list[str]()
        destroy, kept = host_function(lambda: gone.append("gone"))
        thing = checked(driver.cuUserObjectCreate(1, driver.CUhostFn(destroy), 1, 1))
        begin(stream)
        program.scale(x, 2, N, stream)
        graph = end(stream)
        checked(driver.cuGraphRetainUserObject(graph, thing, 1, 1))
        executable = instantiate(graph)
        checked(driver.cuGraphDestroy(graph))
        checked(driver.cuGraphLaunch(executable, stream))
        checked(driver.cuGraphExecDestroy(executable))
        assert gone == []
        checked(driver.cuStreamSynchronize(stream))
        deferred.finish()
        assert gone == ["gone"]
        np.testing.assert_array_equal(program.download(x, N), np.full(N, 2))
        del kept


def test_memory_of_a_graph(program: Program) -> None:
    stream, x = program.stream(), program.device_array(np.arange(N))
    begin(stream)
    scratch = int(checked(driver.cuMemAllocAsync(4 * N, stream)))
    checked(driver.cuMemcpyDtoDAsync(scratch, x, 4 * N, stream))
    program.scale(scratch, 2, N, stream)
    checked(driver.cuMemcpyDtoDAsync(x, scratch, 4 * N, stream))
    checked(driver.cuMemFreeAsync(scratch, stream))
    executable = instantiate(end(stream))
    for _ in range(2):
        checked(driver.cuGraphLaunch(executable, stream))
    checked(driver.cuStreamSynchronize(stream))
    np.testing.assert_array_equal(program.download(x, N), 4 * np.arange(N))
    checked(driver.cuGraphExecDestroy(executable))


def test_events_in_graphs(emulator: Any) -> None:
    for seed in range(6):
        with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True, seed=seed):
            program = Program()
            a, b, event = program.stream(), program.stream(), program.event()
            x, y = program.device_array(np.ones(N)), program.device_array(np.ones(N))
            graph = checked(driver.cuGraphCreate(0))
            kernel = checked(driver.cuGraphAddKernelNode(graph, [], 0, kernel_parameters(program, x, 2)))
            checked(driver.cuGraphAddEventRecordNode(graph, [kernel], 1, event))
            checked(driver.cuGraphLaunch(instantiate(graph), a))
            checked(driver.cuStreamWaitEvent(b, event, 0))
            program.axpy(y, x, x, 1, N, b)
            checked(driver.cuStreamSynchronize(b))
            np.testing.assert_array_equal(program.download(y, N), np.full(N, 4))


def test_replays_of_one_executable_do_not_overlap(emulator: Any) -> None:
    for seed in range(6):
        with tk.testing.cuda_emulator(devices=2, memory=2**26, deferred=True, seed=seed):
            program = Program()
            a, b, x = program.stream(), program.stream(), program.device_array(np.ones(N))
            begin(a)
            program.scale(x, 2, N, a)
            checked(driver.cuMemcpyDtoDAsync(x, x + 4, 4, a))
            executable = instantiate(end(a))
            checked(driver.cuGraphLaunch(executable, a))
            checked(driver.cuGraphLaunch(executable, b))
            checked(driver.cuCtxSynchronize())
            np.testing.assert_array_equal(program.download(x, N), np.full(N, 4))


def test_cuda_core_graphs(emulator: Any) -> None:
    core = pytest.importorskip("cuda.core")
    device = core.Device(0)
    device.set_current()
    stream = device.create_stream()
    builder = stream.create_graph_builder()
    program = Program()
    x = program.device_array(np.ones(N))
    builder.begin_building()
    program.scale(x, 6, N, builder.stream.handle if hasattr(builder, "stream") else stream.handle)
    graph = builder.end_building().complete()
    graph.launch(stream)
    stream.sync()
    np.testing.assert_array_equal(program.download(x, N), np.full(N, 6))


def test_nodes_of_cuda_core(emulator: Any) -> None:
    core = pytest.importorskip("cuda.core")
    graphs = pytest.importorskip("cuda.core.graph")
    device = core.Device(0)
    device.set_current()
    stream, seen = device.create_stream(), list[int]()
    kernel = core.ObjectCode.from_ptx(KERNELS.encode()).get_kernel("scale")
    program = Program()
    x = program.device_array(np.ones(N))
    config = core.LaunchConfig(grid=1, block=N)
    definition = graphs.GraphDefinition()
    first = definition.launch(config, kernel, x, np.float32(3), np.uint32(N))
    second = first.launch(config, kernel, x, np.float32(5), np.uint32(N))
    scratch = second.allocate(N)
    scratch.memset(scratch.dptr, 0, N).callback(lambda: seen.append(1)).deallocate(scratch.dptr)
    assert len(list(definition.nodes())) == 6
    executable = definition.instantiate()
    executable.launch(stream)
    stream.sync()
    np.testing.assert_array_equal(program.download(x, N), np.full(N, 15))
    assert seen == [1]
