/* Parameters of nodes: how they are added, read and changed, in graphs and in executable ones. */
#include "stub.h"

typedef struct { Kernel *function; unsigned sizes[7]; void **parameters, **extra; Kernel *kernel; Context *context;
    } KernelParameters;
typedef struct { CUdeviceptr to; size_t pitch; unsigned value, element; size_t width, height; Context *context;
    } SetParameters;
typedef struct { HostFunction function; void *data; } HostParameters;
typedef struct { int flags, reserved; Context *context; Space space; } CopyParameters;
typedef struct { unsigned char pool[88]; const void *access; size_t access_count, bytes; CUdeviceptr address;
    } AllocationParameters;
typedef struct {
  int type, reserved[3];
  union {
    long long padding[29];
    KernelParameters kernel;
    CopyParameters copy;
    SetParameters set;
    HostParameters host;
    Graph *graph;
    Event *event;
    AllocationParameters allocation;
    CUdeviceptr address;
  } as;
  long long reserved2;
} NodeParameters;

/* ---- from the structures of the interface to work */
static CUresult kernel_work(const KernelParameters *given, Work *work) {
  if (!given) return INVALID_VALUE;
  Kernel *kernel = given->function ? given->function : given->kernel;
  Context *context = alive(kernel, FUNCTION) ? kernel->context : alive(given->context, CONTEXT) ? given->context
      : current_context();
  if (!context) return INVALID_CONTEXT;
  *work = (Work){.kind = LAUNCH, .context = context};
  return launch_checks(&kernel, given->sizes, given->parameters, given->extra, &work->as.launch, context, 0);
}

static Context *chosen(Context *context) { return alive(context, CONTEXT) ? context : current_context(); }

static CUresult copy_node_work(const Space *given, Context *context, Work *work) {
  int kind;
  *work = (Work){.kind = COPY, .context = chosen(context)};
  if (!work->context) return INVALID_CONTEXT;
  Copy *copy = &work->as.copy;
  CUresult code = copy_of_space(given, copy);
  if (code) return code;
  if (!copy->width || !copy->height || !copy->depth) return INVALID_VALUE;
  size_t to = (copy->depth - 1) * copy->to_slice + (copy->height - 1) * copy->to_pitch + copy->width;
  size_t from = (copy->depth - 1) * copy->from_slice + (copy->height - 1) * copy->from_pitch + copy->width;
  code = check_range(copy->to, to, work->context, &kind);
  return code ? code : check_range(copy->from, from, work->context, &kind);
}

static CUresult set_work(const SetParameters *given, Context *context, Work *work) {
  int kind;
  if (!given || (given->element != 1 && given->element != 2 && given->element != 4) || !given->width ||
      !given->height) return INVALID_VALUE;
  *work = (Work){.kind = SET, .context = chosen(context)};
  if (!work->context) return INVALID_CONTEXT;
  work->as.set = (Set){given->to, given->pitch, given->width, given->height, given->value, given->element};
  return check_set(&work->as.set, work->context, &kind);
}

static CUresult host_work(const HostParameters *given, Work *work) {
  if (!given || !given->function) return INVALID_VALUE;
  *work = (Work){.kind = HOST, .context = current_context(), .as.host = {given->function, given->data, 0, NULL}};
  return work->context ? OK : INVALID_CONTEXT;
}

static CUresult event_work(Event *event, int kind, Work *work) {
  if (!alive(event, EVENT)) return INVALID_HANDLE;
  *work = (Work){.kind = kind, .context = event->context, .as.event = event};
  return OK;
}

/* Add a node; the work's own memory is copied, so it is freed here. The mutex is held. */
static CUresult add(Node **node, Graph *graph, Node **before, size_t count, Work *work, CUresult code) {
  if (!code && (!node || !alive(graph, GRAPH) || (count && !before))) code = INVALID_VALUE;
  for (size_t i = 0; i < count && !code; i++)
    if (!alive(before[i], NODE) || before[i]->graph != graph) code = INVALID_VALUE;
  if (!code) *node = add_node(graph, work, before, count);
  free_work(work);
  return code;
}

#define ADD(make) \
  Work work = {0}; \
  lock(); \
  CUresult code = make; \
  RETURN(add(node, graph, before, count, &work, code))

#define FRONT Node **node, Graph *graph, Node **before, size_t count

API cuGraphAddKernelNode_v2(FRONT, const KernelParameters *given) { ENTER ADD(kernel_work(given, &work)); }
API cuGraphAddMemcpyNode(FRONT, const Space *given, Context *context) {
  ENTER
  ADD(copy_node_work(given, context, &work));
}
API cuGraphAddMemsetNode(FRONT, const SetParameters *given, Context *context) {
  ENTER
  ADD(set_work(given, context, &work));
}
API cuGraphAddHostNode(FRONT, const HostParameters *given) { ENTER ADD(host_work(given, &work)); }
API cuGraphAddEmptyNode(FRONT) { ENTER ADD((work.context = current_context(), OK)); }
API cuGraphAddEventRecordNode(FRONT, Event *event) { ENTER ADD(event_work(event, RECORD, &work)); }
API cuGraphAddEventWaitNode(FRONT, Event *event) { ENTER ADD(event_work(event, WAIT, &work)); }

static CUresult child_work(Graph *child, Work *work) {
  if (!alive(child, GRAPH)) return INVALID_VALUE;
  *work = (Work){.kind = CHILD, .context = current_context(), .as.child = clone_graph(child)};
  work->as.child->owned = 1;
  return OK;
}

API cuGraphAddChildGraphNode(FRONT, Graph *child) { ENTER ADD(child_work(child, &work)); }

static CUresult allocation_work(AllocationParameters *given, Work *work) {
  Context *context = current_context();
  if (!given || !given->bytes) return INVALID_VALUE;
  Block *block = allocate(given->bytes, context->device, GRAPH_MEMORY, context);
  if (!block) return OUT_OF_MEMORY;
  block->valid = 0;
  block->graphs = 1;
  given->address = block->base;
  *work = (Work){.kind = ALLOCATE, .context = context, .as.block = block};
  return OK;
}

static CUresult release_work(CUdeviceptr address, Work *work) {
  Block *block = block_of(address);
  if (!block || block->kind != GRAPH_MEMORY || block->base != address) return INVALID_VALUE;
  block->graphs++;
  *work = (Work){.kind = RELEASE, .context = current_context(), .as.block = block};
  return OK;
}

API cuGraphAddMemAllocNode(FRONT, AllocationParameters *given) { ENTER ADD(allocation_work(given, &work)); }
API cuGraphAddMemFreeNode(FRONT, CUdeviceptr address) { ENTER ADD(release_work(address, &work)); }

static CUresult any_work(NodeParameters *given, Work *work) {
  if (!given) return INVALID_VALUE;
  switch (given->type) {
  case 0: return kernel_work(&given->as.kernel, work);
  case 1: return copy_node_work(&given->as.copy.space, given->as.copy.context, work);
  case 2: return set_work(&given->as.set, given->as.set.context, work);
  case 3: return host_work(&given->as.host, work);
  case 4: return child_work(given->as.graph, work);
  case 5: *work = (Work){.kind = NOTHING, .context = current_context()}; return OK;
  case 6: return event_work(given->as.event, WAIT, work);
  case 7: return event_work(given->as.event, RECORD, work);
  case 10: return allocation_work(&given->as.allocation, work);
  case 11: return release_work(given->as.address, work);
  default: return NOT_SUPPORTED;
  }
}

API cuGraphAddNode_v2(Node **node, Graph *graph, Node **before, const void *data, size_t count, NodeParameters *given) {
  ENTER
  ADD(any_work(given, &work));
}
API cuGraphAddNode_v3(Node **node, Graph *graph, Node **before, const void *data, size_t count, NodeParameters *given) {
  ENTER
  ADD(any_work(given, &work));
}

/* ---- reading and changing */
static CUresult replace(Node *node, Work *work, CUresult code) {
  if (!code && (!alive(node, NODE) || node->work.kind != work->kind)) code = INVALID_VALUE;
  if (!code) {
    free_work(&node->work);
    node->work = copy_work(work);
  }
  free_work(work);
  return code;
}

#define CHANGE(target, make) \
  Work work = {0}; \
  lock(); \
  CUresult code = make; \
  RETURN(replace(target, &work, code))

#define CHECKED(wanted) if (!given || !alive(node, NODE) || node->work.kind != wanted) return INVALID_VALUE

API cuGraphKernelNodeGetParams_v2(Node *node, KernelParameters *given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(LAUNCH);
  Launch *launch = &node->work.as.launch;
  free(node->addresses);
  node->addresses = calloc(launch->kernel->count + 1, sizeof(void *));
  for (unsigned i = 0; i < launch->kernel->count;
       i++) node->addresses[i] = launch->parameters + launch->kernel->offsets[i];
  memset(given, 0, sizeof *given);
  given->function = launch->kernel;
  memcpy(given->sizes, launch->grid, sizeof launch->grid);
  memcpy(given->sizes + 3, launch->block, sizeof launch->block);
  given->sizes[6] = launch->shared;
  given->parameters = node->addresses;
  given->kernel = launch->kernel->base;
  given->context = node->work.context;
  return OK;
}

API cuGraphMemcpyNodeGetParams(Node *node, Space *given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(COPY);
  Copy *copy = &node->work.as.copy;
  *given = (Space){.from_kind = 4, .from_device = copy->from, .from_pitch = copy->from_pitch, .to_kind = 4,
      .to_device = copy->to,
                   .to_pitch = copy->to_pitch, .width = copy->width, .height = copy->height, .depth = copy->depth};
  if (copy->from_pitch) given->from_height = copy->from_slice / copy->from_pitch;
  if (copy->to_pitch) given->to_height = copy->to_slice / copy->to_pitch;
  return OK;
}

API cuGraphMemsetNodeGetParams(Node *node, SetParameters *given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(SET);
  Set *set = &node->work.as.set;
  given->to = set->to; /* the older form of the structure ends before the context */
  given->pitch = set->pitch;
  given->value = set->value;
  given->element = set->element;
  given->width = set->width;
  given->height = set->height;
  return OK;
}

API cuGraphHostNodeGetParams(Node *node, HostParameters *given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(HOST);
  *given = (HostParameters){node->work.as.host.function, node->work.as.host.data};
  return OK;
}

API cuGraphChildGraphNodeGetGraph(Node *node, Graph **given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(CHILD);
  *given = node->work.as.child;
  return OK;
}
API cuGraphEventRecordNodeGetEvent(Node *node, Event **given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(RECORD);
  *given = node->work.as.event;
  return OK;
}
API cuGraphEventWaitNodeGetEvent(Node *node, Event **given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(WAIT);
  *given = node->work.as.event;
  return OK;
}
API cuGraphMemFreeNodeGetParams(Node *node, CUdeviceptr *given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(RELEASE);
  *given = node->work.as.block->base;
  return OK;
}
API cuGraphMemAllocNodeGetParams(Node *node, AllocationParameters *given) {
  ENTER_AS(NO_CONTEXT)
  CHECKED(ALLOCATE);
  memset(given, 0, sizeof *given);
  given->bytes = node->work.as.block->size;
  given->address = node->work.as.block->base;
  return OK;
}

API cuGraphKernelNodeSetParams_v2(Node *node, const KernelParameters *given) {
  ENTER
  CHANGE(node, kernel_work(given, &work));
}
API cuGraphMemcpyNodeSetParams(Node *node, const Space *given) {
  ENTER
  CHANGE(node, copy_node_work(given, NULL, &work));
}
API cuGraphMemsetNodeSetParams(Node *node, const SetParameters *given) {
  ENTER
  CHANGE(node, set_work(given, NULL, &work));
}
API cuGraphHostNodeSetParams(Node *node, const HostParameters *given) { ENTER CHANGE(node, host_work(given, &work)); }
API cuGraphEventRecordNodeSetEvent(Node *node, Event *event) { ENTER CHANGE(node, event_work(event, RECORD, &work)); }
API cuGraphEventWaitNodeSetEvent(Node *node, Event *event) { ENTER CHANGE(node, event_work(event, WAIT, &work)); }
API cuGraphNodeSetParams(Node *node, NodeParameters *given) { ENTER CHANGE(node, any_work(given, &work)); }
API cuGraphNodeSetParams_v2(Node *node, NodeParameters *given) { ENTER CHANGE(node, any_work(given, &work)); }

#define IN(executable, node) copy_in(executable, node)
API cuGraphExecKernelNodeSetParams_v2(Executable *executable, Node *node, const KernelParameters *given) {
  ENTER
  CHANGE(IN(executable, node), kernel_work(given, &work));
}
API cuGraphExecMemcpyNodeSetParams(Executable *executable, Node *node, const Space *given, Context *context) {
  ENTER
  CHANGE(IN(executable, node), copy_node_work(given, context, &work));
}
API cuGraphExecMemsetNodeSetParams(Executable *executable, Node *node, const SetParameters *given, Context *context) {
  ENTER
  CHANGE(IN(executable, node), set_work(given, context, &work));
}
API cuGraphExecHostNodeSetParams(Executable *executable, Node *node, const HostParameters *given) {
  ENTER
  CHANGE(IN(executable, node), host_work(given, &work));
}
API cuGraphExecEventRecordNodeSetEvent(Executable *executable, Node *node, Event *event) {
  ENTER
  CHANGE(IN(executable, node), event_work(event, RECORD, &work));
}
API cuGraphExecEventWaitNodeSetEvent(Executable *executable, Node *node, Event *event) {
  ENTER
  CHANGE(IN(executable, node), event_work(event, WAIT, &work));
}
API cuGraphExecChildGraphNodeSetParams(Executable *executable, Node *node, Graph *child) {
  ENTER
  CHANGE(IN(executable, node), child_work(child, &work));
}
API cuGraphExecNodeSetParams(Executable *executable, Node *node, NodeParameters *given) {
  ENTER
  CHANGE(IN(executable, node), any_work(given, &work));
}
