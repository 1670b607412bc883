/* Executable graphs: they are made from a graph, launched into a stream, and updated from another graph. */
#include "stub.h"

struct Executable {
  unsigned magic;
  Graph *graph;
  uint64_t flags;
  int references; /* the caller's, and one of each operation of a replay */
  Operation *last; /* the end of the last replay: replays of one executable do not overlap */
};

Node *copy_in(Executable *executable, Node *node) {
  if (!alive(executable, EXECUTABLE)) return NULL;
  for (size_t i = 0; i < executable->graph->count; i++)
    if (executable->graph->nodes[i]->origin == node) return executable->graph->nodes[i];
  return NULL;
}

void release_executable(Executable *executable) {
  if (--executable->references) return;
  free_graph(executable->graph);
  release(executable->last);
  executable->last = NULL;
}

static CUresult instantiate(Executable **executable, Graph *graph, uint64_t flags) {
  if (!executable || !alive(graph, GRAPH) || flags & ~(uint64_t)15) return INVALID_VALUE;
  lock();
  if (!acyclic(graph)) RETURN(INVALID_VALUE);
  Executable *made = calloc(1, sizeof *made);
  made->magic = EXECUTABLE;
  made->graph = clone_graph(graph);
  made->flags = flags;
  made->references = 1;
  *executable = made;
  RETURN(OK);
}

API cuGraphInstantiateWithFlags(Executable **executable, Graph *graph, unsigned long long flags) {
  ENTER
  return instantiate(executable, graph, flags);
}

typedef struct { uint64_t flags; void *stream; Node *error; int result; } InstantiateParameters;

API cuGraphInstantiateWithParams(Executable **executable, Graph *graph, InstantiateParameters *given) {
  ENTER
  if (!given) return INVALID_VALUE;
  CUresult code = instantiate(executable, graph, given->flags);
  given->error = NULL;
  given->result = code ? 1 : 0;
  return code;
}

API cuGraphExecDestroy(Executable *executable) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(executable, EXECUTABLE)) return INVALID_VALUE;
  lock();
  executable->magic = 0;
  release_executable(executable);
  unlock();
  run_destructors();
  return OK;
}

API cuGraphExecGetFlags(Executable *executable, uint64_t *flags) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(executable, EXECUTABLE) || !flags) return INVALID_VALUE;
  *flags = executable->flags;
  return OK;
}

/* Queue the nodes of a graph after an operation; return one that ends after all of them. */
static Operation *replay(Graph *graph, Context *context, Operation *start, Executable *executable) {
  Operation **made = calloc(graph->count + 1, sizeof *made), **before = malloc((graph->count + 2) * sizeof *before);
  size_t left = graph->count;
  while (left)
    for (size_t i = 0; i < graph->count; i++) {
      Node *node = graph->nodes[i];
      size_t count = 0;
      int ready = !made[i];
      for (size_t j = 0; j < node->before_size && ready; j++) {
        Operation *one = made[place_of(graph, node->before[j])];
        if (!one) ready = 0;
        else before[count++] = one;
      }
      if (!ready) continue;
      before[count++] = start;
      Work work = copy_work(node->enabled ? &node->work : &(Work){.kind = NOTHING});
      Context *its = work.context ? work.context : context;
      executable->references++;
      if (work.kind == CHILD) {
        Graph *child = work.as.child;
        Operation *begin = queue_after(&(Work){.kind = NOTHING, .context = its}, its, before, count, executable);
        made[i] = replay(child, its, begin, executable);
        release(begin);
        free_graph(child);
      } else if (work.kind == WAIT || work.kind == RECORD) {
        Event *event = work.as.event;
        int kind = work.kind;
        if (kind == WAIT && alive(event, EVENT) && event->recorded) before[count++] = event->recorded;
        work.kind = NOTHING;
        made[i] = queue_after(&work, its, before, count, executable);
        if (kind == RECORD && alive(event, EVENT)) {
          event_forgets(event);
          release(event->recorded);
          event->recorded = retain(made[i]);
        }
      } else made[i] = queue_after(&work, its, before, count, executable);
      left--;
    }
  size_t count = 0;
  for (; count < graph->count; count++) before[count] = made[count];
  before[count++] = start;
  executable->references++;
  Operation *end = queue_after(&(Work){.kind = NOTHING, .context = context}, context, before, count, executable);
  for (size_t i = 0; i < graph->count; i++) release(made[i]);
  free(made);
  free(before);
  return end;
}

API cuGraphLaunch(Executable *executable, void *handle) {
  ENTER
  Stream *stream;
  if (!alive(executable, EXECUTABLE)) return INVALID_VALUE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (stream->capture) { /* becomes a child */
    Work work = {.kind = CHILD, .context = stream->context, .as.child = clone_graph(executable->graph)};
    RETURN(capture_work(stream, &work, NULL));
  }
  if (stream == stream->context->legacy && any_capture() && (code = legacy_used(stream->context))) RETURN(code);
  Work work = {.kind = NOTHING, .context = stream->context};
  Operation *start = queue(&work, stream);
  if (executable->last && !executable->last->done) {
    Operation *before[2] = {start, executable->last};
    Operation *later = queue_after(&(Work){.kind = NOTHING, .context = stream->context}, stream->context, before, 2,
                                   NULL);
    release(start);
    start = later;
  }
  Operation *end = replay(executable->graph, stream->context, start, executable);
  release(start);
  release(stream->last);
  stream->last = end;
  release(executable->last);
  executable->last = retain(end);
  counts.graph_launches++;
  unlock();
  run_destructors();
  return OK;
}

API cuGraphUpload(Executable *executable, void *stream) {
  ENTER
  return alive(executable, EXECUTABLE) ? OK : INVALID_VALUE;
}

typedef struct { int result; Node *error, *from; } UpdateResult;
enum { UPDATED, ERROR, TOPOLOGY_CHANGED, TYPE_CHANGED, FUNCTION_CHANGED, PARAMETERS_CHANGED };

static int compare(Graph *old, Graph *new, UpdateResult *result) {
  if (old->count != new->count) return TOPOLOGY_CHANGED;
  for (size_t i = 0; i < new->count; i++) {
    Node *a = old->nodes[i], *b = new->nodes[i];
    result->error = b;
    if (a->work.kind != b->work.kind) return TYPE_CHANGED;
    if (a->before_size != b->before_size) return TOPOLOGY_CHANGED;
    for (size_t j = 0; j < b->before_size; j++) {
      size_t place = place_of(new, b->before[j]), k = 0;
      while (k < a->before_size && place_of(old, a->before[k]) != place) k++;
      if (k == a->before_size) {
        result->from = b->before[j];
        return TOPOLOGY_CHANGED;
      }
    }
    if (a->work.kind == ALLOCATE || a->work.kind == RELEASE) return PARAMETERS_CHANGED;
    if (a->work.kind == COPY && (a->work.context != b->work.context)) return PARAMETERS_CHANGED;
    if (a->work.kind == CHILD) {
      int found = compare(a->work.as.child, b->work.as.child, result);
      if (found) return found;
    }
  }
  result->error = NULL;
  return UPDATED;
}

API cuGraphExecUpdate_v2(Executable *executable, Graph *graph, UpdateResult *result) {
  ENTER
  if (!alive(executable, EXECUTABLE) || !alive(graph, GRAPH) || !result) return INVALID_VALUE;
  lock();
  *result = (UpdateResult){0};
  result->result = compare(executable->graph, graph, result);
  if (result->result) RETURN(GRAPH_EXEC_UPDATE_FAILURE);
  for (size_t i = 0; i < graph->count; i++) {
    Node *node = executable->graph->nodes[i];
    free_work(&node->work);
    node->work = copy_work(&graph->nodes[i]->work);
    node->origin = graph->nodes[i];
  }
  RETURN(OK);
}

API cuGraphNodeSetEnabled(Executable *executable, Node *node, unsigned enabled) {
  ENTER_AS(NO_CONTEXT)
  Node *found = copy_in(executable, node);
  if (!found || (found->work.kind != LAUNCH && found->work.kind != COPY &&
                 found->work.kind != SET)) return INVALID_VALUE;
  found->enabled = enabled != 0;
  return OK;
}

API cuGraphNodeGetEnabled(Executable *executable, Node *node, unsigned *enabled) {
  ENTER_AS(NO_CONTEXT)
  Node *found = copy_in(executable, node);
  if (!found || !enabled) return INVALID_VALUE;
  *enabled = found->enabled;
  return OK;
}

API cuGraphExecGetId(Executable *executable, unsigned *id) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(executable, EXECUTABLE) || !id) return INVALID_VALUE;
  *id = (unsigned)executable->graph->id;
  return OK;
}

API cuDeviceGraphMemTrim(CUdevice device) { ENTER_AS(NO_CONTEXT) return OK; }
API cuDeviceGetGraphMemAttribute(CUdevice device, int attribute, uint64_t *value) {
  ENTER_AS(NO_CONTEXT)
  if (!value || attribute < 0 || attribute > 3) return INVALID_VALUE;
  *value = 0;
  return OK;
}
API cuDeviceSetGraphMemAttribute(CUdevice device, int attribute, const uint64_t *value) {
  ENTER_AS(NO_CONTEXT)
  return value && !*value ? OK : INVALID_VALUE;
}
