/* How Python controls the stub: settings, callbacks, injected faults and counts. */
#include "stub.h"
#include <dlfcn.h>
#include <fnmatch.h>
#include <time.h>

Settings settings;
Counts counts;
Callbacks callbacks;
__thread int in_user_code;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static Entry *entries;
static struct Fault { char pattern[128]; CUresult code; long skip, times; struct Fault *next; } *faults;
static size_t misaligned;
static int misaligned_times;

/* Python's lock, if this process is Python */
static int (*python_held)(void);
static void *(*python_release)(void);
static void (*python_take)(void *);

void lock(void) { pthread_mutex_lock(&mutex); }
void unlock(void) { pthread_mutex_unlock(&mutex); }
void progressed(void) { pthread_cond_broadcast(&progress); }

void wait_for_progress(void) {
  void *saved = python_held && python_held() ? python_release() : NULL;
  pthread_cond_wait(&progress, &mutex);
  if (saved) { /* not while the mutex is held: see Note [Locks of the stub driver] */
    unlock();
    python_take(saved);
    lock();
  }
}

uint64_t random_number(void) { /* splitmix64 */
  uint64_t z = (settings.random += 0x9e3779b97f4a7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

double clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

size_t misalignment(void) {
  if (!misaligned_times) return 0;
  misaligned_times--;
  return misaligned;
}

static CUresult injected(const char *name) {
  CUresult code = OK;
  lock();
  for (struct Fault **at = &faults; *at; at = &(*at)->next) {
    struct Fault *fault = *at;
    char versioned[160];
    snprintf(versioned, sizeof versioned, "%s_v[0-9]", fault->pattern);
    if (fnmatch(fault->pattern, name, 0) && fnmatch(versioned, name, 0)) continue;
    if (fault->skip-- > 0) continue;
    code = fault->code;
    if (--fault->times <= 0) {
      *at = fault->next;
      free(fault);
    }
    break;
  }
  unlock();
  return code;
}

CUresult enter(Entry *entry, const char *name, int flags) {
  if (!entry->known) {
    lock();
    if (!entry->known) {
      entry->name = name;
      entry->next = entries;
      entries = entry;
      entry->known = 1;
    }
    unlock();
  }
  __atomic_fetch_add(&entry->calls, 1, __ATOMIC_RELAXED);
  if (__builtin_expect(faults != NULL, 0)) {
    CUresult code = injected(name);
    if (code) return code;
  }
  if (flags & ANYTIME) return OK;
  if (!settings.initialised) return NOT_INITIALIZED;
  if (!settings.active && !flags) return DEINITIALIZED; /* what is kept can be freed and asked for */
  if (in_user_code == 2 && !(flags & AFTER_ERROR)) return NOT_PERMITTED;
  if (flags & (AFTER_ERROR | NO_CONTEXT)) return OK;
  return context_error();
}

/* ---- for Python */

CONTROL void stub_connect(const Callbacks *functions) {
  callbacks = *functions;
  python_held = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
  python_release = (void *(*)(void))dlsym(RTLD_DEFAULT, "PyEval_SaveThread");
  python_take = (void (*)(void *))dlsym(RTLD_DEFAULT, "PyEval_RestoreThread");
  if (!python_release || !python_take) python_held = NULL;
}

CONTROL void stub_start(int devices, int major, int minor, size_t memory, int deferred, int execute, uint64_t seed) {
  lock();
  settings.active = 1;
  settings.devices = devices;
  settings.major = major;
  settings.minor = minor;
  settings.memory = memory;
  settings.deferred = deferred;
  settings.execute = execute;
  settings.random = seed;
  unlock();
}

/* The work that is left is done, errors and captures are forgotten. Memory and handles stay valid, so that what is
   freed late is freed correctly, and another start goes on with them. */
CONTROL void stub_stop(void) {
  lock();
  finish_all();
  reset_capture();
  reset_devices();
  settings.active = settings.devices = 0;
  while (faults) {
    struct Fault *next = faults->next;
    free(faults);
    faults = next;
  }
  misaligned_times = 0;
  unlock();
  run_destructors();
}

CONTROL void stub_execute(int execute) { settings.execute = execute; }

CONTROL void stub_fail(const char *pattern, CUresult code, long skip, long times) {
  struct Fault *fault = calloc(1, sizeof *fault);
  snprintf(fault->pattern, sizeof fault->pattern, "%s", pattern);
  fault->code = code;
  fault->skip = skip;
  fault->times = times;
  lock();
  struct Fault **at = &faults;
  while (*at) at = &(*at)->next;
  *at = fault;
  unlock();
}

CONTROL long stub_faults(void) {
  long count = 0;
  lock();
  for (struct Fault *fault = faults; fault; fault = fault->next) count++;
  unlock();
  return count;
}

CONTROL void stub_misalign(size_t bytes, int times) {
  lock();
  misaligned = bytes;
  misaligned_times = times;
  unlock();
}

CONTROL void stub_counts(Counts *now) {
  lock();
  *now = counts;
  unlock();
}

CONTROL unsigned long long stub_calls(const char *pattern) {
  unsigned long long calls = 0;
  char versioned[160];
  snprintf(versioned, sizeof versioned, "%s_v[0-9]", pattern);
  lock();
  for (Entry *entry = entries; entry; entry = entry->next)
    if (!fnmatch(pattern, entry->name, 0) || !fnmatch(versioned, entry->name, 0)) calls += entry->calls;
  unlock();
  return calls;
}

CONTROL void stub_finish(void) {
  lock();
  finish_all();
  unlock();
  run_destructors();
}

CONTROL int stub_error(char *text, size_t room, int reported) { /* reported: also those that a call has returned */
  int code = 0;
  lock();
  for (Context *context = contexts; context && !code; context = context->next)
    if (context->error && (reported || !context->reported)) {
      code = context->error;
      snprintf(text, room, "%s", context->text);
    }
  unlock();
  return code;
}

CONTROL void stub_clear_error(void) {
  lock();
  for (Context *context = contexts; context; context = context->next) {
    context->error = OK;
    context->text[0] = 0;
  }
  unlock();
}
