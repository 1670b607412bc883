/* Launches, host functions and occupancy. */
#include "stub.h"

typedef struct { int id; char pad[4]; unsigned char value[64]; } Attribute;
typedef struct { unsigned grid[3], block[3], shared; void *stream; Attribute *attributes; unsigned count; } Config;

static size_t static_limit(void) { return 49152; }

/* What a launch is refused for at once; it also collects the parameters. The mutex is held. */
CUresult launch_checks(Kernel **function, const unsigned *sizes, void **parameters, void **extra, Launch *launch,
                       Context *context, int cooperative) {
  Kernel *kernel = *function;
  if (alive(kernel, KERNEL)) kernel = *function = function_of(kernel, context);
  else if (!alive(kernel, FUNCTION) || kernel->context != context) return INVALID_HANDLE;
  const unsigned most_grid[] = {2147483647u, 65535, 65535}, most_block[] = {1024, 1024, 64};
  unsigned threads = 1;
  for (int i = 0; i < 3; i++) {
    if (!sizes[i] || sizes[i] > most_grid[i] || !sizes[3 + i] || sizes[3 + i] > most_block[i]) return INVALID_VALUE;
    threads *= sizes[3 + i];
  }
  if (threads > 1024) return INVALID_VALUE;
  if ((int)threads > kernel->threads) return INVALID_VALUE; /* launch bounds (.maxntid) */
  unsigned warps = (threads + 31) / 32, per_thread = (kernel->registers + 7) / 8 * 8;
  if (warps * 32 * per_thread > 65536) return LAUNCH_OUT_OF_RESOURCES;
  size_t limit = kernel->dynamic_shared ? (size_t)kernel->dynamic_shared + kernel->shared : static_limit();
  if (sizes[6] + (size_t)kernel->shared > limit) return INVALID_VALUE;
  if (cooperative) {
    unsigned long long blocks = (unsigned long long)sizes[0] * sizes[1] * sizes[2];
    int processors;
    device_value(context->device, 16, &processors);
    if (blocks > (unsigned long long)processors * (2048 / (warps * 32))) return COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  memset(launch, 0, sizeof *launch);
  launch->kernel = kernel;
  memcpy(launch->grid, sizes, 3 * sizeof *sizes);
  memcpy(launch->block, sizes + 3, 3 * sizeof *sizes);
  launch->shared = sizes[6];
  if (!kernel->count) return OK;
  if (!parameters == !extra) return INVALID_VALUE; /* one of them */
  launch->size = kernel->size;
  launch->parameters = calloc(1, kernel->size + 8);
  if (parameters) {
    for (unsigned i = 0; i < kernel->count; i++) {
      if (!parameters[i]) {
        free(launch->parameters);
        launch->parameters = NULL;
        return INVALID_VALUE;
      }
      memcpy(launch->parameters + kernel->offsets[i], parameters[i], kernel->sizes[i]);
    }
    return OK;
  }
  void *buffer = NULL;
  size_t *size = NULL;
  for (void **at = extra; *at; at += 2) {
    if (*at == (void *)1) buffer = at[1];
    else if (*at == (void *)2) size = at[1];
    else break;
  }
  if (!buffer || !size || *size < kernel->offsets[kernel->count - 1] + kernel->sizes[kernel->count - 1]) {
    free(launch->parameters);
    launch->parameters = NULL;
    return INVALID_VALUE;
  }
  memcpy(launch->parameters, buffer, *size < kernel->size ? *size : kernel->size);
  return OK;
}

static CUresult launch(Kernel *kernel, const unsigned *sizes, void *handle, void **parameters, void **extra,
                       int cooperative) {
  Stream *stream;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  Work work = {.kind = LAUNCH, .context = stream->context};
  code = launch_checks(&kernel, sizes, parameters, extra, &work.as.launch, stream->context, cooperative);
  if (code) RETURN(code);
  code = submit(&work, handle, NULL, NULL);
  if (code) free(work.as.launch.parameters);
  else counts.launches++;
  RETURN(code);
}

API cuLaunchKernel(Kernel *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  ENTER
  unsigned sizes[7] = {gx, gy, gz, bx, by, bz, shared};
  return launch(kernel, sizes, stream, parameters, extra, 0);
}

API cuLaunchKernelEx(const Config *config, Kernel *kernel, void **parameters, void **extra) {
  ENTER
  if (!config || (config->count && !config->attributes)) return INVALID_VALUE;
  int cooperative = 0;
  for (unsigned i = 0; i < config->count; i++) {
    Attribute *attribute = &config->attributes[i];
    unsigned cluster[3];
    memcpy(cluster, attribute->value, sizeof cluster);
    if (attribute->id == 2) cooperative = (int)cluster[0];
    else if (attribute->id == 4 && (cluster[0] * cluster[1] * cluster[2] != 1)) {
      if (settings.major < 9) return INVALID_VALUE;
      return NOT_SUPPORTED; /* the executor has no clusters */
    }
  }
  unsigned sizes[7] = {config->grid[0], config->grid[1], config->grid[2], config->block[0], config->block[1],
      config->block[2], config->shared};
  return launch(kernel, sizes, config->stream, parameters, extra, cooperative);
}

API cuLaunchCooperativeKernel(Kernel *kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void *stream, void **parameters) {
  ENTER
  unsigned sizes[7] = {gx, gy, gz, bx, by, bz, shared};
  return launch(kernel, sizes, stream, parameters, NULL, 1);
}

static CUresult host(void *stream, HostFunction function, void *data, int callback) {
  if (!function) return INVALID_VALUE;
  Work work = {.kind = HOST, .as.host = {function, data, callback, stream}};
  lock();
  RETURN(submit(&work, stream, NULL, NULL));
}

API cuLaunchHostFunc(void *stream, HostFunction function, void *data) { ENTER return host(stream, function, data, 0); }
API cuLaunchHostFunc_v2(void *stream, HostFunction function, void *data, unsigned mode) {
  ENTER
  return host(stream, function, data, 0);
}
API cuStreamAddCallback(void *stream, HostFunction function, void *data, unsigned flags) {
  ENTER
  return flags ? INVALID_VALUE : host(stream, function, data, 1);
}

/* ---- how many blocks run at once on a multiprocessor */
static CUresult occupancy(int *blocks, Kernel *kernel, int threads, size_t dynamic) {
  if (!blocks || threads < 1) return INVALID_VALUE;
  if (!alive(kernel, KERNEL) && !alive(kernel, FUNCTION)) return INVALID_HANDLE;
  int warps = (threads + 31) / 32, per_warp = (kernel->registers + 7) / 8 * 256, shared, optin;
  device_value(0, 81, &shared);
  device_value(0, 97, &optin);
  *blocks = 0;
  if (threads > kernel->threads || dynamic + kernel->shared > (size_t)optin) return OK;
  *blocks = 64 / warps < 32 ? 64 / warps : 32;
  if (per_warp && 65536 / (per_warp * warps) < *blocks) *blocks = 65536 / (per_warp * warps);
  size_t each = dynamic + kernel->shared + 1024; /* 1 KiB of each block is the system's */
  if (shared / each < (size_t)*blocks) *blocks = shared / each;
  return OK;
}

API cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel *kernel, int threads, size_t shared) {
  ENTER
  return occupancy(blocks, kernel, threads, shared);
}
API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, Kernel *kernel, int threads, size_t shared,
                                                         unsigned flags) {
  ENTER
  return flags > 1 ? INVALID_VALUE : occupancy(blocks, kernel, threads, shared);
}

static CUresult best(int *grid, int *block, Kernel *kernel, size_t (*shared_of)(int), size_t shared, int limit) {
  if (!grid || !block) return INVALID_VALUE;
  int most = 0, processors;
  if (!alive(kernel, KERNEL) && !alive(kernel, FUNCTION)) return INVALID_HANDLE;
  if (limit <= 0 || limit > kernel->threads) limit = kernel->threads;
  device_value(0, 16, &processors);
  *grid = *block = 0;
  for (int threads = (limit + 31) / 32 * 32; threads >= 32; threads -= 32) {
    int count, size = threads > limit ? limit : threads;
    CUresult code = occupancy(&count, kernel, size, shared_of ? shared_of(size) : shared);
    if (code) return code;
    if (count * size > most) {
      most = count * size;
      *block = size;
      *grid = count * processors;
    }
  }
  return OK;
}

API cuOccupancyMaxPotentialBlockSize(int *grid, int *block, Kernel *kernel, size_t (*shared_of)(int), size_t shared,
                                     int limit) {
  ENTER
  return best(grid, block, kernel, shared_of, shared, limit);
}
API cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, Kernel *kernel, size_t (*shared_of)(int),
                                              size_t shared, int limit, unsigned flags) {
  ENTER
  return flags > 1 ? INVALID_VALUE : best(grid, block, kernel, shared_of, shared, limit);
}
API cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, Kernel *kernel, int blocks, int threads) {
  ENTER
  if (!bytes || blocks < 1 || threads < 1) return INVALID_VALUE;
  if (!alive(kernel, KERNEL) && !alive(kernel, FUNCTION)) return INVALID_HANDLE;
  int shared, optin;
  device_value(0, 81, &shared);
  device_value(0, 97, &optin);
  long each = shared / blocks - 1024 - kernel->shared;
  *bytes = each < 0 ? 0 : each > optin ? (size_t)optin : (size_t)each;
  return OK;
}
API cuOccupancyMaxPotentialClusterSize(int *size, Kernel *kernel, const Config *config) {
  ENTER
  *size = settings.major >= 9 ? 8 : 1;
  return OK;
}
API cuOccupancyMaxActiveClusters(int *count, Kernel *kernel, const Config *config) { ENTER *count = 1; return OK; }
