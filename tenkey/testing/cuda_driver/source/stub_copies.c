/* Copies and memsets, and which of them the host waits for.

   Note [Which copies wait]
   As in "API synchronization behavior" of the driver's manual. A copy from pageable memory takes the bytes when it is
   called; one to pageable memory returns when it is done; copies between host memory are done by the host. Copies from
   and to pinned memory are done later in the asynchronous form and before the return in the synchronous one. Between
   device memory, the host never waits. Memsets are asynchronous except for pinned and managed memory. */
#include "stub.h"

static int on_host(int kind) { return kind == PAGEABLE || kind == PINNED || kind == REGISTERED; }

static size_t bytes_of(const Copy *copy) { return copy->width * copy->height * copy->depth; }

static size_t span(size_t pitch, size_t slice, const Copy *copy) {
  return (copy->depth - 1) * slice + (copy->height - 1) * pitch + copy->width;
}

enum { ANY, HOST_ONLY, DEVICE_ONLY };

static int matches(int kind, int wanted) {
  return wanted == ANY || (wanted == HOST_ONLY ? kind != UNKNOWN : kind != PAGEABLE);
}

static void stage(Operation *operation) { /* the bytes of pageable memory, as they are now */
  Copy *copy = &operation->work.as.copy;
  size_t bytes = span(copy->from_pitch, copy->from_slice, copy);
  operation->staged = malloc(bytes);
  memcpy(operation->staged, (void *)copy->from, bytes);
}

static CUresult run(const Copy *copy, void *stream, int synchronous, int to_wanted, int from_wanted) {
  int to, from;
  if (!bytes_of(copy)) return OK;
  if (!copy->to || !copy->from) return INVALID_VALUE;
  if (copy->height > 1 && (copy->to_pitch < copy->width || copy->from_pitch < copy->width)) return INVALID_VALUE;
  if (synchronous) {
    CUresult code = unsafe_call();
    if (code) return code;
  }
  lock();
  Context *context = current_context();
  CUresult code = check_range(copy->to, span(copy->to_pitch, copy->to_slice, copy), context, &to);
  if (!code) code = check_range(copy->from, span(copy->from_pitch, copy->from_slice, copy), context, &from);
  if (!code && (!matches(to, to_wanted) || !matches(from, from_wanted))) code = INVALID_VALUE;
  if (code) RETURN(code);
  Work work = {.kind = COPY, .context = context, .as.copy = *copy};
  Operation *operation;
  code = submit(&work, stream, &operation, NULL);
  if (code) RETURN(code);
  if (on_host(to)) *(on_host(from) ? &counts.host_to_host : &counts.device_to_host) += 1;
  else *(on_host(from) ? &counts.host_to_device : &counts.device_to_device) += 1;
  counts.copied_bytes += bytes_of(copy);
  if (!operation) RETURN(OK); /* captured */
  int waits = (on_host(to) && on_host(from)) || to == PAGEABLE || (synchronous && (on_host(to) || (on_host(from) &&
      from != PAGEABLE)));
  if (waits) {
    if (synchronous) counts.synchronisations++;
    else counts.implicit_synchronisations++;
    finish(operation);
    code = report(operation->context);
  } else if (from == PAGEABLE && !operation->done) stage(operation);
  release(operation);
  unlock();
  if (waits) run_destructors();
  return code;
}

static Copy line(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return (Copy){.to = to, .from = from, .width = bytes, .height = 1, .depth = 1};
}

#define LINE(to, from) Copy copy = line((CUdeviceptr)(to), (CUdeviceptr)(from), bytes)

API cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  ENTER
  LINE(to, from);
  return run(&copy, NULL, 1, ANY, ANY);
}
API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream) {
  ENTER
  LINE(to, from);
  return run(&copy, stream, 0, ANY, ANY);
}
API cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  ENTER
  LINE(to, from);
  return run(&copy, NULL, 1, DEVICE_ONLY, HOST_ONLY);
}
API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, void *stream) {
  ENTER
  LINE(to, from);
  return run(&copy, stream, 0, DEVICE_ONLY, HOST_ONLY);
}
API cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  ENTER
  LINE(to, from);
  return run(&copy, NULL, 1, HOST_ONLY, DEVICE_ONLY);
}
API cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, void *stream) {
  ENTER
  LINE(to, from);
  return run(&copy, stream, 0, HOST_ONLY, DEVICE_ONLY);
}
API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  ENTER
  LINE(to, from);
  return run(&copy, NULL, 1, DEVICE_ONLY, DEVICE_ONLY);
}
API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream) {
  ENTER
  LINE(to, from);
  return run(&copy, stream, 0, DEVICE_ONLY, DEVICE_ONLY);
}

static int lies_on(CUdeviceptr address, const Context *context) {
  Block *block = block_of(address);
  return !block || block->device < 0 || block->kind == MANAGED || block->device == context->device;
}

static CUresult peers(const Context *to, CUdeviceptr target, const Context *from, CUdeviceptr source) {
  if (!alive(to, CONTEXT) || !alive(from, CONTEXT)) return INVALID_CONTEXT;
  lock();
  RETURN(lies_on(target, to) && lies_on(source, from) ? OK : INVALID_VALUE);
}

API cuMemcpyPeer(CUdeviceptr to, Context *to_context, CUdeviceptr from, Context *from_context, size_t bytes) {
  ENTER
  LINE(to, from);
  CUresult code = peers(to_context, to, from_context, from);
  return code ? code : run(&copy, NULL, 1, DEVICE_ONLY, DEVICE_ONLY);
}
API cuMemcpyPeerAsync(CUdeviceptr to, Context *to_context, CUdeviceptr from, Context *from_context, size_t bytes,
                      void *stream) {
  ENTER
  LINE(to, from);
  CUresult code = peers(to_context, to, from_context, from);
  return code ? code : run(&copy, stream, 0, DEVICE_ONLY, DEVICE_ONLY);
}

/* ---- two and three dimensions */
enum { FROM_HOST = 1, FROM_DEVICE = 2, FROM_ARRAY = 3, UNIFIED = 4 };

typedef struct {
  size_t from_x, from_y;
  int from_kind;
  const void *from_host;
  CUdeviceptr from_device;
  void *from_array;
  size_t from_pitch, to_x, to_y;
  int to_kind;
  void *to_host;
  CUdeviceptr to_device;
  void *to_array;
  size_t to_pitch, width, height;
} Plane;

static CUresult end(int kind, const void *host, CUdeviceptr device, CUdeviceptr *address) {
  if (kind < 1 || kind > 4) return INVALID_VALUE;
  if (kind == FROM_ARRAY) return NOT_SUPPORTED; /* texture memory */
  *address = kind == FROM_HOST ? (CUdeviceptr)host : device;
  return OK;
}

static CUresult plane(const Plane *given, void *stream, int synchronous) {
  Copy copy = {.width = given ? given->width : 0, .height = given ? given->height : 0, .depth = 1};
  if (!given) return INVALID_VALUE;
  CUresult code = end(given->from_kind, given->from_host, given->from_device, &copy.from);
  if (!code) code = end(given->to_kind, given->to_host, given->to_device, &copy.to);
  if (code) return code;
  copy.from_pitch = given->from_pitch ? given->from_pitch : given->from_x + given->width;
  copy.to_pitch = given->to_pitch ? given->to_pitch : given->to_x + given->width;
  if (given->from_x + given->width > copy.from_pitch ||
      given->to_x + given->width > copy.to_pitch) return INVALID_VALUE;
  copy.from += given->from_y * copy.from_pitch + given->from_x;
  copy.to += given->to_y * copy.to_pitch + given->to_x;
  return run(&copy, stream, synchronous, given->to_kind == FROM_DEVICE ? DEVICE_ONLY : ANY,
             given->from_kind == FROM_DEVICE ? DEVICE_ONLY : ANY);
}

API cuMemcpy2D_v2(const Plane *copy) { ENTER return plane(copy, NULL, 1); }
API cuMemcpy2DUnaligned_v2(const Plane *copy) { ENTER return plane(copy, NULL, 1); }
API cuMemcpy2DAsync_v2(const Plane *copy, void *stream) { ENTER return plane(copy, stream, 0); }

CUresult copy_of_space(const Space *given, Copy *copy) {
  *copy = (Copy){0};
  if (!given) return INVALID_VALUE;
  CUresult code = end(given->from_kind, given->from_host, given->from_device, &copy->from);
  if (!code) code = end(given->to_kind, given->to_host, given->to_device, &copy->to);
  if (code) return code;
  copy->width = given->width;
  copy->height = given->height;
  copy->depth = given->depth;
  copy->from_pitch = given->from_pitch ? given->from_pitch : given->from_x + given->width;
  copy->to_pitch = given->to_pitch ? given->to_pitch : given->to_x + given->width;
  if (given->from_x + given->width > copy->from_pitch ||
      given->to_x + given->width > copy->to_pitch) return INVALID_VALUE;
  copy->from_slice = copy->from_pitch * (given->from_height ? given->from_height : given->from_y + given->height);
  copy->to_slice = copy->to_pitch * (given->to_height ? given->to_height : given->to_y + given->height);
  copy->from += given->from_z * copy->from_slice + given->from_y * copy->from_pitch + given->from_x;
  copy->to += given->to_z * copy->to_slice + given->to_y * copy->to_pitch + given->to_x;
  return OK;
}

static CUresult space(const Space *given, void *stream, int synchronous) {
  Copy copy;
  CUresult code = copy_of_space(given, &copy);
  return code ? code : run(&copy, stream, synchronous, given->to_kind == FROM_DEVICE ? DEVICE_ONLY : ANY,
                           given->from_kind == FROM_DEVICE ? DEVICE_ONLY : ANY);
}

API cuMemcpy3D_v2(const Space *copy) { ENTER return space(copy, NULL, 1); }
API cuMemcpy3DAsync_v2(const Space *copy, void *stream) { ENTER return space(copy, stream, 0); }

/* Several copies in one call; they have no order among each other, so they are queued in the given one. */
API cuMemcpyBatchAsync_v2(CUdeviceptr *to, CUdeviceptr *from, size_t *bytes, size_t count, void *attributes,
                          size_t *which, size_t kinds, void *stream) {
  ENTER
  if (!to || !from || !bytes || !count || !stream) return INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    Copy copy = line(to[i], from[i], bytes[i]);
    CUresult code = run(&copy, stream, 0, ANY, ANY);
    if (code) return code;
  }
  return OK;
}

/* ---- memsets */
CUresult check_set(const Set *set, Context *context, int *kind) {
  if (set->to % set->element || (set->height > 1 && (set->pitch < set->width * set->element ||
                                                     set->pitch % set->element))) return INVALID_VALUE;
  CUresult code = check_range(set->to, (set->height - 1) * set->pitch + set->width * set->element, context, kind);
  return code ? code : *kind == PAGEABLE ? INVALID_VALUE : OK;
}

static CUresult fill(Set set, void *stream, int synchronous) {
  int kind;
  if (!set.width || !set.height) return OK;
  if (synchronous) {
    CUresult code = unsafe_call();
    if (code) return code;
  }
  lock();
  CUresult code = check_set(&set, current_context(), &kind);
  if (code) RETURN(code);
  Work work = {.kind = SET, .context = current_context(), .as.set = set};
  Operation *operation;
  code = submit(&work, stream, &operation, NULL);
  if (code) RETURN(code);
  counts.sets++;
  if (operation && synchronous && kind != DEVICE_MEMORY && kind != POOL_MEMORY && kind != GLOBAL) {
    counts.implicit_synchronisations++;
    finish(operation);
    code = report(operation->context);
  }
  release(operation);
  RETURN(code);
}

#define FILL(to, pitch, value, element, width, height, stream, synchronous) \
  ENTER return fill((Set){to, pitch, width, height, value, element}, stream, synchronous);

API cuMemsetD8_v2(CUdeviceptr to, unsigned char v, size_t n) { FILL(to, 0, v, 1, n, 1, NULL, 1) }
API cuMemsetD16_v2(CUdeviceptr to, unsigned short v, size_t n) { FILL(to, 0, v, 2, n, 1, NULL, 1) }
API cuMemsetD32_v2(CUdeviceptr to, unsigned v, size_t n) { FILL(to, 0, v, 4, n, 1, NULL, 1) }
API cuMemsetD8Async(CUdeviceptr to, unsigned char v, size_t n, void *s) { FILL(to, 0, v, 1, n, 1, s, 0) }
API cuMemsetD16Async(CUdeviceptr to, unsigned short v, size_t n, void *s) { FILL(to, 0, v, 2, n, 1, s, 0) }
API cuMemsetD32Async(CUdeviceptr to, unsigned v, size_t n, void *s) { FILL(to, 0, v, 4, n, 1, s, 0) }
API cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h) {
  FILL(to, pitch, v, 1, w, h, NULL, 1)
}
API cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h) {
  FILL(to, pitch, v, 2, w, h, NULL, 1)
}
API cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned v, size_t w, size_t h) {
  FILL(to, pitch, v, 4, w, h, NULL, 1)
}
API cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char v, size_t w, size_t h, void *s) {
  FILL(to, pitch, v, 1, w, h, s, 0)
}
API cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short v, size_t w, size_t h, void *s) {
  FILL(to, pitch, v, 2, w, h, s, 0)
}
API cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned v, size_t w, size_t h, void *s) {
  FILL(to, pitch, v, 4, w, h, s, 0)
}
