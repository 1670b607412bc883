/* A CUDA driver in host memory: the types and functions that its files share.

   Note [Locks of the stub driver]
   One mutex guards all state. It is never held while code of the user runs (a kernel, a host function, a destructor of
   a user object), because such code takes Python's global lock, which another thread may hold while it waits for the
   mutex. One thread at a time runs the work of the queues;
       a thread that must wait for it gives up Python's lock first. */
#ifndef STUB_H
#define STUB_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void (*HostFunction)(void *);

enum {
  OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEINITIALIZED = 4, NO_DEVICE = 100,
  INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, UNSUPPORTED_LIMIT = 215,
  PEER_ACCESS_UNSUPPORTED = 217, INVALID_PTX = 218, FILE_NOT_FOUND = 301, INVALID_HANDLE = 400, ILLEGAL_STATE = 401,
  NOT_FOUND = 500, NOT_READY = 600, ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701,
  PEER_ACCESS_ALREADY_ENABLED = 704, PEER_ACCESS_NOT_ENABLED = 705, PRIMARY_CONTEXT_ACTIVE = 708,
  CONTEXT_IS_DESTROYED = 709, HOST_MEMORY_ALREADY_REGISTERED = 712, HOST_MEMORY_NOT_REGISTERED = 713,
  LAUNCH_FAILED = 719, COOPERATIVE_LAUNCH_TOO_LARGE = 720, NOT_PERMITTED = 800, NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_MERGE = 902, CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904, CAPTURE_ISOLATION = 905, CAPTURE_IMPLICIT = 906, CAPTURED_EVENT = 907,
  CAPTURE_WRONG_THREAD = 908, GRAPH_EXEC_UPDATE_FAILURE = 910,
};

enum { MAX_DEVICES = 16, TEXT = 4096 };
enum { CONTEXT = 0x43545831, STREAM, EVENT, LIBRARY, KERNEL, FUNCTION, POOL, GRAPH, NODE, EXECUTABLE, USER_OBJECT };

typedef struct Context Context;
typedef struct Stream Stream;
typedef struct Event Event;
typedef struct Operation Operation;
typedef struct Capture Capture;
typedef struct Node Node;
typedef struct Graph Graph;
typedef struct Executable Executable;
typedef struct Kernel Kernel;
typedef struct Library Library;
typedef struct Pool Pool;
typedef struct Block Block;
typedef struct UserObject UserObject;

struct Context {
  unsigned magic;
  CUdevice device;
  int primary, retained, destroyed;
  unsigned flags;
  unsigned long long id;
  unsigned peers; /* devices whose memory may be used, as bits */
  CUresult error; /* sticky */
  int reported;   /* whether a call has returned it */
  char text[TEXT];
  Stream *legacy;
  Stream *streams; /* all of the context */
  size_t limits[16];
  Context *next;
};

struct Stream {
  unsigned magic;
  Context *context;
  unsigned flags; /* 1: does not wait for the legacy default stream */
  int priority, per_thread;
  unsigned long long id;
  Operation *last; /* the one queued last */
  Capture *capture;
  Node **frontier; /* while it is captured: what the next node depends on */
  size_t frontier_size;
  Stream *next;
};

struct Event {
  unsigned magic;
  Context *context;
  unsigned flags;
  unsigned long long id;
  Operation *recorded;
  Capture *capture; /* recorded in a stream that is captured */
  unsigned long long capture_id;
  Node **frontier;
  size_t frontier_size;
};

enum { NOTHING, COPY, SET, LAUNCH, HOST, RECORD, WAIT, ALLOCATE, RELEASE, CHILD };

typedef struct {
  CUdeviceptr to, from;
  size_t to_pitch, from_pitch, to_slice, from_slice; /* bytes from row to row, from plane to plane */
  size_t width, height, depth;
} Copy;

typedef struct {
  CUdeviceptr to;
  size_t pitch, width, height; /* width in elements */
  unsigned value, element;
} Set;

typedef struct {
  Kernel *kernel;
  unsigned grid[3], block[3], shared;
  unsigned char *parameters;
  size_t size;
} Launch;

typedef struct { /* what a node of a graph and an operation of a queue do */
  int kind;
  Context *context;
  union {
    Copy copy;
    Set set;
    Launch launch;
    struct { HostFunction function; void *data; int callback; void *stream; } host;
    Event *event;
    Block *block;
    Graph *child;
  } as;
} Work;

struct Operation {
  Work work;
  Context *context;
  Stream *stream; /* NULL: of a graph */
  Executable *executable; /* kept alive until the replay is over */
  void *staged; /* pageable memory, as it was when the copy was called */
  int references, done, running, waiting;
  unsigned long long number, wanted;
  double queued, begin, end; /* microseconds of the device's clock */
  Operation **before, **after;
  size_t before_size, after_size, after_room;
  long ready_at; /* its place among the operations that can run, or -1 */
};

struct Kernel {
  unsigned magic; /* KERNEL: of a library; FUNCTION: the same for a context */
  Library *library;
  Kernel *base;   /* a function's kernel */
  Context *context;
  char *name;
  long long id;   /* Python's number of it */
  unsigned count;
  size_t *offsets, *sizes, size;
  int registers, shared, local, constant, threads; /* threads: the largest block */
  int dynamic_shared, carveout, cluster;
  Kernel *functions, *next;
};

typedef struct Global { char *name; CUdeviceptr address; size_t size; struct Global *next; } Global;

struct Library { unsigned magic; long long id; int module; Context *context; Kernel *kernels; Global *globals;
    Library *next; };

typedef struct Retained { UserObject *object; unsigned count; struct Retained *next; } Retained;

struct Node {
  unsigned magic;
  Graph *graph;
  Work work;
  Node **before;
  size_t before_size;
  unsigned long long id;
  Node *origin; /* what it is a copy of */
  int enabled;
  void **addresses; /* of its parameters, for whoever asks */
};

struct Graph { unsigned magic; unsigned long long id; Node **nodes; size_t count; Retained *objects; int owned; };

enum { DEVICE_MEMORY, POOL_MEMORY, PINNED, REGISTERED, MANAGED, GLOBAL, GRAPH_MEMORY };

struct Block {
  CUdeviceptr base;
  size_t size, room;
  CUdevice device;
  int kind;
  Context *context;
  Pool *pool;
  Stream *released_in;    /* where a block of a pool may be used again at once */
  int held;               /* as the host sees it: allocated and not freed */
  int valid;              /* as the device sees it, in the order of the work */
  int pending;            /* allocations and releases that are queued */
  int graphs;             /* nodes that allocate or release it */
  unsigned flags;
  unsigned long long id;
};

struct Pool {
  unsigned magic;
  CUdevice device; /* -1: host memory */
  int standard;
  uint64_t threshold, maximum, reserved_high, used, used_high, reserved;
  int reuse[3];
  unsigned access; /* devices, as bits */
  Pool *next;
};

/* ---- the state of the emulator */
typedef struct {
  int active, devices, major, minor, deferred, execute, initialised, thread_order;
  size_t memory;
  uint64_t random;
} Settings;
extern Settings settings;

/* stub_control.c */
typedef struct Entry { const char *name; unsigned long long calls; struct Entry *next; int known; } Entry;
enum { ANYTIME = 1, AFTER_ERROR = 2, NO_CONTEXT = 4 };
CUresult enter(Entry *entry, const char *name, int flags);
#define ENTER_AS(flags) \
  static Entry entry_; \
  { CUresult status_ = enter(&entry_, __func__, flags); if (status_) return status_; }
#define ENTER ENTER_AS(0)
#define CONTROL __attribute__((visibility("default"))) /* what Python calls */
#define API __attribute__((visibility("default"))) CUresult
#define RETURN(code) do { CUresult code_ = (code); unlock(); return code_; } while (0)

typedef struct {
  unsigned long long allocations, frees, pinned_allocations, pinned_frees, launches, host_to_device, device_to_host,
    device_to_device, host_to_host, sets, copied_bytes, synchronisations, implicit_synchronisations, queries,
    events_recorded, events_waited, host_functions, graph_launches, streams, events, modules;
} Counts;
extern Counts counts;

typedef struct {
  int (*launch)(long long kernel, const unsigned *sizes, const void *parameters, size_t bytes, int device, char *text,
                size_t room);
  long long (*load)(const void *image, size_t bytes, void *library, int *code);
  void (*unload)(long long library);
  unsigned long long (*variable)(long long library, const char *name);
} Callbacks;
extern Callbacks callbacks;

void lock(void);
void unlock(void);
void wait_for_progress(void);
void progressed(void);
uint64_t random_number(void);
double clock_now(void);
size_t misalignment(void); /* of the next allocation: an injected fault */
extern __thread int in_user_code; /* 1: a kernel, 2: a host function */

/* stub_devices.c */
Context *current_context(void);
CUresult context_error(void);
CUresult report(Context *context); /* its error, which a caller gets to see */
Context *context_of(CUdevice device);
CUresult fail(Context *context, CUresult code, const char *format, ...);
int alive(const void *handle, unsigned magic);
unsigned long long next_id(void);
extern Context *contexts;
void reset_devices(void);
CUresult device_value(CUdevice device, int attribute, int *value);

/* stub_memory.c */
Block *block_of(CUdeviceptr address);
Block *allocate(size_t bytes, CUdevice device, int kind, Context *context);
void give_back(Block *block);
Block *adopt(CUdeviceptr base, size_t bytes, CUdevice device, int kind, Context *context);
int in_arena(CUdeviceptr address);
CUresult check_range(CUdeviceptr address, size_t bytes, Context *context, int *kind);
int reachable(const Block *block, const Context *context);
const char *describe_range(CUdeviceptr address, size_t bytes, char *text, size_t room);
void memory_changed(void);
size_t memory_used(CUdevice device);
size_t memory_free(CUdevice device);
enum { PAGEABLE = -1, UNKNOWN = -2 };

/* stub_pools.c */
void trim_pools(CUdevice device);
void block_allocated(Block *block);
void block_released(Block *block);
void node_uses(Block *block, int count);
CUresult release_in_order(Block *block, Stream *stream);

/* stub_queue.c */
Operation *queue(Work *work, Stream *stream);
Operation *queue_after(Work *work, Context *context, Operation **before, size_t count, Executable *executable);
void release(Operation *operation);
Operation *retain(Operation *operation);
void finish(Operation *operation);
void finish_context(Context *context);
void finish_all(void);
int poll(Operation *operation);
void run_eagerly(void);
int queue_has_work(void);
void run_destructors(void);
void defer_destructor(HostFunction function, void *data);
Work copy_work(const Work *work);
void free_work(Work *work);

/* stub_streams.c */
CUresult find_stream(void *handle, Stream **stream);
CUresult submit(Work *work, void *handle, Operation **made, Node **node);
void reset_streams(Context *context, int destroy);

/* stub_copies.c */
typedef struct {
  size_t from_x, from_y, from_z, from_level;
  int from_kind;
  const void *from_host;
  CUdeviceptr from_device;
  void *from_array, *reserved0;
  size_t from_pitch, from_height, to_x, to_y, to_z, to_level;
  int to_kind;
  void *to_host;
  CUdeviceptr to_device;
  void *to_array, *reserved1;
  size_t to_pitch, to_height, width, height, depth;
} Space;
CUresult copy_of_space(const Space *given, Copy *copy);
CUresult check_set(const Set *set, Context *context, int *kind);

/* stub_capture.c */
CUresult capture_work(Stream *stream, Work *work, Node **node);
CUresult capture_record(Stream *stream, Event *event);
CUresult capture_wait(Stream *stream, Event *event);
CUresult unsafe_call(void);
CUresult unsafe_call_locked(void);
CUresult legacy_used(Context *context);
int any_capture(void);
void event_forgets(Event *event);
void reset_capture(void);
CUresult invalidate(Capture *capture, CUresult code);

/* stub_nodes.c */
Graph *new_graph(void);
Graph *clone_graph(Graph *graph);
void free_graph(Graph *graph);
Node *add_node(Graph *graph, const Work *work, Node **before, size_t count);
size_t place_of(const Graph *graph, const Node *node);
int acyclic(const Graph *graph);
void let_go(UserObject *object, unsigned count);
void retain_object(Graph *graph, UserObject *object, unsigned count);

/* stub_replay.c */
void release_executable(Executable *executable);
Node *copy_in(Executable *executable, Node *node);

/* stub_modules.c */
CUresult launch_checks(Kernel **function, const unsigned *sizes, void **parameters, void **extra, Launch *launch,
                       Context *context, int cooperative);
Kernel *function_of(Kernel *kernel, Context *context);
#endif
