/* Capture of streams into graphs.

   Note [What a capture follows]
   Each stream of a capture has a frontier: the nodes that its next node depends on. Recording an event saves the
   frontier, waiting for the event adds it to that of another stream, which joins the capture. At the end, the frontiers
   of all streams must lead to that of the stream in which the capture began; else work would be left unjoined. */
#include "stub.h"

struct Capture {
  unsigned long long id;
  Graph *graph;
  Stream *origin;
  int mode, invalid, given; /* given: the graph belongs to the caller */
  pthread_t thread;
  Capture *next;
};

enum { GLOBAL_MODE, THREAD_LOCAL_MODE, RELAXED_MODE };

static Capture *captures;
static __thread int thread_mode;

int any_capture(void) { return captures != NULL; }

static void set_frontier(Node ***frontier, size_t *size, Node **nodes, size_t count) {
  Node **copy = count ? malloc(count * sizeof *copy) : NULL;
  if (count) memcpy(copy, nodes, count * sizeof *copy);
  free(*frontier);
  *frontier = copy;
  *size = count;
}

static void add_to_frontier(Stream *stream, Node **nodes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t j = 0;
    while (j < stream->frontier_size && stream->frontier[j] != nodes[i]) j++;
    if (j < stream->frontier_size) continue;
    stream->frontier = realloc(stream->frontier, (stream->frontier_size + 1) * sizeof *stream->frontier);
    stream->frontier[stream->frontier_size++] = nodes[i];
  }
}

CUresult invalidate(Capture *capture, CUresult code) {
  for (Capture *found = captures; found; found = found->next)
    if (found == capture) found->invalid = 1;
  return code;
}

/* Calls that may wait or change memory are not permitted while this thread captures, or any one in the global mode. */
CUresult unsafe_call_locked(void) {
  CUresult code = OK;
  if (thread_mode == RELAXED_MODE) return OK;
  for (Capture *capture = captures; capture; capture = capture->next) {
    int mine = pthread_equal(capture->thread, pthread_self()) && capture->mode != RELAXED_MODE;
    int others = thread_mode == GLOBAL_MODE && capture->mode == GLOBAL_MODE;
    if (mine || others) {
      capture->invalid = 1;
      code = CAPTURE_UNSUPPORTED;
    }
  }
  return code;
}

CUresult unsafe_call(void) {
  if (!captures) return OK;
  lock();
  RETURN(unsafe_call_locked());
}

/* The legacy default stream waits for all blocking streams, and so for those that are captured. */
CUresult legacy_used(Context *context) {
  CUresult code = OK;
  for (Stream *stream = context->streams; stream; stream = stream->next)
    if (stream->capture && !(stream->flags & 1)) code = invalidate(stream->capture, CAPTURE_IMPLICIT);
  return code;
}

CUresult capture_work(Stream *stream, Work *work, Node **made) {
  if (stream->capture->invalid) return CAPTURE_INVALIDATED;
  Node *node = add_node(stream->capture->graph, work, stream->frontier, stream->frontier_size);
  set_frontier(&stream->frontier, &stream->frontier_size, &node, 1);
  if (made) *made = node;
  free_work(work); /* the node has a copy */
  return OK;
}

void event_forgets(Event *event) {
  event->capture = NULL;
  set_frontier(&event->frontier, &event->frontier_size, NULL, 0);
}

CUresult capture_record(Stream *stream, Event *event) {
  if (stream->capture->invalid) return CAPTURE_INVALIDATED;
  event->capture = stream->capture;
  event->capture_id = stream->capture->id;
  set_frontier(&event->frontier, &event->frontier_size, stream->frontier, stream->frontier_size);
  return OK;
}

static int ended(const Event *event) {
  for (Capture *capture = captures; capture; capture = capture->next)
    if (capture == event->capture && capture->id == event->capture_id) return 0;
  return 1;
}

CUresult capture_wait(Stream *stream, Event *event) {
  if (event->capture && ended(event)) return CAPTURED_EVENT;
  if (stream->capture && stream->capture->invalid) return CAPTURE_INVALIDATED;
  if (!event->capture) { /* the stream is captured and the event is not */
    if (!event->recorded) return OK;
    return invalidate(stream->capture, CAPTURE_ISOLATION);
  }
  if (event->capture->invalid) return CAPTURE_INVALIDATED;
  if (!stream->capture) {
    if (stream == stream->context->legacy) return invalidate(event->capture, CAPTURE_IMPLICIT);
    stream->capture = event->capture;
    set_frontier(&stream->frontier, &stream->frontier_size, event->frontier, event->frontier_size);
    return OK;
  }
  if (stream->capture != event->capture) {
    invalidate(stream->capture, 0);
    return invalidate(event->capture, CAPTURE_MERGE);
  }
  add_to_frontier(stream, event->frontier, event->frontier_size);
  return OK;
}

static void leave(Capture *capture) {
  for (Context *context = contexts; context; context = context->next)
    for (Stream *stream = context->streams; stream; stream = stream->next)
      if (stream->capture == capture) {
        stream->capture = NULL;
        set_frontier(&stream->frontier, &stream->frontier_size, NULL, 0);
      }
  for (Capture **at = &captures; *at; at = &(*at)->next)
    if (*at == capture) {
      *at = capture->next;
      break;
    }
}

void reset_capture(void) {
  while (captures) {
    Capture *capture = captures;
    leave(capture);
    if (!capture->given) free_graph(capture->graph);
    free(capture);
  }
}

static CUresult begin(void *handle, int mode, Graph *graph, Node **before, size_t count) {
  Stream *stream;
  if (mode < 0 || mode > RELAXED_MODE) return INVALID_VALUE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (stream == stream->context->legacy) RETURN(CAPTURE_UNSUPPORTED);
  if (stream->capture) RETURN(ILLEGAL_STATE);
  Capture *capture = calloc(1, sizeof *capture);
  capture->id = next_id();
  capture->given = graph != NULL;
  capture->graph = graph ? graph : new_graph();
  capture->origin = stream;
  capture->mode = mode;
  capture->thread = pthread_self();
  capture->next = captures;
  captures = capture;
  stream->capture = capture;
  set_frontier(&stream->frontier, &stream->frontier_size, before, count);
  RETURN(OK);
}

API cuStreamBeginCapture_v2(void *stream, int mode) { ENTER return begin(stream, mode, NULL, NULL, 0); }

API cuStreamBeginCaptureToGraph(void *stream, Graph *graph, Node **before, const void *data, size_t count, int mode) {
  ENTER
  if (!alive(graph, GRAPH) || (count && !before)) return INVALID_VALUE;
  return begin(stream, mode, graph, before, count);
}

static int reaches(Node *node, Node *wanted) {
  if (node == wanted) return 1;
  for (size_t i = 0; i < node->before_size; i++)
    if (reaches(node->before[i], wanted)) return 1;
  return 0;
}

static int joined(const Capture *capture) {
  for (Context *context = contexts; context; context = context->next)
    for (Stream *stream = context->streams; stream; stream = stream->next)
      if (stream->capture == capture && stream != capture->origin)
        for (size_t i = 0; i < stream->frontier_size; i++) {
          int found = 0;
          for (size_t j = 0; j < capture->origin->frontier_size && !found; j++)
            found = reaches(capture->origin->frontier[j], stream->frontier[i]);
          if (!found) return 0;
        }
  return 1;
}

API cuStreamEndCapture(void *handle, Graph **graph) {
  ENTER
  Stream *stream;
  if (!graph) return INVALID_VALUE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  Capture *capture = stream->capture;
  *graph = NULL;
  if (!capture) RETURN(ILLEGAL_STATE);
  if (capture->mode != RELAXED_MODE && !pthread_equal(capture->thread, pthread_self())) RETURN(invalidate(capture,
      CAPTURE_WRONG_THREAD));
  if (capture->origin != stream) RETURN(invalidate(capture, CAPTURE_UNMATCHED));
  if (capture->invalid) code = CAPTURE_INVALIDATED;
  else if (!joined(capture)) code = CAPTURE_UNJOINED;
  leave(capture);
  if (!code) *graph = capture->graph;
  else if (!capture->given) free_graph(capture->graph);
  free(capture);
  RETURN(code);
}

API cuStreamIsCapturing(void *handle, int *status) {
  ENTER
  Stream *stream;
  if (!status) return INVALID_VALUE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (stream == stream->context->legacy)
    for (Stream *other = stream->context->streams; other; other = other->next)
      if (other->capture && !(other->flags & 1)) RETURN(CAPTURE_IMPLICIT); /* only a question: the capture goes on */
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  RETURN(OK);
}

static CUresult info(void *handle, int *status, unsigned long long *id, Graph **graph, Node ***before, size_t *count) {
  Stream *stream;
  if (!status) return INVALID_VALUE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  *status = !stream->capture ? 0 : stream->capture->invalid ? 2 : 1;
  if (*status == 1) {
    if (id) *id = stream->capture->id;
    if (graph) *graph = stream->capture->graph;
    if (before) *before = stream->frontier;
    if (count) *count = stream->frontier_size;
  }
  RETURN(OK);
}

API cuStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, Graph **graph, Node ***before,
                              size_t *count) {
  ENTER
  return info(stream, status, id, graph, before, count);
}
API cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, Graph **graph, Node ***before,
                              const void **data, size_t *count) {
  ENTER
  if (data) *data = NULL;
  return info(stream, status, id, graph, before, count);
}

static CUresult update(void *handle, Node **nodes, size_t count, unsigned flags) {
  Stream *stream;
  if (flags > 1 || (count && !nodes)) return INVALID_VALUE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (!stream->capture) RETURN(ILLEGAL_STATE);
  for (size_t i = 0; i < count; i++)
    if (!alive(nodes[i], NODE) || nodes[i]->graph != stream->capture->graph) RETURN(INVALID_VALUE);
  if (flags == 1) set_frontier(&stream->frontier, &stream->frontier_size, nodes, count);
  else add_to_frontier(stream, nodes, count);
  RETURN(OK);
}

API cuStreamUpdateCaptureDependencies(void *stream, Node **nodes, size_t count, unsigned flags) {
  ENTER
  return update(stream, nodes, count, flags);
}
API cuStreamUpdateCaptureDependencies_v2(void *stream, Node **nodes, const void *data, size_t count, unsigned flags) {
  ENTER
  return update(stream, nodes, count, flags);
}

API cuThreadExchangeStreamCaptureMode(int *mode) {
  ENTER_AS(NO_CONTEXT)
  if (!mode || *mode < 0 || *mode > RELAXED_MODE) return INVALID_VALUE;
  int before = thread_mode;
  thread_mode = *mode;
  *mode = before;
  return OK;
}
