# Declarations of handles.py; see there.
cimport numpy as cnp

cdef extern from *:
    """
    #include <structmember.h>

    /* A new instance of `kind`, a subclass of `base`. Cython looks `__new__` up by name where the class is a variable. */
    static PyObject* tenkey_new(PyObject* base, PyObject* kind, PyObject* arguments) {
        return ((PyTypeObject*)base)->tp_new((PyTypeObject*)kind, arguments, NULL);
    }

    /* Note [Tensors are freed in C]
       Classes in Python are freed by a function that looks for slots, finalizers and bases at each call. For tensors
       this one takes its place. It keeps some of them for the next calls, unless a debugging allocator is to see each.
       Of an instance of a subclass it frees the part of ``Tensor``; Python's function has freed the rest before. */
    #define TENKEY_KEPT 32
    static PyObject* tenkey_kept[TENKEY_KEPT];
    static int tenkey_kept_count = 0, tenkey_kept_limit = 0;
    static Py_ssize_t tenkey_size = 0, tenkey_fields = 0;

    /* Whether freeing this tensor cannot free another one, so that no trashcan is needed. What has a second reference
       outlives it, unless that is another of its fields or a weak reference's callback drops it meanwhile. */
    static CYTHON_INLINE int tenkey_is_leaf(PyObject* x, PyObject** fields) {
        PyObject* data = fields[0];
        uintptr_t others = *(uintptr_t*)((char*)x + Py_TYPE(x)->tp_weaklistoffset);
        for (Py_ssize_t i = 4; i < tenkey_fields; i++) others |= (uintptr_t)fields[i];
        if (others != 0 || data == NULL || fields[1] == NULL || fields[2] == NULL || fields[3] != Py_None) return 0;
        if (!PyLong_CheckExact(fields[1]) || Py_REFCNT(fields[2]) == 1 || data == fields[2]) return 0;
        if (Py_REFCNT(data) > 1) return 1;
        return PyArray_CheckExact(data) && ((PyArrayObject_fields*)data)->weakreflist == NULL
            && (PyArray_BASE((PyArrayObject*)data) == NULL || Py_REFCNT(PyArray_BASE((PyArrayObject*)data)) > 1);
    }

    /* Note [Views are used again]
       NumPy's object takes most of the time of a view: to find memory for it and for its shape, and to free both. So
       some that nothing refers to any more, with up to four axes, are kept for the next views of as many axes. They
       have one reference, no base, no buffer that is exported and no weak references, and no memory of their own. Their
       dtype is one that NumPy keeps for ever: another one can hold objects of users, and would run code when freed. */
    #define TENKEY_AXES 4
    static PyObject* tenkey_views[TENKEY_AXES][TENKEY_KEPT];
    static int tenkey_view_count[TENKEY_AXES] = {0};

    static CYTHON_INLINE int tenkey_is_permanent(PyArray_Descr* dtype) {
        int number = dtype->type_num;
        if (number > NPY_CDOUBLE && number != NPY_HALF) return 0;
        PyArray_Descr* permanent = PyArray_DescrFromType(number);
        Py_XDECREF(permanent);
        return permanent == dtype;
    }

    /* Keep the array of a tensor that is a leaf (``tenkey_is_leaf``), or return 0. */
    static CYTHON_INLINE int tenkey_keep_view(PyObject* data) {
        if (Py_REFCNT(data) != 1 || !PyArray_CheckExact(data)) return 0;
        PyArrayObject_fields* a = (PyArrayObject_fields*)data;
        PyObject* base = a->base;
        if (base == NULL || a->nd < 1 || a->nd > TENKEY_AXES || a->_buffer_info != NULL) return 0;
        if (a->flags & (NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEBACKIFCOPY)) return 0;
        if (!tenkey_is_permanent(a->descr)) return 0;
        int* count = &tenkey_view_count[a->nd - 1];
        if (*count >= tenkey_kept_limit) return 0;
        tenkey_views[a->nd - 1][(*count)++] = data;
        a->base = NULL;
        Py_DECREF(base); /* which has another reference */
        return 1;
    }

    /* Let a new array share the memory of another one. NumPy's function looks for the owner: mostly this one, or its base. */
    static CYTHON_INLINE int tenkey_share(PyObject* made, PyObject* a) {
        PyObject* base = PyArray_BASE((PyArrayObject*)a);
        PyObject* owner = a;
        if (base != NULL && !(PyArray_FLAGS((PyArrayObject*)a) & NPY_ARRAY_OWNDATA) && PyArray_CheckExact(base)
            && PyArray_BASE((PyArrayObject*)base) == NULL) {
            owner = base;
            base = NULL;
        }
        Py_INCREF(owner);
        if (base != NULL) return PyArray_SetBaseObject((PyArrayObject*)made, owner);
        ((PyArrayObject_fields*)made)->base = owner;
        return 0;
    }

    /* A view of the memory of an array, from an offset in bytes. */
    static PyObject* tenkey_view(PyObject* array, int ndim, npy_intp* dims, npy_intp* strides, Py_ssize_t offset) {
        PyArrayObject* a = (PyArrayObject*)array;
        PyArray_Descr* dtype = PyArray_DESCR(a);
        int flags = PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE;
        char* place = PyArray_BYTES(a) + offset;
        PyObject* made;
        Py_INCREF(dtype);
        if (ndim >= 1 && ndim <= TENKEY_AXES && tenkey_view_count[ndim - 1] != 0) {
            made = tenkey_views[ndim - 1][--tenkey_view_count[ndim - 1]];
            PyArrayObject_fields* view = (PyArrayObject_fields*)made;
            Py_DECREF(view->descr); /* which is permanent */
            view->descr = dtype;
            view->data = place;
            view->flags = flags;
            for (int k = 0; k < ndim; k++) {
                view->dimensions[k] = dims[k];
                view->strides[k] = strides[k];
            }
            PyArray_UpdateFlags((PyArrayObject*)made, NPY_ARRAY_UPDATE_ALL);
        } else {
            made = PyArray_NewFromDescr(&PyArray_Type, dtype, ndim, dims, strides, place, flags, NULL);
            if (made == NULL) return NULL;
        }
        if (tenkey_share(made, array) == 0) return made;
        Py_DECREF(made);
        return NULL;
    }

    /* Let go of the first fields of a tensor, and free or keep its memory. */
    static CYTHON_INLINE void tenkey_finish(PyObject* x, PyObject** fields, Py_ssize_t count, int is_own) {
        PyTypeObject* kind = Py_TYPE(x);
        for (Py_ssize_t i = 0; i < count; i++) Py_CLEAR(fields[i]);
        if (is_own && kind->tp_finalize == NULL && tenkey_kept_count < tenkey_kept_limit)
            tenkey_kept[tenkey_kept_count++] = x;
        else
            kind->tp_free(x);
        Py_DECREF(kind);
    }

    static void tenkey_free(PyObject* x) {
        PyTypeObject* kind = Py_TYPE(x);
        PyObject** fields = (PyObject**)((char*)x + sizeof(PyObject));
        int is_own = kind->tp_dealloc == tenkey_free;
        if (is_own && kind->tp_finalize != NULL && PyObject_CallFinalizerFromDealloc(x) < 0) return;
        PyObject_GC_UnTrack(x);
        if (tenkey_is_leaf(x, fields)) {
            if (tenkey_keep_view(fields[0])) fields[0] = NULL;
            tenkey_finish(x, fields, 4, is_own);
            return;
        }
        Py_TRASHCAN_BEGIN(x, tenkey_free)
        if (*(PyObject**)((char*)x + kind->tp_weaklistoffset) != NULL) PyObject_ClearWeakRefs(x);
        tenkey_finish(x, fields, tenkey_fields, is_own);
        Py_TRASHCAN_END
    }

    /* Let ``tenkey_free`` free the instances of a class with the fields of ``Handle`` and slots, if its layout is so. */
    static int tenkey_own(PyTypeObject* kind, int limit) {
        Py_ssize_t end = kind->tp_basicsize - (kind->tp_weaklistoffset > 0 ? sizeof(PyObject*) : 0);
        int has_layout = kind->tp_weaklistoffset == end || kind->tp_weaklistoffset < 0;
        if (!has_layout || kind->tp_dictoffset != 0 || !PyType_IS_GC(kind)) return 0;
        if (tenkey_size != 0 && (tenkey_size != kind->tp_basicsize)) return 0;
        tenkey_size = kind->tp_basicsize;
        tenkey_fields = (end - sizeof(PyObject)) / sizeof(PyObject*);
        tenkey_kept_limit = limit < TENKEY_KEPT ? limit : TENKEY_KEPT;
        kind->tp_dealloc = tenkey_free;
        return 1;
    }

    /* A new tensor of a class; its other field is None. */
    static PyObject* tenkey_tensor(PyTypeObject* kind, PyObject* data, PyObject* word, PyObject* storage) {
        PyObject* x;
        int is_kept = tenkey_kept_count != 0 && kind->tp_dealloc == tenkey_free;
        if (is_kept)
            x = PyObject_Init(tenkey_kept[--tenkey_kept_count], kind);
        else
            x = kind->tp_alloc(kind, 0);
        if (x == NULL) return NULL;
        PyObject** fields = (PyObject**)((char*)x + sizeof(PyObject));
        Py_INCREF(data); fields[0] = data;
        Py_INCREF(word); fields[1] = word;
        Py_INCREF(storage); fields[2] = storage;
        Py_INCREF(Py_None); fields[3] = Py_None;
        if (is_kept) PyObject_GC_Track(x);
        return x;
    }

    /* Fields of a handle are reached through these two functions, because `del` in Python leaves a null pointer. */
    #define TENKEY_FIELDS(x) ((PyObject**)((char*)(x) + sizeof(PyObject)))
    static CYTHON_INLINE PyObject* tenkey_get(PyObject* x, int i) {
        PyObject* value = TENKEY_FIELDS(x)[i];
        if (value == NULL) value = Py_None;
        Py_INCREF(value);
        return value;
    }
    static CYTHON_INLINE void tenkey_put(PyObject* x, int i, PyObject* value) {
        PyObject* old = TENKEY_FIELDS(x)[i];
        Py_INCREF(value);
        TENKEY_FIELDS(x)[i] = value;
        Py_XDECREF(old);
    }

    /* Members instead of the getters that Cython makes: the interpreter specialises reads and writes of them. */
    static int tenkey_member(PyObject* type, const char* name, int i) {
        static PyMemberDef members[8];
        PyMemberDef* member = &members[i];
        member->name = name;
        member->type = T_OBJECT_EX;
        member->offset = sizeof(PyObject) + i * sizeof(PyObject*);
        PyObject* descriptor = PyDescr_NewMember((PyTypeObject*)type, member);
        if (descriptor == NULL) return -1;
        int failed = PyDict_SetItemString(((PyTypeObject*)type)->tp_dict, name, descriptor);
        Py_DECREF(descriptor);
        PyType_Modified((PyTypeObject*)type);
        return failed;
    }

    /* The offset of a slot (``__slots__``) in the instances of a class; 0 if the class has another attribute there. */
    static Py_ssize_t tenkey_offset(PyObject* kind, PyObject* name) {
        PyObject* found = PyObject_GetAttr(kind, name);
        Py_ssize_t offset = 0;
        if (found == NULL) { PyErr_Clear(); return 0; }
        if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
            PyMemberDef* member = ((PyMemberDescrObject*)found)->d_member;
            if (member->type == T_OBJECT_EX) offset = member->offset;
        }
        Py_DECREF(found);
        return offset;
    }
    /* Slots at an offset are read and written in instances of exactly the class that the offset is from. */
    static CYTHON_INLINE PyObject* tenkey_read(PyObject* x, Py_ssize_t offset) {
        PyObject* value = *(PyObject**)((char*)x + offset);
        if (value == NULL) value = Py_None;
        Py_INCREF(value);
        return value;
    }
    static CYTHON_INLINE void tenkey_write(PyObject* x, Py_ssize_t offset, PyObject* value) {
        PyObject* old = *(PyObject**)((char*)x + offset);
        Py_INCREF(value);
        *(PyObject**)((char*)x + offset) = value;
        Py_XDECREF(old);
    }
    """
    object tenkey_new(object base, object kind, tuple arguments)
    Py_ssize_t tenkey_offset(object kind, object name)
    object tenkey_read(object x, Py_ssize_t offset)
    void tenkey_write(object x, Py_ssize_t offset, object value)
    object tenkey_tensor(type kind, object data, object word, object storage)
    object tenkey_get(object x, int i)
    void tenkey_put(object x, int i, object value)
    int tenkey_member(object type, const char* name, int i) except -1
    int tenkey_own(type kind, int limit) noexcept
    object tenkey_view(object array, int ndim, cnp.npy_intp* dims, cnp.npy_intp* strides, Py_ssize_t offset)

cdef extern from *:
    """
    #ifndef TENKEY_SOURCE_HASH
    #define TENKEY_SOURCE_HASH ""
    #endif
    #define TENKEY_NO_WORD 0xFFFFFFFFFFFFFFFFULL

    /* A number from 0 to 2**64 - 2 in C; NO_WORD for anything else. */
    static CYTHON_INLINE unsigned long long tenkey_bits(PyObject* number) {
        if (number == NULL || !PyLong_CheckExact(number)) return TENKEY_NO_WORD;
        unsigned long long bits = PyLong_AsUnsignedLongLong(number);
        if (bits == TENKEY_NO_WORD) PyErr_Clear(); /* of OverflowError: no other code has run */
        return bits;
    }
    /* The dispatch word of a handle; NO_WORD where it has more than 64 bits or is not an int. */
    #define tenkey_word(x) tenkey_bits(TENKEY_FIELDS(x)[1])

    /* 0 in the state in which nothing is special, 1 in `silent`, in which nothing is recorded, 2 in others. */
    static CYTHON_INLINE int tenkey_state(PyObject* variable, PyObject* silent) {
        PyObject* found = NULL;
        if (PyContextVar_Get(variable, NULL, &found) < 0) return -1;
        int kind = found == NULL || found == Py_None ? 0 : found == silent ? 1 : 2;
        Py_XDECREF(found);
        return kind;
    }
    """
    const char* TENKEY_SOURCE_HASH
    const unsigned long long NO_WORD "TENKEY_NO_WORD"
    unsigned long long bits_of "tenkey_bits" (object number) noexcept
    unsigned long long word_of "tenkey_word" (Handle x) noexcept
    int state_kind "tenkey_state" (object variable, object silent) except -1

cdef extern from "numpy/ufuncobject.h":  # numpy's own declarations of NumPy 2.5 omit `types`
    ctypedef struct Ufunc "PyUFuncObject":
        int nargs, ntypes
        const char* types
        cnp.PyUFuncGenericFunction* functions
        void** data

cdef class Handle:
    cdef object _data, _word, _storage, _autograd

cdef class Recipe:
    cdef type node_class
    cdef bint is_view
    cdef Py_ssize_t word_at, number_at, edges_at, shape_at
    cdef int edge_count, save_count
    cdef int edges[8]
    cdef int sources[8]
    cdef long users[8]
    cdef Py_ssize_t saves_at[8]

cdef class Plan:
    cdef unsigned long long key
    cdef object word, call, zero, large, source, name
    cdef Recipe recipe
    cdef cnp.dtype dtype
    cdef int number, kind, option, type
    cdef Py_ssize_t size, result_size, limit
    cdef cnp.PyUFuncGenericFunction loop
    cdef void* context
    cdef long waits
    cdef long long driver, pool, inner, data, widths, chunk, threads_from
    cdef Py_ssize_t least, most
    cdef bint whole_vectors

cdef inline cnp.ndarray native(Handle x):
    """Return the array of a CPU tensor, or None. Compare its dtype with that of the plan before a loop runs."""
    data = tenkey_get(x, 0)
    return <cnp.ndarray>data if cnp.PyArray_CheckExact(data) else None

cdef Handle wrapped(type kind, data, word, storage)
cdef view_of(a, int ndim, cnp.npy_intp* dims, cnp.npy_intp* strides, Py_ssize_t offset)

cdef class Table:
    cdef list plans
    cdef Plan latest
    cdef public object general, reflected, learn
    cdef object float64_word
    cdef Plan find(self, unsigned long long key)
    cdef Plan search(self, unsigned long long* key)

cdef type TENSOR, ARRAY, NDARRAY, STORAGE
cdef object STATE, SILENT
cdef unsigned long long RECORDED, WEAK, FLOAT, INT

cdef inline unsigned long long own_word(Handle x) noexcept:
    """Return what an operand of the class of a call adds to the union of words; NO_WORD where no plan covers it."""
    cdef unsigned long long bits = word_of(x)
    return NO_WORD if bits & WEAK else bits  # a number that is a tensor already has another dtype

cdef inline Plan usable(Table table, unsigned long long* key):
    """Return the plan for a call in the present state, or None; then ``key`` is to be learned, or is NO_WORD.

    Where recording is off and nothing else is special, the words count without their gradients.
    """
    cdef int state = state_kind(STATE, SILENT)
    if state == 2:
        key[0] = NO_WORD
    elif state == 1 and key[0] != NO_WORD:
        key[0] &= ~RECORDED
    cdef Plan plan = table.latest
    if plan is None or plan.key != key[0] or plan.kind == 0:
        return table.search(key)
    return plan

cdef Py_ssize_t slot_at(type kind, str name) except -1
