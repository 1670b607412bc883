/* Modules, libraries, kernels and their attributes, occupancy and launches. Python reads the images. */
#include "stub.h"

static Library *libraries;

/* ---- called by Python while it loads an image */
__attribute__((visibility("default"))) void stub_define_kernel(Library *library, const char *name, long long id,
    unsigned count,
                                                               const size_t *offsets, const size_t *sizes, size_t size,
                                                                   int registers,
                                                               int shared, int local, int constant, int threads) {
  Kernel *kernel = calloc(1, sizeof *kernel);
  kernel->magic = KERNEL;
  kernel->base = kernel;
  kernel->library = library;
  kernel->name = strdup(name);
  kernel->id = id;
  kernel->count = count;
  kernel->offsets = malloc((count + 1) * sizeof *offsets);
  kernel->sizes = malloc((count + 1) * sizeof *sizes);
  memcpy(kernel->offsets, offsets, count * sizeof *offsets);
  memcpy(kernel->sizes, sizes, count * sizeof *sizes);
  kernel->size = size;
  kernel->registers = registers;
  kernel->shared = shared;
  kernel->local = local;
  kernel->constant = constant;
  kernel->threads = threads;
  kernel->next = library->kernels;
  library->kernels = kernel;
}

__attribute__((visibility("default"))) void stub_define_global(Library *library, const char *name, size_t size) {
  Global *global = calloc(1, sizeof *global);
  global->name = strdup(name);
  global->size = size;
  global->next = library->globals;
  library->globals = global;
}

static CUresult load(Library **library, const void *image, int module) {
  if (!library || !image) return INVALID_VALUE;
  size_t bytes = 0;
  if (!memcmp(image, "\177ELF", 4)) { /* the table of sections is at its end */
    const unsigned char *head = image;
    uint64_t table;
    uint16_t entry, count;
    memcpy(&table, head + 40, 8);
    memcpy(&entry, head + 58, 2);
    memcpy(&count, head + 60, 2);
    bytes = table + (size_t)entry * count;
  }
  Library *made = calloc(1, sizeof *made);
  made->magic = LIBRARY;
  made->module = module;
  made->context = module ? current_context() : NULL;
  int code = INVALID_IMAGE;
  if (callbacks.load) made->id = callbacks.load(image, bytes, made, &code);
  if (!callbacks.load || code) {
    free(made);
    return code;
  }
  lock();
  made->next = libraries;
  libraries = made;
  counts.modules++;
  *library = made;
  RETURN(OK);
}

static CUresult load_file(Library **library, const char *path, int module) {
  FILE *file = path ? fopen(path, "rb") : NULL;
  if (!file) return FILE_NOT_FOUND;
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  char *image = calloc(1, size + 1);
  size_t got = fread(image, 1, size, file);
  fclose(file);
  CUresult code = got == (size_t)size ? load(library, image, module) : FILE_NOT_FOUND;
  free(image);
  return code;
}

static CUresult unload(Library *library, int module) {
  if (!alive(library, LIBRARY) || library->module != module) return INVALID_HANDLE;
  CUresult code = unsafe_call();
  if (code) return code;
  lock();
  finish_all();
  library->magic = 0; /* handles of its kernels stay readable: a late use is an error code */
  for (Kernel *kernel = library->kernels; kernel; kernel = kernel->next) {
    kernel->magic = 0;
    for (Kernel *function = kernel->functions; function; function = function->next) function->magic = 0;
  }
  for (Global *global = library->globals; global; global = global->next) {
    Block *block = global->address ? block_of(global->address) : NULL;
    if (block) give_back(block);
    global->address = 0;
  }
  for (Library **at = &libraries; *at; at = &(*at)->next)
    if (*at == library) {
      *at = library->next;
      break;
    }
  unlock();
  if (callbacks.unload && settings.active) callbacks.unload(library->id);
  return OK;
}

static Kernel *find(Library *library, const char *name) {
  for (Kernel *kernel = library->kernels; kernel; kernel = kernel->next)
    if (!strcmp(kernel->name, name)) return kernel;
  return NULL;
}

Kernel *function_of(Kernel *kernel, Context *context) { /* of this context; the mutex is held */
  for (Kernel *function = kernel->base->functions; function; function = function->next)
    if (function->context == context) return function;
  Kernel *function = malloc(sizeof *function);
  *function = *kernel->base;
  function->magic = FUNCTION;
  function->context = context;
  function->functions = NULL;
  function->next = kernel->base->functions;
  return kernel->base->functions = function;
}

API cuModuleLoadData(Library **module, const void *image) { ENTER return load(module, image, 1); }
API cuModuleLoadDataEx(Library **module, const void *image, unsigned n, void *options, void *values) {
  ENTER
  return load(module, image, 1);
}
API cuModuleLoadFatBinary(Library **module, const void *image) { ENTER return load(module, image, 1); }
API cuModuleLoad(Library **module, const char *path) { ENTER return load_file(module, path, 1); }
API cuModuleUnload(Library *module) { ENTER_AS(AFTER_ERROR) return unload(module, 1); }
API cuModuleGetLoadingMode(int *mode) { ENTER_AS(NO_CONTEXT) *mode = 1; return OK; }

API cuModuleGetFunction(Kernel **function, Library *module, const char *name) {
  ENTER
  if (!function || !name) return INVALID_VALUE;
  if (!alive(module, LIBRARY)) return INVALID_HANDLE;
  Kernel *kernel = find(module, name);
  if (!kernel) return NOT_FOUND;
  lock();
  *function = function_of(kernel, current_context());
  RETURN(OK);
}

static unsigned kernel_count(Library *library) {
  unsigned count = 0;
  for (Kernel *kernel = library->kernels; kernel; kernel = kernel->next) count++;
  return count;
}

API cuModuleGetFunctionCount(unsigned *count, Library *module) {
  ENTER
  if (!alive(module, LIBRARY)) return INVALID_HANDLE;
  *count = kernel_count(module);
  return OK;
}

API cuLibraryLoadData(Library **library, const void *image, void *a, void *b, unsigned c, void *d, void *e,
                      unsigned f) {
  ENTER_AS(NO_CONTEXT)
  return load(library, image, 0);
}
API cuLibraryLoadFromFile(Library **library, const char *path, void *a, void *b, unsigned c, void *d, void *e,
                          unsigned f) {
  ENTER_AS(NO_CONTEXT)
  return load_file(library, path, 0);
}
API cuLibraryUnload(Library *library) { ENTER_AS(AFTER_ERROR) return unload(library, 0); }

API cuLibraryGetKernel(Kernel **kernel, Library *library, const char *name) {
  ENTER_AS(NO_CONTEXT)
  if (!kernel || !name) return INVALID_VALUE;
  if (!alive(library, LIBRARY)) return INVALID_HANDLE;
  *kernel = find(library, name);
  return *kernel ? OK : NOT_FOUND;
}
API cuLibraryGetKernelCount(unsigned *count, Library *library) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(library, LIBRARY)) return INVALID_HANDLE;
  *count = kernel_count(library);
  return OK;
}
API cuLibraryEnumerateKernels(Kernel **kernels, unsigned count, Library *library) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(library, LIBRARY) || !kernels) return INVALID_HANDLE;
  for (Kernel *kernel = library->kernels; kernel && count; kernel = kernel->next, count--) *kernels++ = kernel;
  return OK;
}
API cuLibraryGetModule(Library **module, Library *library) {
  ENTER
  if (!alive(library, LIBRARY)) return INVALID_HANDLE;
  *module = library;
  return OK;
}
API cuKernelGetLibrary(Library **library, Kernel *kernel) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(kernel, KERNEL)) return INVALID_HANDLE;
  *library = kernel->library;
  return OK;
}
API cuFuncGetModule(Library **module, Kernel *function) {
  ENTER
  if (!alive(function, FUNCTION)) return INVALID_HANDLE;
  *module = function->library;
  return OK;
}

static CUresult global(CUdeviceptr *address, size_t *bytes, Library *library, const char *name) {
  if (!alive(library, LIBRARY)) return INVALID_HANDLE;
  if (!name) return INVALID_VALUE;
  for (Global *found = library->globals; found; found = found->next) {
    if (strcmp(found->name, name)) continue;
    if (!found->address) {
      CUdeviceptr place = callbacks.variable ? callbacks.variable(library->id, name) : 0; /* the executor has it */
      if (!place) return NOT_FOUND;
      lock();
      if (!found->address && !block_of(place)) adopt(place, found->size, current_context()->device, GLOBAL,
                                                     current_context());
      found->address = place;
      unlock();
    }
    if (address) *address = found->address;
    if (bytes) *bytes = found->size;
    return OK;
  }
  return NOT_FOUND;
}

API cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, Library *module, const char *name) {
  ENTER
  return global(address, bytes, module, name);
}
API cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, Library *library, const char *name) {
  ENTER
  return global(address, bytes, library, name);
}
API cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, Library *library, const char *name) {
  ENTER
  return NOT_FOUND;
}
API cuLibraryGetUnifiedFunction(void **function, Library *library, const char *name) { ENTER return NOT_FOUND; }

/* ---- attributes */
static Kernel *either(Kernel *kernel) { return alive(kernel, KERNEL) || alive(kernel, FUNCTION) ? kernel : NULL; }

static CUresult value_of(int *value, int attribute, Kernel *kernel) {
  if (!value) return INVALID_VALUE;
  if (!either(kernel)) return INVALID_HANDLE;
  int cc = settings.major * 10 + settings.minor;
  switch (attribute) {
  case 0: *value = kernel->threads; return OK;
  case 1: *value = kernel->shared; return OK;
  case 2: *value = kernel->constant; return OK;
  case 3: *value = kernel->local; return OK;
  case 4: *value = kernel->registers; return OK;
  case 5: case 6: *value = cc; return OK;
  case 7: *value = 0; return OK;
  case 8: *value = kernel->dynamic_shared ? kernel->dynamic_shared : 49152 - kernel->shared; return OK;
  case 9: *value = kernel->carveout - 1; return OK;
  case 10: case 11: case 12: case 13: case 14: case 15: *value = 0; return OK;
  default: return INVALID_VALUE;
  }
}

static CUresult set_value(Kernel *kernel, int attribute, int value) {
  int most;
  if (!either(kernel)) return INVALID_HANDLE;
  switch (attribute) {
  case 8:
    device_value(0, 97, &most);
    if (value < 0 || value + kernel->shared > most) return INVALID_VALUE;
    kernel->dynamic_shared = value;
    if (kernel->magic == KERNEL)
      for (Kernel *function = kernel->functions; function; function = function->next) function->dynamic_shared = value;
    return OK;
  case 9: if (value < -1 || value > 100) return INVALID_VALUE; kernel->carveout = value + 1; return OK;
  case 14: case 11: case 12: case 13: case 15: return OK;
  default: return INVALID_VALUE;
  }
}

API cuFuncGetAttribute(int *value, int attribute, Kernel *function) {
  ENTER
  return value_of(value, attribute, function);
}
API cuKernelGetAttribute(int *value, int attribute, Kernel *kernel, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  return value_of(value, attribute, kernel);
}
API cuFuncSetAttribute(Kernel *function, int attribute, int value) {
  ENTER
  return set_value(function, attribute, value);
}
API cuKernelSetAttribute(int attribute, int value, Kernel *kernel, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  return set_value(kernel, attribute, value);
}
API cuFuncSetCacheConfig(Kernel *function, int config) { ENTER return either(function) ? OK : INVALID_HANDLE; }
API cuKernelSetCacheConfig(Kernel *kernel, int config, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  return either(kernel) ? OK : INVALID_HANDLE;
}
API cuFuncGetName(const char **name, Kernel *function) {
  ENTER
  if (!either(function)) return INVALID_HANDLE;
  *name = function->name;
  return OK;
}
API cuKernelGetName(const char **name, Kernel *kernel) {
  ENTER_AS(NO_CONTEXT)
  if (!either(kernel)) return INVALID_HANDLE;
  *name = kernel->name;
  return OK;
}
API cuFuncIsLoaded(int *state, Kernel *function) {
  ENTER
  if (!either(function)) return INVALID_HANDLE;
  *state = 1;
  return OK;
}
API cuFuncLoad(Kernel *function) { ENTER return either(function) ? OK : INVALID_HANDLE; }

static CUresult parameter(Kernel *kernel, size_t index, size_t *offset, size_t *size) {
  if (!either(kernel)) return INVALID_HANDLE;
  if (!offset || index >= kernel->count) return INVALID_VALUE;
  *offset = kernel->offsets[index];
  if (size) *size = kernel->sizes[index];
  return OK;
}
API cuFuncGetParamInfo(Kernel *function, size_t index, size_t *offset, size_t *size) {
  ENTER
  return parameter(function, index, offset, size);
}
API cuKernelGetParamInfo(Kernel *kernel, size_t index, size_t *offset, size_t *size) {
  ENTER_AS(NO_CONTEXT)
  return parameter(kernel, index, offset, size);
}
API cuFuncGetParamCount(Kernel *function, size_t *count) {
  ENTER
  if (!either(function)) return INVALID_HANDLE;
  *count = function->count;
  return OK;
}
API cuKernelGetParamCount(Kernel *kernel, size_t *count) {
  ENTER_AS(NO_CONTEXT)
  if (!either(kernel)) return INVALID_HANDLE;
  *count = kernel->count;
  return OK;
}

API cuKernelGetFunction(Kernel **function, Kernel *kernel) {
  ENTER
  if (!function) return INVALID_VALUE;
  if (!alive(kernel, KERNEL)) return INVALID_HANDLE;
  lock();
  *function = function_of(kernel, current_context());
  RETURN(OK);
}
