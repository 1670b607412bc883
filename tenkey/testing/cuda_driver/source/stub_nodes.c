/* Graphs: their nodes, and how these depend on each other. */
#include "stub.h"

Graph *new_graph(void) {
  Graph *graph = calloc(1, sizeof *graph);
  graph->magic = GRAPH;
  graph->id = next_id();
  return graph;
}

static void depend(Node *node, Node *before) {
  for (size_t i = 0; i < node->before_size; i++)
    if (node->before[i] == before) return;
  node->before = realloc(node->before, (node->before_size + 1) * sizeof *node->before);
  node->before[node->before_size++] = before;
}

Node *add_node(Graph *graph, const Work *work, Node **before, size_t count) {
  Node *node = calloc(1, sizeof *node);
  node->magic = NODE;
  node->graph = graph;
  node->work = copy_work(work);
  node->id = next_id();
  node->enabled = 1;
  for (size_t i = 0; i < count; i++) depend(node, before[i]);
  graph->nodes = realloc(graph->nodes, (graph->count + 1) * sizeof *graph->nodes);
  graph->nodes[graph->count++] = node;
  return node;
}

static void free_node(Node *node) {
  free_work(&node->work);
  free(node->before);
  free(node->addresses);
  node->before = NULL;
  node->addresses = NULL;
  node->before_size = 0;
  node->magic = 0; /* few bytes stay, so that a late use of the handle is an error code */
}

void free_graph(Graph *graph) {
  if (!graph) return;
  for (size_t i = 0; i < graph->count; i++) free_node(graph->nodes[i]);
  while (graph->objects) {
    Retained *next = graph->objects->next;
    let_go(graph->objects->object, graph->objects->count);
    free(graph->objects);
    graph->objects = next;
  }
  free(graph->nodes);
  graph->nodes = NULL;
  graph->count = 0;
  graph->magic = 0;
}

Graph *clone_graph(Graph *graph) {
  Graph *copy = new_graph();
  for (size_t i = 0; i < graph->count; i++) {
    Node *node = add_node(copy, &graph->nodes[i]->work, NULL, 0);
    node->origin = graph->nodes[i];
    node->enabled = graph->nodes[i]->enabled;
  }
  for (size_t i = 0; i < graph->count; i++)
    for (size_t j = 0; j < graph->nodes[i]->before_size; j++) depend(copy->nodes[i], copy->nodes[place_of(graph,
        graph->nodes[i]->before[j])]);
  for (Retained *held = graph->objects; held; held = held->next) retain_object(copy, held->object, held->count);
  return copy;
}

size_t place_of(const Graph *graph, const Node *node) {
  size_t place = 0;
  while (place < graph->count && graph->nodes[place] != node) place++;
  return place;
}

/* Whether the nodes can be brought into an order. */
int acyclic(const Graph *graph) {
  char *done = calloc(graph->count + 1, 1);
  size_t left = graph->count, before = 0;
  while (left && left != before) {
    before = left;
    for (size_t i = 0; i < graph->count; i++) {
      int free_now = !done[i];
      for (size_t j = 0; j < graph->nodes[i]->before_size && free_now; j++) free_now = done[place_of(graph,
          graph->nodes[i]->before[j])];
      if (free_now) {
        done[i] = 1;
        left--;
      }
    }
  }
  free(done);
  return !left;
}

API cuGraphCreate(Graph **graph, unsigned flags) {
  ENTER_AS(NO_CONTEXT)
  if (!graph || flags) return INVALID_VALUE;
  lock();
  *graph = new_graph();
  RETURN(OK);
}

API cuGraphDestroy(Graph *graph) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(graph, GRAPH) || graph->owned) return INVALID_VALUE;
  lock();
  free_graph(graph);
  unlock();
  run_destructors();
  return OK;
}

API cuGraphClone(Graph **copy, Graph *graph) {
  ENTER_AS(NO_CONTEXT)
  if (!copy || !alive(graph, GRAPH)) return INVALID_VALUE;
  lock();
  *copy = clone_graph(graph);
  RETURN(OK);
}

API cuGraphNodeFindInClone(Node **node, Node *original, Graph *clone) {
  ENTER_AS(NO_CONTEXT)
  if (!node || !alive(clone, GRAPH)) return INVALID_VALUE;
  for (size_t i = 0; i < clone->count; i++)
    if (clone->nodes[i]->origin == original) return *node = clone->nodes[i], OK;
  return INVALID_VALUE;
}

static const int types[] = {[NOTHING] = 5, [COPY] = 1, [SET] = 2, [LAUNCH] = 0, [HOST] = 3, [RECORD] = 7, [WAIT] = 6,
    [ALLOCATE] = 10, [RELEASE] = 11, [CHILD] = 4};

API cuGraphNodeGetType(Node *node, int *type) {
  ENTER_AS(NO_CONTEXT)
  if (!type || !alive(node, NODE)) return INVALID_VALUE;
  *type = types[node->work.kind];
  return OK;
}

/* ---- questions whose answer is a list: without an array, only its length; entries that are missing become NULL */
static void give(Node **nodes, size_t *count, size_t *found, Node *node) {
  if (nodes && *found < *count) nodes[*found] = node;
  (*found)++;
}

static CUresult given(Node **nodes, size_t *count, size_t found) {
  if (nodes)
    for (size_t i = found; i < *count; i++) nodes[i] = NULL;
  if (!nodes || found < *count) *count = found;
  return OK;
}

API cuGraphGetNodes(Graph *graph, Node **nodes, size_t *count) {
  ENTER_AS(NO_CONTEXT)
  size_t found = 0;
  if (!alive(graph, GRAPH) || !count) return INVALID_VALUE;
  for (size_t i = 0; i < graph->count; i++) give(nodes, count, &found, graph->nodes[i]);
  return given(nodes, count, found);
}

API cuGraphGetRootNodes(Graph *graph, Node **nodes, size_t *count) {
  ENTER_AS(NO_CONTEXT)
  size_t found = 0;
  if (!alive(graph, GRAPH) || !count) return INVALID_VALUE;
  for (size_t i = 0; i < graph->count; i++)
    if (!graph->nodes[i]->before_size) give(nodes, count, &found, graph->nodes[i]);
  return given(nodes, count, found);
}

API cuGraphGetEdges_v2(Graph *graph, Node **from, Node **to, unsigned char *data, size_t *count) {
  ENTER_AS(NO_CONTEXT)
  size_t found = 0;
  if (!alive(graph, GRAPH) || !count || !from != !to) return INVALID_VALUE;
  for (size_t i = 0; i < graph->count; i++)
    for (size_t j = 0; j < graph->nodes[i]->before_size; j++) {
      if (from && found < *count) {
        from[found] = graph->nodes[i]->before[j];
        to[found] = graph->nodes[i];
        if (data) memset(data + 8 * found, 0, 8);
      }
      found++;
    }
  if (!from || found < *count) *count = found;
  return OK;
}

API cuGraphNodeGetDependencies_v2(Node *node, Node **nodes, unsigned char *data, size_t *count) {
  ENTER_AS(NO_CONTEXT)
  size_t found = 0;
  if (!alive(node, NODE) || !count) return INVALID_VALUE;
  if (nodes && data) memset(data, 0, 8 * *count);
  for (size_t i = 0; i < node->before_size; i++) give(nodes, count, &found, node->before[i]);
  return given(nodes, count, found);
}

API cuGraphNodeGetDependentNodes_v2(Node *node, Node **nodes, unsigned char *data, size_t *count) {
  ENTER_AS(NO_CONTEXT)
  size_t found = 0;
  if (!alive(node, NODE) || !count) return INVALID_VALUE;
  if (nodes && data) memset(data, 0, 8 * *count);
  for (size_t i = 0; i < node->graph->count; i++)
    for (size_t j = 0; j < node->graph->nodes[i]->before_size; j++)
      if (node->graph->nodes[i]->before[j] == node) give(nodes, count, &found, node->graph->nodes[i]);
  return given(nodes, count, found);
}

static CUresult edges(Graph *graph, Node **from, Node **to, size_t count, int adding) {
  if (!alive(graph, GRAPH) || (count && (!from || !to))) return INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    if (!alive(from[i], NODE) || !alive(to[i], NODE) || from[i]->graph != graph || to[i]->graph != graph ||
        from[i] == to[i]) return INVALID_VALUE;
    size_t at = 0;
    while (at < to[i]->before_size && to[i]->before[at] != from[i]) at++;
    if ((at < to[i]->before_size) == adding) return INVALID_VALUE; /* it exists already, or does not */
    if (adding) depend(to[i], from[i]);
    else to[i]->before[at] = to[i]->before[--to[i]->before_size];
  }
  return OK;
}

API cuGraphAddDependencies_v2(Graph *graph, Node **from, Node **to, const void *data, size_t count) {
  ENTER_AS(NO_CONTEXT)
  return edges(graph, from, to, count, 1);
}
API cuGraphRemoveDependencies_v2(Graph *graph, Node **from, Node **to, const void *data, size_t count) {
  ENTER_AS(NO_CONTEXT)
  return edges(graph, from, to, count, 0);
}

API cuGraphDestroyNode(Node *node) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(node, NODE)) return INVALID_VALUE;
  lock();
  Graph *graph = node->graph;
  for (size_t i = 0; i < graph->count; i++)
    for (size_t j = 0; j < graph->nodes[i]->before_size; j++)
      if (graph->nodes[i]->before[j] == node) {
        graph->nodes[i]->before[j] = graph->nodes[i]->before[--graph->nodes[i]->before_size];
        j--;
      }
  size_t place = place_of(graph, node);
  memmove(graph->nodes + place, graph->nodes + place + 1, (graph->count - place - 1) * sizeof *graph->nodes);
  graph->count--;
  free_node(node);
  RETURN(OK);
}

API cuGraphGetId(Graph *graph, unsigned *id) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(graph, GRAPH)) return INVALID_VALUE;
  *id = (unsigned)graph->id;
  return OK;
}
API cuGraphNodeGetContainingGraph(Node *node, Graph **graph) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(node, NODE)) return INVALID_VALUE;
  *graph = node->graph;
  return OK;
}
API cuGraphNodeGetLocalId(Node *node, unsigned *id) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(node, NODE)) return INVALID_VALUE;
  *id = (unsigned)place_of(node->graph, node);
  return OK;
}

API cuGraphDebugDotPrint(Graph *graph, const char *path, unsigned flags) {
  ENTER_AS(NO_CONTEXT)
  const char *names[] = {[NOTHING] = "empty", [COPY] = "memcpy", [SET] = "memset", [LAUNCH] = "kernel", [HOST] = "host",
      [RECORD] = "record", [WAIT] = "wait", [ALLOCATE] = "alloc", [RELEASE] = "free", [CHILD] = "graph"};
  if (!alive(graph, GRAPH) || !path) return INVALID_VALUE;
  FILE *file = fopen(path, "w");
  if (!file) return 304;
  fprintf(file, "digraph dot {\n");
  for (size_t i = 0; i < graph->count; i++) {
    Node *node = graph->nodes[i];
    fprintf(file, "  n%zu [label=\"%s%s%s\"];\n", i, names[node->work.kind], node->work.kind == LAUNCH ? " " : "",
            node->work.kind == LAUNCH ? node->work.as.launch.kernel->name : "");
    for (size_t j = 0; j < node->before_size; j++) fprintf(file, "  n%zu -> n%zu;\n", place_of(graph, node->before[j]),
                                                           i);
  }
  fprintf(file, "}\n");
  fclose(file);
  return OK;
}

/* ---- objects of the user that live as long as a graph, and as its replays */
struct UserObject {
  unsigned magic;
  void *data;
  HostFunction destroy;
  unsigned references;
};

void let_go(UserObject *object, unsigned count) {
  object->references = count < object->references ? object->references - count : 0;
  if (object->references) return;
  object->magic = 0;
  defer_destructor(object->destroy, object->data);
}

void retain_object(Graph *graph, UserObject *object, unsigned count) {
  Retained *held = calloc(1, sizeof *held);
  held->object = object;
  held->count = count;
  held->next = graph->objects;
  graph->objects = held;
  object->references += count;
}

API cuUserObjectCreate(UserObject **object, void *data, HostFunction destroy, unsigned count, unsigned flags) {
  ENTER_AS(NO_CONTEXT)
  if (!object || !destroy || !count || flags != 1) return INVALID_VALUE;
  UserObject *made = calloc(1, sizeof *made);
  made->magic = USER_OBJECT;
  made->data = data;
  made->destroy = destroy;
  made->references = count;
  *object = made;
  return OK;
}

API cuUserObjectRetain(UserObject *object, unsigned count) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(object, USER_OBJECT) || !count) return INVALID_VALUE;
  lock();
  object->references += count;
  RETURN(OK);
}

API cuUserObjectRelease(UserObject *object, unsigned count) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(object, USER_OBJECT) || !count || count > object->references) return INVALID_VALUE;
  lock();
  let_go(object, count);
  unlock();
  run_destructors();
  return OK;
}

API cuGraphRetainUserObject(Graph *graph, UserObject *object, unsigned count, unsigned flags) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(graph, GRAPH) || !alive(object, USER_OBJECT) || !count || flags > 1) return INVALID_VALUE;
  lock();
  retain_object(graph, object, count);
  if (flags == 1) object->references -= count; /* the caller's references become the graph's */
  RETURN(OK);
}

API cuGraphReleaseUserObject(Graph *graph, UserObject *object, unsigned count) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(graph, GRAPH) || !alive(object, USER_OBJECT)) return INVALID_VALUE;
  lock();
  CUresult code = INVALID_VALUE;
  for (Retained **at = &graph->objects; *at && code; at = &(*at)->next)
    if ((*at)->object == object && (*at)->count >= count) {
      Retained *held = *at;
      held->count -= count;
      let_go(object, count);
      if (!held->count) {
        *at = held->next;
        free(held);
      }
      code = OK;
      break;
    }
  unlock();
  run_destructors();
  return code;
}
