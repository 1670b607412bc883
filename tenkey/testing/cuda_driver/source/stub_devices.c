/* Initialisation, devices, contexts, peer access, and the refusal of sharing between processes. */
#include "stub.h"
#include <stdarg.h>

Context *contexts;
static Context *primary[MAX_DEVICES];
static __thread Context *stack[32];
static __thread int depth; /* stack[depth - 1] is the current one */
static unsigned long long ids;

unsigned long long next_id(void) { return __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED); }

int alive(const void *handle, unsigned magic) { return handle && *(const unsigned *)handle == magic; }

Context *current_context(void) { return depth ? stack[depth - 1] : NULL; }

CUresult context_error(void) {
  Context *context = current_context();
  if (!context) return INVALID_CONTEXT;
  if (context->destroyed) return CONTEXT_IS_DESTROYED;
  return report(context);
}

CUresult report(Context *context) {
  if (__builtin_expect(context->error, 0)) context->reported = 1;
  return context->error;
}

CUresult fail(Context *context, CUresult code, const char *format, ...) {
  if (!context->error) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->text, sizeof context->text, format, arguments);
    va_end(arguments);
    context->error = code;
    context->reported = 0;
  }
  return code;
}

static Context *new_context(CUdevice device, unsigned flags, int is_primary) {
  Context *context = calloc(1, sizeof *context);
  context->magic = CONTEXT;
  context->device = device;
  context->flags = flags;
  context->primary = is_primary;
  context->id = next_id();
  context->limits[0] = 1024;     /* stack of a thread */
  context->limits[1] = 1 << 20;  /* printf */
  context->limits[2] = 8 << 20;  /* malloc in kernels */
  context->limits[5] = 128;      /* fetch granularity of the second cache */
  context->legacy = calloc(1, sizeof(Stream));
  context->legacy->magic = STREAM;
  context->legacy->context = context;
  context->legacy->id = next_id();
  context->next = contexts;
  return contexts = context;
}

Context *context_of(CUdevice device) { return primary[device]; }

void reset_devices(void) {
  for (Context *context = contexts; context; context = context->next) {
    reset_streams(context, 0);
    context->error = OK;
    context->text[0] = 0;
    context->peers = 0;
  }
}

API cuInit(unsigned flags) {
  ENTER_AS(ANYTIME)
  if (flags) return INVALID_VALUE;
  if (!settings.active || !settings.devices) return NO_DEVICE;
  settings.initialised = 1;
  return OK;
}

API cuDriverGetVersion(int *version) {
  ENTER_AS(ANYTIME)
  if (!version) return INVALID_VALUE;
  *version = 13050;
  return OK;
}

API cuDeviceGetCount(int *count) {
  ENTER_AS(NO_CONTEXT)
  if (!count) return INVALID_VALUE;
  *count = settings.devices;
  return OK;
}

static int unknown(CUdevice device) { return device < 0 || device >= settings.devices; }

API cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER_AS(NO_CONTEXT)
  if (!device) return INVALID_VALUE;
  if (unknown(ordinal)) return INVALID_DEVICE;
  *device = ordinal;
  return OK;
}

API cuDeviceGetName(char *name, int room, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (!name || room < 1) return INVALID_VALUE;
  if (unknown(device)) return INVALID_DEVICE;
  const char *model = settings.major == 8 ? "A100" : settings.major == 9 ? "H100" : settings.major == 10 ? "B200"
      : "GPU";
  snprintf(name, room, "Emulated %s", model);
  return OK;
}

API cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (!uuid) return INVALID_VALUE;
  if (unknown(device)) return INVALID_DEVICE;
  memset(uuid, 0x7e, 16);
  uuid[15] = device;
  return OK;
}

API cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (!bytes) return INVALID_VALUE;
  if (unknown(device)) return INVALID_DEVICE;
  *bytes = settings.memory;
  return OK;
}

CUresult device_value(CUdevice device, int attribute, int *value) {
  /* compute capability: 8.0, 9.0, 10.0; figures of A100, H100 and B200 from the programming guide and data sheets */
  int kind = settings.major <= 8 ? 0 : settings.major == 9 ? 1 : 2;
  int processors[] = {108, 132, 148}, shared[] = {167936, 233472, 233472}, optin[] = {166912, 232448, 232448};
  int level2[] = {40 << 20, 50 << 20, 126 << 20}, clock[] = {1410000, 1980000, 1965000};
  switch (attribute) {
  case 1: *value = 1024; break;               /* threads of a block */
  case 2: case 3: *value = 1024; break;       /* block x, y */
  case 4: *value = 64; break;                 /* block z */
  case 5: *value = 2147483647; break;         /* grid x */
  case 6: case 7: *value = 65535; break;      /* grid y, z */
  case 8: *value = 49152; break;              /* shared memory of a block */
  case 9: *value = 65536; break;              /* constant memory */
  case 10: *value = 32; break;                /* warp */
  case 11: *value = 2147483647; break;        /* pitch */
  case 12: *value = 65536; break;             /* registers of a block */
  case 13: *value = clock[kind]; break;
  case 14: *value = 512; break;               /* texture alignment */
  case 16: *value = processors[kind]; break;
  case 33: *value = device + 1; break;        /* PCI bus */
  case 34: case 50: *value = 0; break;        /* PCI device and domain */
  case 36: *value = 2619000; break;           /* clock of the memory */
  case 37: *value = 5120; break;              /* width of its bus */
  case 38: *value = level2[kind]; break;
  case 39: *value = 2048; break;              /* threads of a multiprocessor */
  case 40: *value = 3; break;                 /* copy engines */
  case 75: *value = settings.major; break;
  case 76: *value = settings.minor; break;
  case 81: *value = shared[kind]; break;      /* shared memory of a multiprocessor */
  case 82: *value = 65536; break;             /* its registers */
  case 87: *value = 2; break;                 /* single to double precision */
  case 97: *value = optin[kind]; break;
  case 106: *value = 32; break;               /* blocks of a multiprocessor */
  case 108: *value = level2[kind] / 2; break; /* persisting part of the second cache */
  case 109: *value = 128 << 20; break;        /* window of access policies */
  case 111: *value = 1024; break;             /* reserved shared memory */
  case 120: *value = settings.major >= 9; break; /* clusters */
  /* What these devices have: copies during kernels, mapped host memory, concurrent kernels, ECC, one address space,
     stream priorities, caches, managed memory, preemption, registered memory, cooperative launches, pools. */
  case 15: case 19: case 31: case 32: case 41: case 78: case 79: case 80: case 83: case 89: case 90: case 91: case 95:
  case 99: case 113: case 115: case 142: case 144: *value = 1; break;
  default: if (attribute < 1 || attribute > 200) return INVALID_VALUE; *value = 0;
  }
  return OK;
}

API cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (!value) return INVALID_VALUE;
  if (unknown(device)) return INVALID_DEVICE;
  return device_value(device, attribute, value);
}

API cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (unknown(device)) return INVALID_DEVICE;
  *major = settings.major;
  *minor = settings.minor;
  return OK;
}

API cuDeviceGetPCIBusId(char *text, int room, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (!text || room < 13) return INVALID_VALUE;
  if (unknown(device)) return INVALID_DEVICE;
  snprintf(text, room, "0000:%02X:00.0", device + 1);
  return OK;
}

API cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
  ENTER_AS(NO_CONTEXT)
  unsigned domain, bus;
  if (!device || !text) return INVALID_VALUE;
  if (sscanf(text, "%x:%x", &domain, &bus) != 2 || domain || unknown((int)bus - 1)) return INVALID_DEVICE;
  *device = bus - 1;
  return OK;
}

API cuDeviceGetExecAffinitySupport(int *supported, int kind, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (unknown(device)) return INVALID_DEVICE;
  *supported = 0;
  return OK;
}

/* ---- contexts */
API cuDevicePrimaryCtxRetain(Context **context, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (!context) return INVALID_VALUE;
  if (unknown(device)) return INVALID_DEVICE;
  lock();
  if (!primary[device]) primary[device] = new_context(device, 0, 1);
  primary[device]->retained++;
  *context = primary[device];
  RETURN(OK);
}

API cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  ENTER_AS(AFTER_ERROR)
  if (device < 0 || device >= MAX_DEVICES) return INVALID_DEVICE;
  lock();
  if (!primary[device] || !primary[device]->retained) RETURN(INVALID_CONTEXT);
  primary[device]->retained--; /* the context stays usable: tests and libraries may keep its handle */
  RETURN(OK);
}

API cuDevicePrimaryCtxReset_v2(CUdevice device) {
  ENTER_AS(AFTER_ERROR)
  if (unknown(device)) return INVALID_DEVICE;
  lock();
  Context *context = primary[device];
  if (context) {
    finish_context(context);
    reset_streams(context, 1);
    context->error = OK;
    context->text[0] = 0;
  }
  RETURN(OK);
}

API cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
  ENTER_AS(NO_CONTEXT)
  if (unknown(device)) return INVALID_DEVICE;
  if (flags > 0x7f) return INVALID_VALUE;
  lock();
  if (!primary[device]) primary[device] = new_context(device, 0, 1);
  primary[device]->flags = flags;
  RETURN(OK);
}

API cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
  ENTER_AS(NO_CONTEXT)
  if (unknown(device)) return INVALID_DEVICE;
  *flags = primary[device] ? primary[device]->flags : 0;
  *active = primary[device] && primary[device]->retained > 0;
  return OK;
}

static CUresult push(Context *context) {
  if (depth == 32) return OUT_OF_MEMORY;
  stack[depth++] = context;
  return OK;
}

static CUresult create(Context **context, unsigned flags, CUdevice device) {
  if (!context || flags > 0x7f) return INVALID_VALUE;
  if (unknown(device)) return INVALID_DEVICE;
  lock();
  *context = new_context(device, flags, 0);
  unlock();
  return push(*context);
}

API cuCtxCreate_v2(Context **context, unsigned flags, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  return create(context, flags, device);
}
API cuCtxCreate_v3(Context **context, void *affinity, int count, unsigned flags, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  return count ? NOT_SUPPORTED : create(context, flags, device);
}
API cuCtxCreate_v4(Context **context, void *parameters, unsigned flags, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  return create(context, flags, device);
}

API cuCtxDestroy_v2(Context *context) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(context, CONTEXT)) return INVALID_VALUE;
  if (context->primary || context->destroyed) return INVALID_CONTEXT;
  lock();
  finish_context(context);
  reset_streams(context, 1);
  context->destroyed = 1; /* its memory stays, so that a late use is an error code */
  unlock();
  if (current_context() == context) depth--;
  return OK;
}

API cuCtxGetCurrent(Context **context) {
  ENTER_AS(NO_CONTEXT)
  if (!context) return INVALID_VALUE;
  *context = current_context();
  return OK;
}

API cuCtxSetCurrent(Context *context) {
  ENTER_AS(AFTER_ERROR)
  if (context && !alive(context, CONTEXT)) return INVALID_CONTEXT;
  if (context && context->destroyed) return CONTEXT_IS_DESTROYED;
  if (!context) {
    if (depth) depth--;
  } else if (depth) stack[depth - 1] = context;
  else return push(context);
  return OK;
}

API cuCtxPushCurrent_v2(Context *context) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(context, CONTEXT)) return INVALID_CONTEXT;
  if (context->destroyed) return CONTEXT_IS_DESTROYED;
  return push(context);
}

API cuCtxPopCurrent_v2(Context **context) {
  ENTER_AS(AFTER_ERROR)
  if (!depth) return INVALID_CONTEXT;
  if (context) *context = stack[depth - 1];
  depth--;
  return OK;
}

API cuCtxGetDevice(CUdevice *device) {
  ENTER
  if (!device) return INVALID_VALUE;
  *device = current_context()->device;
  return OK;
}

API cuCtxGetDevice_v2(CUdevice *device, Context *context) {
  ENTER_AS(NO_CONTEXT)
  if (!context) context = current_context();
  if (!device) return INVALID_VALUE;
  if (!alive(context, CONTEXT)) return INVALID_CONTEXT;
  *device = context->device;
  return OK;
}

API cuCtxGetFlags(unsigned *flags) { ENTER *flags = current_context()->flags; return OK; }
API cuCtxSetFlags(unsigned flags) {
  ENTER
  if (flags > 0x7f) return INVALID_VALUE;
  current_context()->flags = flags;
  return OK;
}

API cuCtxGetId(Context *context, unsigned long long *id) {
  ENTER_AS(NO_CONTEXT)
  if (!context) context = current_context();
  if (!alive(context, CONTEXT)) return INVALID_CONTEXT;
  *id = context->id;
  return OK;
}

API cuCtxGetApiVersion(Context *context, unsigned *version) { ENTER_AS(NO_CONTEXT) *version = 13050; return OK; }

API cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return OK;
}

API cuCtxGetLimit(size_t *value, int limit) {
  ENTER
  if (!value) return INVALID_VALUE;
  if (limit < 0 || limit > 9) return UNSUPPORTED_LIMIT;
  *value = current_context()->limits[limit];
  return OK;
}

API cuCtxSetLimit(int limit, size_t value) {
  ENTER
  if (limit < 0 || limit > 9) return UNSUPPORTED_LIMIT;
  current_context()->limits[limit] = value;
  return OK;
}

API cuCtxGetCacheConfig(int *config) { ENTER *config = 0; return OK; }
API cuCtxSetCacheConfig(int config) { ENTER return config < 0 || config > 3 ? INVALID_VALUE : OK; }
API cuCtxResetPersistingL2Cache(void) { ENTER return OK; }

static CUresult synchronise(Context *context) {
  CUresult code = unsafe_call();
  if (code) return code;
  lock();
  counts.synchronisations++;
  finish_context(context);
  code = report(context);
  unlock();
  run_destructors();
  return code;
}

API cuCtxSynchronize(void) { ENTER return synchronise(current_context()); }

API cuCtxSynchronize_v2(Context *context) {
  ENTER_AS(NO_CONTEXT)
  if (!context) context = current_context();
  return alive(context, CONTEXT) ? synchronise(context) : INVALID_CONTEXT;
}

/* ---- several devices */
API cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
  ENTER_AS(NO_CONTEXT)
  if (!can) return INVALID_VALUE;
  if (unknown(device) || unknown(peer)) return INVALID_DEVICE;
  *can = device != peer;
  return OK;
}

API cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer) {
  ENTER_AS(NO_CONTEXT)
  if (!value || attribute < 1 || attribute > 5) return INVALID_VALUE;
  if (unknown(device) || unknown(peer) || device == peer) return INVALID_DEVICE;
  *value = attribute != 1;
  return OK;
}

API cuCtxEnablePeerAccess(Context *peer, unsigned flags) {
  ENTER
  Context *context = current_context();
  if (!alive(peer, CONTEXT)) return INVALID_CONTEXT;
  if (flags) return INVALID_VALUE;
  if (peer->device == context->device) return INVALID_DEVICE;
  if (context->peers >> peer->device & 1) return PEER_ACCESS_ALREADY_ENABLED;
  lock();
  context->peers |= 1u << peer->device;
  memory_changed();
  RETURN(OK);
}

API cuCtxDisablePeerAccess(Context *peer) {
  ENTER
  Context *context = current_context();
  if (!alive(peer, CONTEXT)) return INVALID_CONTEXT;
  if (!(context->peers >> peer->device & 1)) return PEER_ACCESS_NOT_ENABLED;
  lock();
  context->peers &= ~(1u << peer->device);
  memory_changed();
  RETURN(OK);
}

/* Memory of this process cannot be opened by another one. */
API cuIpcGetMemHandle(void *handle, CUdeviceptr address) { ENTER return NOT_SUPPORTED; }
API cuIpcOpenMemHandle_v2(CUdeviceptr *address, ...) { ENTER return NOT_SUPPORTED; }
API cuIpcCloseMemHandle(CUdeviceptr address) { ENTER return NOT_SUPPORTED; }
API cuIpcGetEventHandle(void *handle, Event *event) { ENTER return NOT_SUPPORTED; }
API cuIpcOpenEventHandle(Event **event, ...) { ENTER return NOT_SUPPORTED; }
API cuProfilerStart(void) { ENTER return OK; }
API cuProfilerStop(void) { ENTER return OK; }
