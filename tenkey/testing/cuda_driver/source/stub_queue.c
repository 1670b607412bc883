/* The work of the device: operations with what must be done before them, and the order in which they run.

   Note [Adversarial order]
   An operation waits for the one before it in its stream, for those that events name,
       and for those of the legacy default
   stream. Nothing else orders it. With deferred work, operations run when the host waits for one of them, and each wait
   chooses between three orders, all of which a device may show: only what is needed, everything else first, or any
   operation that can run. Work that lacks an event therefore meets memory that is not written yet, or not any more. */
#include "stub.h"

enum { MOST = 4096 }; /* queued operations; a launch beyond it waits for older work, as with the driver's queue */

static Operation **ready;
static size_t ready_count, ready_room, queued_count;
static int running;
static pthread_t runner;
static unsigned long long epoch, numbers;
static struct Destructor { HostFunction function; void *data; struct Destructor *next; } *destructors,
    **last_destructor = &destructors;

/* ---- what work holds */
Work copy_work(const Work *work) {
  Work copy = *work;
  if (work->kind == LAUNCH && work->as.launch.size) {
    copy.as.launch.parameters = malloc(work->as.launch.size);
    memcpy(copy.as.launch.parameters, work->as.launch.parameters, work->as.launch.size);
  }
  if (work->kind == ALLOCATE || work->kind == RELEASE) node_uses(work->as.block, 1);
  if (work->kind == CHILD) {
    copy.as.child = clone_graph(work->as.child);
    copy.as.child->owned = 1;
  }
  return copy;
}

void free_work(Work *work) {
  if (work->kind == LAUNCH) free(work->as.launch.parameters);
  if (work->kind == CHILD) free_graph(work->as.child);
  if (work->kind == ALLOCATE || work->kind == RELEASE) node_uses(work->as.block, -1);
  work->kind = NOTHING;
}

void defer_destructor(HostFunction function, void *data) {
  struct Destructor *made = malloc(sizeof *made);
  *made = (struct Destructor){function, data, NULL};
  *last_destructor = made;
  last_destructor = &made->next;
}

void run_destructors(void) { /* without the mutex */
  while (destructors) {
    lock();
    struct Destructor *first = destructors;
    if (first) {
      destructors = first->next;
      if (!destructors) last_destructor = &destructors;
    }
    unlock();
    if (!first) return;
    int before = in_user_code;
    in_user_code = 2;
    first->function(first->data);
    in_user_code = before;
    free(first);
  }
}

/* ---- operations */
Operation *retain(Operation *operation) {
  if (operation) operation->references++;
  return operation;
}

void release(Operation *operation) {
  if (!operation || --operation->references) return;
  for (size_t i = 0; i < operation->before_size; i++) release(operation->before[i]);
  free(operation->before);
  free(operation->after);
  free(operation->staged);
  free_work(&operation->work);
  free(operation);
}

static void make_ready(Operation *operation) {
  if (ready_count == ready_room) {
    ready_room = ready_room ? 2 * ready_room : 64;
    ready = realloc(ready, ready_room * sizeof *ready);
  }
  operation->ready_at = ready_count;
  ready[ready_count++] = operation;
}

static void not_ready(Operation *operation) {
  Operation *last = ready[--ready_count];
  ready[operation->ready_at] = last;
  last->ready_at = operation->ready_at;
  operation->ready_at = -1;
}

static void depend(Operation *operation, Operation *before) {
  if (!before || before->done || before == operation) return;
  operation->before = realloc(operation->before, (operation->before_size + 1) * sizeof *operation->before);
  operation->before[operation->before_size++] = retain(before);
  if (before->after_size == before->after_room) {
    before->after_room = before->after_room ? 2 * before->after_room : 2;
    before->after = realloc(before->after, before->after_room * sizeof *before->after);
  }
  before->after[before->after_size++] = operation;
  operation->waiting++;
}

static Operation *new_operation(Work *work, Context *context) {
  Operation *operation = calloc(1, sizeof *operation);
  operation->work = *work; /* takes the parameters */
  operation->context = context;
  operation->references = 2; /* the caller's and the queue's */
  operation->number = ++numbers;
  operation->queued = clock_now();
  operation->ready_at = -1;
  queued_count++;
  if (work->kind == ALLOCATE || work->kind == RELEASE) {
    work->as.block->pending++;
    if (work->as.block->kind == GRAPH_MEMORY) work->as.block->held = work->kind == ALLOCATE;
  }
  return operation;
}

static Operation *enqueue(Operation *operation) {
  if (!operation->waiting) make_ready(operation);
  if (!settings.deferred) run_eagerly();
  else
    while (queued_count > MOST && ready_count && !running) {
      Operation *oldest = ready[0];
      for (size_t i = 1; i < ready_count; i++)
        if (ready[i]->number < oldest->number) oldest = ready[i];
      finish(oldest);
    }
  return operation;
}

Operation *queue(Work *work, Stream *stream) {
  Context *context = stream->context;
  Operation *operation = new_operation(work, context);
  operation->stream = stream;
  depend(operation, stream->last);
  if (stream == context->legacy) {
    for (Stream *other = context->streams; other; other = other->next)
      if (!(other->flags & 1)) depend(operation, other->last);
  } else if (!(stream->flags & 1)) depend(operation, context->legacy->last);
  release(stream->last);
  stream->last = retain(operation);
  return enqueue(operation);
}

Operation *queue_after(Work *work, Context *context, Operation **before, size_t count, Executable *executable) {
  Operation *operation = new_operation(work, context);
  operation->executable = executable;
  for (size_t i = 0; i < count; i++) depend(operation, before[i]);
  return enqueue(operation);
}

/* ---- what they do */
static int bad(Operation *operation, CUdeviceptr address, size_t bytes, const char *what) {
  char text[600];
  if (!bytes || !describe_range(address, bytes, text, sizeof text)) return 0;
  fail(operation->context, ILLEGAL_ADDRESS, "%s of %zu bytes at address 0x%llx %s", what, bytes, address, text);
  return 1;
}

static size_t extent(size_t pitch, size_t slice, const Copy *copy) {
  return copy->width && copy->height && copy->depth
    ? (copy->depth - 1) * slice + (copy->height - 1) * pitch + copy->width : 0;
}

static void run_copy(Operation *operation) {
  Copy *copy = &operation->work.as.copy;
  CUdeviceptr from = operation->staged ? (CUdeviceptr)operation->staged : copy->from;
  if (bad(operation, copy->to, extent(copy->to_pitch, copy->to_slice, copy), "the target of a copy")) return;
  if (!operation->staged && bad(operation, copy->from, extent(copy->from_pitch, copy->from_slice, copy),
                                "the source of a copy"))
    return;
  if (copy->height == 1 && copy->depth == 1 && from < copy->to + copy->width && copy->to < from + copy->width) {
    fail(operation->context, ILLEGAL_ADDRESS, "the source of a copy of %zu bytes at address 0x%llx overlaps its target "
         "at 0x%llx, for which the result is undefined", copy->width, from, copy->to);
    return;
  }
  for (size_t plane = 0; plane < copy->depth; plane++)
    for (size_t row = 0; row < copy->height; row++)
      memcpy((char *)copy->to + plane * copy->to_slice + row * copy->to_pitch,
             (char *)from + plane * copy->from_slice + row * copy->from_pitch, copy->width);
}

static void run_set(Operation *operation) {
  Set *set = &operation->work.as.set;
  if (!set->width || !set->height) return;
  if (bad(operation, set->to, (set->height - 1) * set->pitch + set->width * set->element, "a memset")) return;
  for (size_t row = 0; row < set->height; row++) {
    char *at = (char *)set->to + row * set->pitch;
    if (set->element == 1) memset(at, set->value, set->width);
    else
      for (size_t i = 0; i < set->width; i++) memcpy(at + i * set->element, &set->value, set->element);
  }
}

static void run_launch(Operation *operation) {
  Launch *launch = &operation->work.as.launch;
  if (!settings.execute || !callbacks.launch) return;
  unsigned sizes[7] = {launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0], launch->block[1],
                       launch->block[2], launch->shared};
  char *text = calloc(1, TEXT);
  long long id = launch->kernel->base->id;
  int device = operation->context->device;
  unlock();
  in_user_code = 1;
  int code = callbacks.launch(id, sizes, launch->parameters, launch->size, device, text, TEXT);
  in_user_code = 0;
  lock();
  if (code) fail(operation->context, code, "%s", text);
  free(text);
}

static int host_code; /* what a host function that stands for a kernel of a library reports */
static char host_text[TEXT];

CONTROL void stub_host_failed(int code, const char *text) {
  host_code = code;
  snprintf(host_text, sizeof host_text, "%s", text);
}

static void run_host(Operation *operation) {
  HostFunction function = operation->work.as.host.function;
  void *data = operation->work.as.host.data, *stream = operation->work.as.host.stream;
  int with_status = operation->work.as.host.callback;
  CUresult error = operation->context->error;
  if (error && !with_status) return; /* host functions are not called after an error, callbacks are */
  counts.host_functions++;
  unlock();
  in_user_code = 2;
  if (with_status) ((void (*)(void *, CUresult, void *))function)(stream, error, data);
  else function(data);
  in_user_code = 0;
  lock();
  if (host_code) fail(operation->context, host_code, "%s", host_text);
  host_code = 0;
}

/* How long a device would take, in microseconds: rough figures, so that differences of events are plausible. */
static double duration(const Operation *operation) {
  const Work *work = &operation->work;
  switch (work->kind) {
  case COPY: return 1.5 + (double)work->as.copy.width * work->as.copy.height * work->as.copy.depth / 50e3;
  case SET: return 1.5 + (double)work->as.set.width * work->as.set.element * work->as.set.height / 2e6;
  case LAUNCH: {
    double threads = 1;
    for (int i = 0; i < 3; i++) threads *= (double)work->as.launch.grid[i] * work->as.launch.block[i];
    return 2 + threads / (132 * 2048) * 3;
  }
  case HOST: return 5;
  default: return 0.1;
  }
}

static void execute(Operation *operation) { /* the mutex is held; it is given up while code of the user runs */
  not_ready(operation);
  Context *context = operation->context;
  operation->running = running = 1;
  runner = pthread_self();
  operation->begin = operation->queued;
  for (size_t i = 0; i < operation->before_size; i++)
    if (operation->before[i]->end > operation->begin) operation->begin = operation->before[i]->end;
  operation->end = operation->begin + duration(operation);
  int kind = operation->work.kind;
  if (kind == HOST) run_host(operation);
  else if (kind == ALLOCATE) block_allocated(operation->work.as.block);
  else if (kind == RELEASE) block_released(operation->work.as.block);
  else if (!context->error) { /* after an error, the rest of the context's work is not done */
    if (kind == COPY) run_copy(operation);
    else if (kind == SET) run_set(operation);
    else if (kind == LAUNCH) run_launch(operation);
  }
  running = 0;
  operation->done = 1;
  queued_count--;
  for (size_t i = 0; i < operation->after_size; i++)
    if (!--operation->after[i]->waiting) make_ready(operation->after[i]);
  operation->after_size = 0;
  for (size_t i = 0; i < operation->before_size; i++) release(operation->before[i]);
  operation->before_size = 0;
  if (operation->executable) release_executable(operation->executable);
  operation->executable = NULL;
  release(operation);
  progressed();
}

static void want(Operation *operation) { /* it and all that it waits for */
  Operation **pending = malloc(64 * sizeof *pending);
  size_t count = 0, room = 64;
  pending[count++] = operation;
  while (count) {
    Operation *next = pending[--count];
    if (next->done || next->wanted == epoch) continue;
    next->wanted = epoch;
    for (size_t i = 0; i < next->before_size; i++) {
      if (count == room) pending = realloc(pending, (room *= 2) * sizeof *pending);
      pending[count++] = next->before[i];
    }
  }
  free(pending);
}

static Operation *choose(int order) { /* 0: what is needed, 1: all else first, 2: any; see Note [Adversarial order] */
  size_t chosen = 0, matching = 0;
  for (size_t i = 0; i < ready_count; i++) {
    int needed = ready[i]->wanted == epoch;
    if (order == 2 || needed == (order == 0)) {
      matching++;
      if (random_number() % matching == 0) chosen = i;
    }
  }
  if (!matching) chosen = random_number() % ready_count;
  return ready[chosen];
}

static int inside(void) { return running && pthread_equal(runner, pthread_self()); }

void finish(Operation *operation) {
  if (!operation || operation->done || inside()) return;
  retain(operation);
  int order = settings.deferred ? (int)(random_number() % 3) : 0;
  while (!operation->done) {
    if (running) {
      wait_for_progress();
      continue;
    }
    if (!ready_count) break; /* cannot happen: what waits, waits for something ready */
    epoch++;
    want(operation);
    execute(choose(order));
  }
  release(operation);
}

void run_eagerly(void) {
  if (inside()) return; /* the one that runs now goes on with it */
  while (ready_count || running) {
    if (running) wait_for_progress();
    else {
      size_t first = 0;
      for (size_t i = 1; i < ready_count; i++)
        if (ready[i]->number < ready[first]->number) first = i;
      execute(ready[first]);
    }
  }
}

void finish_all(void) {
  if (inside()) return;
  epoch++;
  while (ready_count || running) {
    if (running) wait_for_progress();
    else execute(choose(2));
  }
}

void finish_context(Context *context) {
  for (;;) {
    Operation *pending = NULL;
    if (context->legacy->last && !context->legacy->last->done) pending = context->legacy->last;
    for (Stream *stream = context->streams; stream && !pending; stream = stream->next)
      if (stream->last && !stream->last->done) pending = stream->last;
    if (!pending || inside()) break;
    finish(pending);
  }
  if (settings.deferred && random_number() % 2) finish_all(); /* work of other contexts may be done, too */
}

/* Whether an operation is done. Each question lets some work be done, so that a loop of questions ends. */
int poll(Operation *operation) {
  if (!operation || operation->done) return 1;
  if (!inside() && !running && ready_count) {
    epoch++;
    want(operation);
    execute(choose(random_number() % 2 ? 0 : 2));
  }
  return 0;
}

int queue_has_work(void) { return queued_count && !inside(); }
