# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, nonecheck=False
# cython: auto_pickle=False, cdivision=True
"""The recording of planned calls for autograd, and views, whose history depends on their root.

A recorded call makes the node that the generated Autograd kernel of the operator would make
(``tenkey.autograd.recording.kernel_source``), from the recipe of the plan.
"""

import cython
import numpy as np
from cython.cimports import numpy as cnp
from cython.cimports.tenkey.core.compiled.handles import (
    RECORDED,
    STORAGE,
    Handle,
    Recipe,
    slot_at,
    tenkey_get,
    tenkey_new,
    tenkey_read,
    tenkey_write,
    word_of,
)

cnp.import_array()

NOTHING = cython.declare(tuple, ())
FLOAT64 = cython.declare(type, np.float64)

# what core and autograd give: see ``configure``
TENSOR_OF = cython.declare(object, None)
VERSION_OF = cython.declare(object, None)
CPU = cython.declare(object, None)
ZERO = cython.declare(object, 0)
NO_EDGE = cython.declare(tuple, (None, 0))
LEAF_EDGE = cython.declare(object, None)
OUTPUT_META = cython.declare(type, type(None))
VIEW_META = cython.declare(type, type(None))
TENSOR_META = cython.declare(object, None)
SAVED_TENSOR = cython.declare(object, None)
SAVED_OUTPUT = cython.declare(object, None)

# offsets of slots
META_NODE = cython.declare(cython.Py_ssize_t, 0)
META_EDGE = cython.declare(cython.Py_ssize_t, 0)
VIEW_OWN = cython.declare(cython.Py_ssize_t, 0)
VIEW_ROOT = cython.declare(cython.Py_ssize_t, 0)
VIEW_DATA = cython.declare(cython.Py_ssize_t, 0)
VIEW_AT = cython.declare(cython.Py_ssize_t, 0)
STORAGE_BUFFER = cython.declare(cython.Py_ssize_t, 0)
STORAGE_DEVICE = cython.declare(cython.Py_ssize_t, 0)
STORAGE_VERSION = cython.declare(cython.Py_ssize_t, 0)

# sources of saved values: -1 is the result, others are these plus the position of an operand or an option
OPTIONS = cython.declare(cython.int, 10)
META = cython.declare(cython.int, 20)
OWN_META = cython.declare(cython.int, 30)
CODES = {"out": -1, "operand": 0, "option": 10, "meta": 20, "own_meta": 30}


def configure(tensor_of, version_of, cpu):
    """Receive what core gives: the function that makes a tensor of a number, that of versions, and the device."""
    global TENSOR_OF, VERSION_OF, CPU, STORAGE_BUFFER, STORAGE_DEVICE, STORAGE_VERSION
    TENSOR_OF, VERSION_OF, CPU = tensor_of, version_of, cpu
    STORAGE_BUFFER, STORAGE_DEVICE = slot_at(STORAGE, "buffer"), slot_at(STORAGE, "device")
    STORAGE_VERSION = slot_at(STORAGE, "version")


def configure_recording(no_edge, leaf_edge, output_meta, view_meta, tensor_meta, saved_tensor, saved_output):
    """Receive the classes and functions of autograd that recording uses."""
    global NO_EDGE, LEAF_EDGE, OUTPUT_META, VIEW_META, TENSOR_META, SAVED_TENSOR, SAVED_OUTPUT
    global META_NODE, META_EDGE, VIEW_OWN, VIEW_ROOT, VIEW_DATA, VIEW_AT
    NO_EDGE, LEAF_EDGE, OUTPUT_META, VIEW_META = no_edge, leaf_edge, output_meta, view_meta
    TENSOR_META, SAVED_TENSOR, SAVED_OUTPUT = tensor_meta, saved_tensor, saved_output
    META_NODE, META_EDGE = slot_at(output_meta, "node"), slot_at(output_meta, "edge")
    VIEW_OWN, VIEW_ROOT = slot_at(view_meta, "own"), slot_at(view_meta, "root")
    VIEW_DATA, VIEW_AT = slot_at(view_meta, "data"), slot_at(view_meta, "at")


@cython.cfunc
def edge_of(x):
    """Return the edge to which the gradient of an operand goes."""
    if not isinstance(x, Handle) or not word_of(cython.cast(Handle, x)) & RECORDED:
        return NO_EDGE
    meta = tenkey_get(x, 3)
    edge = None
    if type(meta) is OUTPUT_META:
        edge = tenkey_read(meta, META_EDGE)
    elif meta is not None:
        edge = meta.edge
    return LEAF_EDGE(x) if edge is None else edge


@cython.cfunc
def node_of(edge):
    """Return the node of an edge; raise TypeError for what is no edge, which only Python code can have set."""
    if type(edge) is not tuple or len(cython.cast(tuple, edge)) != 2:
        raise TypeError(f"an edge is a tuple of a node and a number, got {edge!r}.")
    return cython.cast(tuple, edge)[0]


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
    tenkey_write(storage, STORAGE_BUFFER, result._data)
    tenkey_write(storage, STORAGE_DEVICE, CPU)
    tenkey_write(storage, STORAGE_VERSION, ZERO)
    result._storage = storage
    return storage


@cython.cfunc
def saved_value(recipe: Recipe, source: cython.int, result: Handle, operands: tuple, edges: tuple):
    """Return what a node keeps of an operand or of the result."""
    if source < 0:
        return saved_output(result)
    if source < OPTIONS:
        return saved_input(operands[source])
    place: cython.int = source % 10
    if source >= OWN_META:  # not where the node that the edge leads to has it
        k: cython.int
        for k in range(recipe.edge_count):
            if recipe.edges[k] == place:
                below = node_of(edges[k])
                if below is None or below._word:
                    return None
    x = operands[place]
    return TENSOR_META(x.shape, x.dtype, x.device)


@cython.cfunc
@cython.exceptval(-1, check=False)
def record(recipe: Recipe, result: Handle, operands: tuple, options: tuple) -> cython.int:
    """Make the node of a call, as the generated Autograd kernel of the operator does."""
    node = tenkey_new(object, recipe.node_class, NOTHING)
    tenkey_write(node, recipe.number_at, tenkey_next_call())
    needed: cython.long = 0
    k: cython.int
    edge = edge_of(operands[recipe.edges[0]])
    if edge is not NO_EDGE:
        needed = 1
    if recipe.edge_count == 1:
        edges: tuple = (edge,)
    elif recipe.edge_count == 2:
        other = edge_of(operands[recipe.edges[1]])
        if other is not NO_EDGE:
            needed |= 2
        edges = (edge, other)
    else:
        found: list = [edge]
        for k in range(1, recipe.edge_count):
            other = edge_of(operands[recipe.edges[k]])
            if other is not NO_EDGE:
                needed |= 1 << k
            found.append(other)
        edges = tuple(found)
    source: cython.int
    tenkey_write(node, recipe.edges_at, edges)
    data: cnp.ndarray = result._data
    tenkey_write(node, recipe.shape_at, shape_of(data))
    for k in range(recipe.save_count):
        value = None
        source = recipe.sources[k]
        if OPTIONS <= source < META:
            value = options[source - OPTIONS]
        elif needed & recipe.users[k]:
            value = saved_value(recipe, source, result, operands, edges)
        tenkey_write(node, recipe.saves_at[k], value)
    root = result._storage
    own = (node, ZERO)
    if recipe.is_view and isinstance(root, Handle):
        meta = tenkey_new(object, VIEW_META, NOTHING)
        tenkey_write(meta, VIEW_OWN, own)
        tenkey_write(meta, VIEW_ROOT, root)
        tenkey_write(meta, VIEW_DATA, data)
        storage = tenkey_get(root, 2)
        tenkey_write(meta, VIEW_AT, ZERO if storage is None else storage.version)
    else:
        meta = tenkey_new(object, OUTPUT_META, NOTHING)
        tenkey_write(meta, META_NODE, node)
        tenkey_write(meta, META_EDGE, own)
    result._autograd = meta
    tenkey_write(node, recipe.word_at, result._word)
    return 0


@cython.cfunc
def shape_of(a: cnp.ndarray):
    """Return the shape of an array."""
    if cnp.PyArray_NDIM(a) == 1:
        return (cnp.PyArray_DIMS(a)[0],)
    return cython.cast(object, a).shape if cnp.PyArray_NDIM(a) else NOTHING


@cython.final
@cython.cclass
class Sequence:
    """The sequence numbers of nodes: every thread counts its own recorded calls from 0."""

    def next(self):
        """Return the number of the next call."""
        return tenkey_next_call()
