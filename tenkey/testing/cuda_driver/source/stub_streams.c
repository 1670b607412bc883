/* Streams and events. */
#include "stub.h"

static __thread Stream *own[MAX_DEVICES]; /* the per-thread default streams of this thread, by device */

static Stream *new_stream(Context *context, unsigned flags, int priority) {
  Stream *stream = calloc(1, sizeof *stream);
  stream->magic = STREAM;
  stream->context = context;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = next_id();
  stream->next = context->streams;
  return context->streams = stream;
}

CUresult find_stream(void *handle, Stream **stream) {
  Context *context = current_context();
  if ((uintptr_t)handle > 2) {
    if (!alive(handle, STREAM)) return INVALID_HANDLE;
    *stream = handle;
    if ((*stream)->context->destroyed) return CONTEXT_IS_DESTROYED;
    return OK;
  }
  if (!context) return INVALID_CONTEXT;
  if ((uintptr_t)handle < 2) *stream = context->legacy;
  else {
    Stream **mine = &own[context->device];
    if (!*mine || (*mine)->magic != STREAM || (*mine)->context != context) {
      *mine = new_stream(context, 0, 0);
      (*mine)->per_thread = 1;
    }
    *stream = *mine;
  }
  return OK;
}

/* Queue work, or record it in the graph that the stream is captured in. */
CUresult submit(Work *work, void *handle, Operation **made, Node **node) {
  Stream *stream;
  CUresult code = find_stream(handle, &stream);
  if (made) *made = NULL;
  if (code) return code;
  work->context = stream->context;
  if (stream->capture) return capture_work(stream, work, node);
  if (stream == stream->context->legacy && any_capture()) {
    code = legacy_used(stream->context);
    if (code) return code;
  }
  Operation *operation = queue(work, stream);
  if (made) *made = operation;
  else release(operation);
  return OK;
}

static void sweep(Context *context) { /* streams that are destroyed go when their work is done */
  for (Stream **at = &context->streams; *at;) {
    Stream *stream = *at;
    if (stream->magic == STREAM || (stream->last && !stream->last->done)) {
      at = &stream->next;
      continue;
    }
    *at = stream->next;
    release(stream->last);
    stream->last = NULL; /* the structure stays: a use of the handle is an error code, not a crash */
  }
}

void reset_streams(Context *context, int destroy) {
  for (Stream *stream = context->streams; stream; stream = stream->next) {
    stream->capture = NULL;
    free(stream->frontier);
    stream->frontier = NULL;
    stream->frontier_size = 0;
    if (destroy) stream->magic = 0;
  }
  sweep(context);
}

static CUresult create(Stream **stream, unsigned flags, int priority) {
  if (!stream || flags > 1) return INVALID_VALUE;
  lock();
  Context *context = current_context();
  sweep(context);
  *stream = new_stream(context, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
  counts.streams++;
  RETURN(OK);
}

API cuStreamCreate(Stream **stream, unsigned flags) { ENTER return create(stream, flags, 0); }
API cuStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
  ENTER
  return create(stream, flags, priority);
}

API cuStreamDestroy_v2(void *handle) {
  ENTER_AS(AFTER_ERROR)
  Stream *stream;
  lock();
  if ((uintptr_t)handle <= 2) RETURN(INVALID_HANDLE);
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (stream->capture) invalidate(stream->capture, CAPTURE_INVALIDATED);
  stream->capture = NULL;
  free(stream->frontier);
  stream->frontier = NULL;
  stream->frontier_size = 0;
  stream->magic = 0;
  sweep(stream->context);
  RETURN(OK);
}

API cuStreamSynchronize(void *handle) {
  ENTER
  Stream *stream;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (stream->capture) RETURN(invalidate(stream->capture, CAPTURE_UNSUPPORTED));
  if (stream == stream->context->legacy && any_capture() && (code = legacy_used(stream->context))) RETURN(code);
  counts.synchronisations++;
  finish(stream->last);
  if (stream == stream->context->legacy) /* waits for the blocking streams, too */
    for (Stream *other = stream->context->streams; other; other = other->next)
      if (!(other->flags & 1)) finish(other->last);
  code = report(stream->context);
  unlock();
  run_destructors();
  return code;
}

API cuStreamQuery(void *handle) {
  ENTER
  Stream *stream;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (stream->capture) RETURN(invalidate(stream->capture, CAPTURE_UNSUPPORTED));
  counts.queries++;
  code = poll(stream->last) ? OK : NOT_READY;
  RETURN(stream->context->error ? report(stream->context) : code);
}

#define STREAM_VALUE(statement) \
  Stream *stream; \
  lock(); \
  CUresult code = find_stream(handle, &stream); \
  if (code) RETURN(code); \
  statement; \
  RETURN(OK)

API cuStreamGetPriority(void *handle, int *value) {
  ENTER
  if (!value) return INVALID_VALUE;
  STREAM_VALUE(*value = stream->priority);
}
API cuStreamGetFlags(void *handle, unsigned *value) {
  ENTER
  if (!value) return INVALID_VALUE;
  STREAM_VALUE(*value = stream->flags);
}
API cuStreamGetId(void *handle, unsigned long long *value) {
  ENTER
  if (!value) return INVALID_VALUE;
  STREAM_VALUE(*value = stream->id);
}
API cuStreamGetCtx(void *handle, Context **value) {
  ENTER
  if (!value) return INVALID_VALUE;
  STREAM_VALUE(*value = stream->context);
}
API cuStreamGetDevice(void *handle, CUdevice *value) {
  ENTER
  if (!value) return INVALID_VALUE;
  STREAM_VALUE(*value = stream->context->device);
}
API cuStreamGetCtx_v2(void *handle, Context **value, void **green) {
  ENTER
  if (!value) return INVALID_VALUE;
  if (green) *green = NULL;
  STREAM_VALUE(*value = stream->context);
}
API cuStreamGetGreenCtx(void *handle, void **green) {
  ENTER
  if (!green) return INVALID_VALUE;
  STREAM_VALUE(*green = NULL);
}
API cuStreamGetAttribute(void *handle, int attribute, void *value) {
  ENTER
  if (!value) return INVALID_VALUE;
  STREAM_VALUE(memset(value, 0, 64); if (attribute == 8) *(int *)value = stream->priority);
}
API cuStreamSetAttribute(void *handle, int attribute, const void *value) {
  ENTER
  if (!value) return INVALID_VALUE;
  STREAM_VALUE();
}
API cuStreamCopyAttributes(void *target, void *handle) {
  ENTER
  STREAM_VALUE(code = find_stream(target, &stream); if (code) RETURN(code));
}
API cuStreamAttachMemAsync(void *handle, CUdeviceptr address, size_t bytes, unsigned flags) { ENTER STREAM_VALUE(); }

/* ---- events */
/* Destroyed events are used again late and never given back, so that a use of the handle is an error code. */
static Event *graveyard[1024];
static unsigned buried;

API cuEventCreate(Event **event, unsigned flags) {
  ENTER
  if (!event || flags > 7) return INVALID_VALUE;
  if ((flags & 4) && !(flags & 2)) return INVALID_VALUE; /* between processes: only without timing */
  if (flags & 4) return NOT_SUPPORTED;
  lock();
  unsigned place = buried % 1024;
  Event *made = graveyard[place]; /* the one that was destroyed first, if there are many */
  if (!made) made = malloc(sizeof *made);
  graveyard[place] = NULL;
  memset(made, 0, sizeof *made);
  made->magic = EVENT;
  made->context = current_context();
  made->flags = flags;
  made->id = next_id();
  counts.events++;
  *event = made;
  RETURN(OK);
}

API cuEventDestroy_v2(Event *event) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(event, EVENT)) return INVALID_HANDLE;
  lock();
  event_forgets(event);
  release(event->recorded);
  event->recorded = NULL;
  event->magic = 0;
  unsigned place = buried++ % 1024;
  if (!graveyard[place]) graveyard[place] = event; /* else a few bytes are lost */
  RETURN(OK);
}

static CUresult record(Event *event, void *handle) {
  Stream *stream;
  if (!alive(event, EVENT)) return INVALID_HANDLE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (stream->context != event->context) RETURN(INVALID_HANDLE);
  if (stream->capture) RETURN(capture_record(stream, event));
  if (stream == stream->context->legacy && any_capture() && (code = legacy_used(stream->context))) RETURN(code);
  Work work = {.kind = NOTHING, .context = stream->context};
  event_forgets(event);
  release(event->recorded);
  event->recorded = queue(&work, stream);
  counts.events_recorded++;
  RETURN(OK);
}

API cuEventRecord(Event *event, void *stream) { ENTER return record(event, stream); }

API cuEventRecordWithFlags(Event *event, void *stream, unsigned flags) {
  ENTER
  return flags > 1 ? INVALID_VALUE : record(event, stream);
}

API cuStreamWaitEvent(void *handle, Event *event, unsigned flags) {
  ENTER
  Stream *stream;
  if (!alive(event, EVENT)) return INVALID_HANDLE;
  if (flags > 1) return INVALID_VALUE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  counts.events_waited++;
  if (event->capture || stream->capture) RETURN(capture_wait(stream, event));
  if (!event->recorded || event->recorded->done) RETURN(OK);
  Operation *before[2] = {event->recorded, stream->last};
  Work work = {.kind = NOTHING, .context = stream->context};
  Operation *operation = queue_after(&work, stream->context, before, stream->last ? 2 : 1, NULL);
  release(stream->last);
  stream->last = operation;
  RETURN(OK);
}

API cuEventQuery(Event *event) {
  ENTER
  if (!alive(event, EVENT)) return INVALID_HANDLE;
  lock();
  if (event->capture) RETURN(invalidate(event->capture, CAPTURED_EVENT));
  CUresult code = any_capture() ? unsafe_call_locked() : OK;
  if (code) RETURN(code);
  counts.queries++;
  code = poll(event->recorded) ? OK : NOT_READY;
  RETURN(event->context->error ? report(event->context) : code);
}

API cuEventSynchronize(Event *event) {
  ENTER
  if (!alive(event, EVENT)) return INVALID_HANDLE;
  lock();
  if (event->capture) RETURN(invalidate(event->capture, CAPTURED_EVENT));
  CUresult code = any_capture() ? unsafe_call_locked() : OK;
  if (code) RETURN(code);
  counts.synchronisations++;
  finish(event->recorded);
  code = report(event->context);
  unlock();
  run_destructors();
  return code;
}

API cuEventElapsedTime_v2(float *milliseconds, Event *begin, Event *end) {
  ENTER
  if (!milliseconds) return INVALID_VALUE;
  if (!alive(begin, EVENT) || !alive(end, EVENT)) return INVALID_HANDLE;
  lock();
  if (begin->context != end->context || (begin->flags | end->flags) & 2) RETURN(INVALID_HANDLE);
  if (!begin->recorded || !end->recorded) RETURN(INVALID_HANDLE);
  if (!begin->recorded->done || !end->recorded->done) RETURN(NOT_READY);
  *milliseconds = (float)((end->recorded->end - begin->recorded->end) * 1e-3);
  RETURN(OK);
}
API cuEventElapsedTime(float *milliseconds, Event *begin, Event *end) {
  ENTER
  return cuEventElapsedTime_v2(milliseconds, begin, end);
}
