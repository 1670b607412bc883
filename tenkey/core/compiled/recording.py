# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""The recording of planned calls for autograd, and views, whose history depends on their root.

A recorded call makes the node that the generated Autograd kernel of the operator would make
(``tenkey.autograd.recording.kernel_source``), from the recipe of the plan.
"""

import cython
import numpy as np
from cython.cimports.tenkey.core.compiled.handles import (
    RECORDED,
    STORAGE,
    Handle,
    Plan,
    Recipe,
    tenkey_get,
    tenkey_new,
    word_of,
    wrapped,
)

NOTHING = cython.declare(tuple, ())
FLOAT64 = cython.declare(type, np.float64)

# what core and autograd give: see ``configure``
TENSOR_OF = cython.declare(object, None)
VERSION_OF = cython.declare(object, None)
CPU = cython.declare(object, None)
SEQUENCE = cython.declare(object, None)
NO_EDGE = cython.declare(tuple, (None, 0))
LEAF_EDGE = cython.declare(object, None)
OUTPUT_META = cython.declare(type, type(None))
VIEW_META = cython.declare(type, type(None))
TENSOR_META = cython.declare(object, None)
SAVED_TENSOR = cython.declare(object, None)
SAVED_OUTPUT = cython.declare(object, None)

# sources of saved values other than the position of an operand
OUT = cython.declare(cython.int, -1)
META = cython.declare(cython.int, -2)
OWN_META = cython.declare(cython.int, -3)
OPTIONS = cython.declare(cython.int, 10)
CODES = {"out": -1, "meta": -2, "own_meta": -3, "option": 10}


def configure(tensor_of, version_of, cpu):
    """Receive what core gives: the function that makes a tensor of a number, that of versions, and the device."""
    global TENSOR_OF, VERSION_OF, CPU
    TENSOR_OF, VERSION_OF, CPU = tensor_of, version_of, cpu


def configure_recording(sequence, no_edge, leaf_edge, output_meta, view_meta, tensor_meta, saved_tensor, saved_output):
    """Receive the classes and functions of autograd that recording uses."""
    global SEQUENCE, NO_EDGE, LEAF_EDGE, OUTPUT_META, VIEW_META, TENSOR_META, SAVED_TENSOR, SAVED_OUTPUT
    SEQUENCE, NO_EDGE, LEAF_EDGE, OUTPUT_META = sequence, no_edge, leaf_edge, output_meta
    VIEW_META, TENSOR_META, SAVED_TENSOR, SAVED_OUTPUT = view_meta, tensor_meta, saved_tensor, saved_output


@cython.cfunc
def window(plan: Plan, kind: type, x: Handle, data, extras: tuple):
    """Return a view of a tensor (Note [Views share a version counter])."""
    root = tenkey_get(x, 2)
    if root is None or type(root) is STORAGE:
        root = x
    result: Handle = wrapped(kind, data, plan.word, root)
    if plan.recipe is not None:
        record(plan.recipe, result, (x,), extras)
    return result


@cython.cfunc
def edge_of(x):
    """Return the edge to which the gradient of an operand goes."""
    if not isinstance(x, Handle) or not word_of(cython.cast(Handle, x)) & RECORDED:
        return NO_EDGE
    meta = tenkey_get(x, 3)
    edge = None if meta is None else meta.edge
    return LEAF_EDGE(x) if edge is None else edge


@cython.cfunc
def saved_input(x):
    """Return what a node keeps of an operand (Note [Values saved as they are])."""
    if not isinstance(x, Handle):
        return TENSOR_OF(x.item() if type(x) is FLOAT64 else x)
    if tenkey_get(x, 2) is None:
        return x
    saved = SAVED_TENSOR()
    saved.tensor = x
    saved.version = VERSION_OF(x)
    return saved


@cython.cfunc
def saved_output(result: Handle):
    """Return what a node keeps of its own result: its storage."""
    if result._storage is not None:
        return SAVED_OUTPUT(result)
    storage = tenkey_new(object, STORAGE, NOTHING)
    storage.buffer = result._data
    storage.device = CPU
    storage.version = 0
    result._storage = storage
    return storage


@cython.cfunc
@cython.exceptval(-1, check=False)
def record(recipe: Recipe, result: Handle, operands: tuple, options: tuple) -> cython.int:
    """Make the node of a call, as the generated Autograd kernel of the operator does."""
    node = tenkey_new(object, recipe.node_class, NOTHING)
    node.sequence_nr = SEQUENCE.next()
    edges: list = []
    needed: cython.long = 0
    k: cython.Py_ssize_t
    source: cython.int
    for k in range(len(recipe.edges)):
        edge = edge_of(operands[cython.cast(cython.Py_ssize_t, recipe.edges[k])])
        edges.append(edge)
        if edge is not NO_EDGE:
            needed |= 1 << k
    node.next_edges = tuple(edges)
    node.shape = result._data.shape
    for slot, code, users in recipe.saves:
        source = code
        value = None
        if source >= OPTIONS:
            value = options[source - OPTIONS]
        elif needed & cython.cast(cython.long, users):
            if source >= 0:
                value = saved_input(operands[source])
            elif source == OUT:
                value = saved_output(result)
            else:
                first = edges[0][0]
                if source == META or (first is not None and not first._word):
                    x = operands[0]
                    value = TENSOR_META(x.shape, x.dtype, x.device)
        setattr(node, slot, value)
    root = result._storage
    if recipe.is_view and isinstance(root, Handle):
        meta = tenkey_new(object, VIEW_META, NOTHING)
        meta.own = (node, 0)
        meta.root = root
        meta.data = result._data
        storage = tenkey_get(root, 2)
        meta.at = 0 if storage is None else storage.version
    else:
        meta = tenkey_new(object, OUTPUT_META, NOTHING)
        meta.node = node
        meta.edge = (node, 0)
    result._autograd = meta
    node._word = result._word
    return 0
