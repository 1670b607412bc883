# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""The loop of the engine in C, with the sums of gradients by plans.

It is the function ``_loop`` of :mod:`tenkey.autograd.engine.engine`, step by step, where all is explained; it reads the
fields of recorded nodes by their offsets. What it calls was written in Python (formulas, hooks, accumulators), so an
interrupt is noticed there.
"""

from heapq import heapify, heappop, heappush

import cython
from cython.cimports import numpy as cnp
from cython.cimports.tenkey.core.compiled.handles import (
    NO_WORD,
    RECORDED,
    TENSOR,
    Handle,
    Plan,
    Table,
    bits_of,
    native,
    slot_at,
    tenkey_read,
    word_of,
    wrapped,
)
from cython.cimports.tenkey.core.compiled.operations import add_to, pair
from cython.cimports.tenkey.core.compiled.recording import node_of

cnp.import_array()

# what autograd gives: see ``configure``
NODE = cython.declare(type, type(None))
ACCUMULATOR = cython.declare(type, type(None))
SUMS = cython.declare(Table, None)
ADDED = cython.declare(object, None)
ADD_PART = cython.declare(object, None)
DELIVER = cython.declare(object, None)
VALIDATE = cython.declare(object, None)
REFUSE_COUNT = cython.declare(object, None)
IS_WORKERS = cython.declare(object, None)
WORD_AT = cython.declare(cython.Py_ssize_t, 0)
SHAPE_AT = cython.declare(cython.Py_ssize_t, 0)
FRESH = cython.declare(cython.Py_ssize_t, 0)


def configure(node, accumulator, sums, added, add_part, deliver, validate, refuse_count, is_workers):
    """Receive the classes and functions of autograd, and the plans of sums of gradients."""
    global NODE, ACCUMULATOR, SUMS, ADDED, ADD_PART, DELIVER, VALIDATE, REFUSE_COUNT, IS_WORKERS, WORD_AT, SHAPE_AT
    NODE, ACCUMULATOR, SUMS, ADDED, ADD_PART = node, accumulator, sums, added, add_part
    DELIVER, VALIDATE, REFUSE_COUNT, IS_WORKERS = deliver, validate, refuse_count, is_workers
    WORD_AT, SHAPE_AT = slot_at(node, "_word"), slot_at(node, "shape")


def calibrate(fresh):
    """Receive the number of references that the loop in Python counts for a gradient that has no others."""
    global FRESH
    FRESH = fresh


@cython.cfunc
@cython.exceptval(check=False)
def fits(grad: Handle, word: cython.ulonglong, shape) -> cython.bint:
    """Return whether a gradient has the word and the shape that a node states."""
    own: cython.ulonglong = word_of(grad)
    if own == NO_WORD or (own | RECORDED) != word or type(shape) is not tuple:
        return False
    a: cnp.ndarray = native(grad)
    lengths: tuple = cython.cast(tuple, shape)
    if a is None or cnp.PyArray_NDIM(a) != len(lengths):
        return False
    k: cython.int
    for k in range(cnp.PyArray_NDIM(a)):
        if bits_of(lengths[k]) != cython.cast(cython.ulonglong, cnp.PyArray_DIMS(a)[k]):
            return False
    return True


@cython.cfunc
def sum_of(held: Handle, grad: Handle, is_own: cython.bint, key: cython.ulonglong):
    """Return the sum of two gradients of one word and shape; ``is_own``: the first may be written to."""
    plan: Plan = SUMS.find(key)
    if plan is None:
        SUMS.learn(key)
    elif plan.kind != 0:
        if is_own:
            if add_to(plan, held, grad):
                return held
        else:
            out: cnp.ndarray = pair(plan, held, grad)
            if out is not None:
                return wrapped(TENSOR, out, plan.word, None)
    return SUMS.general(key)(held, grad, is_own)


@cython.cfunc
def edges_of(node) -> tuple:
    """Return the edges of a node."""
    edges = node.next_edges
    return cython.cast(tuple, edges) if type(edges) is tuple else tuple(edges or ())


def loop(task, buffers: dict, ready: list, step, *, plain: bool, closely: bool):
    """Run the ready nodes until none is left: see ``_loop``."""
    edges: tuple
    heap: list = []
    leaves: list = []
    current: list = None
    buffer: list
    order: cython.long = 0
    k: cython.Py_ssize_t
    count: cython.Py_ssize_t
    word: cython.ulonglong
    is_recorded: cython.bint
    is_plain: cython.bint = plain
    release: cython.bint = not task.keep_graph
    watched = task.captures and frozenset([node for node, _ in task.captures])
    if closely:
        watched = buffers
    is_watched: cython.bint = bool(watched)
    if len(ready) == 1:
        current = ready[0]
    else:
        for each in ready:
            heap.append((-each[2].sequence_nr, order, each))
            order += 1
        heapify(heap)
    while True:
        if current is None:
            if not heap:
                return None
            current = heappop(heap)[2]
        grads = current[1]
        node = current[2]
        special = node._special
        if special or grads is None or (is_watched and node in watched):
            buffer = current
            current = None
            if special and IS_WORKERS(node):
                return [buffer, *[item[2] for item in heap]]
            edges = edges_of(node)
            grads = None
            results = step(task, buffer)
        else:
            current[1] = None
            current = None
            edges = edges_of(node)
            if edges:
                if is_plain and node._add is not None:
                    results = ADD_PART(node, grads, buffers.get(node_of(edges[0])))
                else:
                    results = node.apply(grads)
                if release and node.saves:
                    node.release()
                if len(results) != len(edges):
                    raise REFUSE_COUNT(node.name(), len(results), len(edges))
            elif type(node) is ACCUMULATOR:
                buffers[node][1] = ADDED
                node.accumulate(grads, FRESH + cython.cast(cython.Py_ssize_t, references(grads)) - 1)
                continue
            else:
                continue  # no inputs
            grads = None
        if type(results) is not tuple:
            results = tuple(results)
        for k in range(min(len(edges), len(cython.cast(tuple, results)))):
            edge = edges[k]
            below = node_of(edge)
            if below is None:
                continue
            buffer = buffers.get(below)
            if buffer is None:
                continue  # not needed
            grad = cython.cast(tuple, results)[k]
            if grad is not None:
                is_recorded = isinstance(below, NODE)
                word = bits_of(tenkey_read(below, WORD_AT) if is_recorded else below._word)
                if (
                    type(grad) is TENSOR
                    and word != NO_WORD
                    and fits(
                        cython.cast(Handle, grad), word, tenkey_read(below, SHAPE_AT) if is_recorded else below.shape
                    )
                ):
                    held = buffer[1]
                    if held is None:
                        buffer[1] = grad
                    elif is_plain and type(held) is TENSOR:
                        buffer[1] = sum_of(cython.cast(Handle, held), cython.cast(Handle, grad), buffer[3],
                                           word ^ RECORDED)  # fmt: skip
                        buffer[3] = True
                    else:
                        DELIVER(buffer, cython.cast(tuple, edge)[1], grad)
                    held = None
                else:
                    nr = cython.cast(tuple, edge)[1]
                    DELIVER(buffer, nr, VALIDATE(below, nr, grad, node, results))
            count = cython.cast(cython.Py_ssize_t, buffer[0]) - 1
            buffer[0] = count
            if count == 0:
                if type(below) is ACCUMULATOR and not is_watched and not below._special:
                    leaves.append(buffer)
                elif current is None and not heap:
                    current = buffer
                else:
                    if current is not None:
                        heappush(heap, (-current[2].sequence_nr, order, current))
                        order += 1
                        current = None
                    heappush(heap, (-below.sequence_nr, order, buffer))
                    order += 1
        results = grad = None
        for each in leaves:
            grads = each[1]
            if grads is not None:
                each[1] = ADDED
                each[2].accumulate(grads, FRESH + cython.cast(cython.Py_ssize_t, references(grads)) - 1)
            grads = None
        if leaves:
            leaves.clear()
