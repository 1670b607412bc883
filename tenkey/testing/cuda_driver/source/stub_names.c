/* Error names and texts, and how libraries find the functions of the driver. */
#include "stub.h"
#include <dlfcn.h>

static const struct { CUresult code; const char *name, *text; } errors[] = {
#define ERROR(code, name, text) {code, "CUDA_" name, text},
  ERROR(0, "SUCCESS", "no error")
  ERROR(1, "ERROR_INVALID_VALUE", "invalid argument")
  ERROR(2, "ERROR_OUT_OF_MEMORY", "out of memory")
  ERROR(3, "ERROR_NOT_INITIALIZED", "initialization error")
  ERROR(4, "ERROR_DEINITIALIZED", "driver shutting down")
  ERROR(34, "ERROR_STUB_LIBRARY", "CUDA driver is a stub library")
  ERROR(46, "ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable")
  ERROR(100, "ERROR_NO_DEVICE", "no CUDA-capable device is detected")
  ERROR(101, "ERROR_INVALID_DEVICE", "invalid device ordinal")
  ERROR(200, "ERROR_INVALID_IMAGE", "device kernel image is invalid")
  ERROR(201, "ERROR_INVALID_CONTEXT", "invalid device context")
  ERROR(209, "ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device")
  ERROR(214, "ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered")
  ERROR(215, "ERROR_UNSUPPORTED_LIMIT", "limit is not supported on this architecture")
  ERROR(217, "ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices")
  ERROR(218, "ERROR_INVALID_PTX", "a PTX JIT compilation failed")
  ERROR(222, "ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain.")
  ERROR(301, "ERROR_FILE_NOT_FOUND", "file not found")
  ERROR(304, "ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS")
  ERROR(400, "ERROR_INVALID_HANDLE", "invalid resource handle")
  ERROR(401, "ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state")
  ERROR(500, "ERROR_NOT_FOUND", "named symbol not found")
  ERROR(600, "ERROR_NOT_READY", "device not ready")
  ERROR(700, "ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered")
  ERROR(701, "ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch")
  ERROR(702, "ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated")
  ERROR(704, "ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled")
  ERROR(705, "ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled")
  ERROR(708, "ERROR_PRIMARY_CONTEXT_ACTIVE", "cannot set while device is active in this process")
  ERROR(709, "ERROR_CONTEXT_IS_DESTROYED", "context is destroyed")
  ERROR(710, "ERROR_ASSERT", "device-side assert triggered")
  ERROR(712, "ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped")
  ERROR(713, "ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region")
  ERROR(714, "ERROR_HARDWARE_STACK_ERROR", "hardware stack error")
  ERROR(715, "ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered")
  ERROR(716, "ERROR_MISALIGNED_ADDRESS", "misaligned address")
  ERROR(717, "ERROR_INVALID_ADDRESS_SPACE", "operation not supported on global/shared address space")
  ERROR(718, "ERROR_INVALID_PC", "invalid program counter")
  ERROR(719, "ERROR_LAUNCH_FAILED", "unspecified launch failure")
  ERROR(720, "ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch")
  ERROR(800, "ERROR_NOT_PERMITTED", "operation not permitted")
  ERROR(801, "ERROR_NOT_SUPPORTED", "operation not supported")
  ERROR(802, "ERROR_SYSTEM_NOT_READY", "system not yet initialized")
  ERROR(900, "ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing")
  ERROR(901, "ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture")
  ERROR(902, "ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences")
  ERROR(903, "ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began")
  ERROR(904, "ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work")
  ERROR(905, "ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream")
  ERROR(906, "ERROR_STREAM_CAPTURE_IMPLICIT",
        "operation would make the legacy stream depend on a capturing blocking stream")
  ERROR(907, "ERROR_CAPTURED_EVENT", "operation not permitted on an event last recorded in a capturing stream")
  ERROR(908, "ERROR_STREAM_CAPTURE_WRONG_THREAD",
        "attempt to terminate a thread-local capture sequence from another thread")
  ERROR(909, "ERROR_TIMEOUT", "wait operation timed out")
  ERROR(910, "ERROR_GRAPH_EXEC_UPDATE_FAILURE",
        "the graph update was not performed because it included changes which violated constraints specific to "
        "instantiated graph update")
  ERROR(911, "ERROR_EXTERNAL_DEVICE", "an async error has occured in external entity outside of CUDA")
  ERROR(912, "ERROR_INVALID_CLUSTER_SIZE", "a kernel launch error has occurred due to cluster misconfiguration")
  ERROR(999, "ERROR_UNKNOWN", "unknown error")
};

API cuGetErrorName(CUresult code, const char **name) {
  ENTER_AS(ANYTIME)
  if (!name) return INVALID_VALUE;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == code) return *name = errors[i].name, OK;
  *name = NULL;
  return INVALID_VALUE;
}

/* For the error that a context is in, the text goes on with what the executor says about it. */
API cuGetErrorString(CUresult code, const char **text) {
  static __thread char longer[TEXT + 256];
  ENTER_AS(ANYTIME)
  if (!text) return INVALID_VALUE;
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
    if (errors[i].code != code) continue;
    *text = errors[i].text;
    lock();
    for (Context *context = contexts; code && context; context = context->next)
      if (context->error == code && context->text[0]) {
        snprintf(longer, sizeof longer, "%s: %s", errors[i].text, context->text);
        *text = longer;
      }
    RETURN(OK);
  }
  *text = NULL;
  return INVALID_VALUE;
}

/* The newest function of a name that is not newer than the version that the caller was written for. */
static const struct { const char *name; int version, number; } versions[] = {
  {"cuCtxCreate", 12050, 4}, {"cuCtxCreate", 11040, 3}, {"cuCtxCreate", 3020, 2}, {"cuCtxGetDevice", 13000, 2},
      {"cuCtxGetDevice", 2000, 1},
  {"cuCtxSynchronize", 13000, 2}, {"cuCtxSynchronize", 2000, 1}, {"cuStreamGetCtx", 12050, 2}, {"cuStreamGetCtx", 9020,
      1},
  {"cuStreamGetCaptureInfo", 12030, 3}, {"cuStreamGetCaptureInfo", 11030, 2}, {"cuLaunchHostFunc", 13020, 2},
      {"cuLaunchHostFunc", 10000, 1},
  {"cuEventElapsedTime", 12080, 2}, {"cuEventElapsedTime", 2000, 1}, {"cuGraphAddNode", 13041, 3}, {"cuGraphAddNode",
      12030, 2},
};

static int find(const char *name, void **function, int version) {
  static void *self;
  char versioned[160];
  if (!self) {
    Dl_info info;
    dladdr((void *)find, &info);
    self = dlopen(info.dli_fname, RTLD_NOW);
  }
  int wanted = 0;
  for (size_t i = 0; i < sizeof versions / sizeof *versions && !wanted; i++)
    if (!strcmp(versions[i].name, name) && versions[i].version <= version) wanted = versions[i].number;
  for (int number = wanted ? wanted : 4; number >= 1; number--) {
    if (number == 1) snprintf(versioned, sizeof versioned, "%s", name);
    else snprintf(versioned, sizeof versioned, "%s_v%d", name, number);
    if ((*function = dlsym(self, versioned))) return 1;
    if (wanted) break;
  }
  return 0;
}

API cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status) {
  ENTER_AS(ANYTIME)
  if (!name || !function) return INVALID_VALUE;
  int found = !strncmp(name, "cu", 2) && find(name, function, version);
  if (!found) *function = NULL;
  if (status) *status = found ? 0 : 1;
  return found ? OK : NOT_FOUND;
}
API cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, NULL);
}
API cuGetExportTable(const void **table, const void *id) { ENTER_AS(ANYTIME) return NOT_FOUND; }
API cuDeviceGetUuid(unsigned char *uuid, CUdevice device) {
  ENTER_AS(ANYTIME)
  memset(uuid, 0x7e, 16);
  uuid[15] = device;
  return OK;
}
