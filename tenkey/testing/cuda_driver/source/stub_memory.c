/* Device memory, pinned and registered host memory, and what an address belongs to.

   Each device has a range of addresses of its own. A new block begins after the last one, so that freed addresses are
   used again as late as possible; blocks are filled with 0xFF (NaN) when they are allocated and with 0xFB when they are
   freed. */
#include "stub.h"
#include <sys/mman.h>

enum { GAP = 512, FILLED = 64 << 20, TOMBSTONES = 512 };
#define ADDRESSES ((size_t)1 << 38) /* of a device */

static struct Arena { char *begin, *end, *next; size_t used; } arenas[MAX_DEVICES + 1]; /* the last: pinned memory */
static Block **blocks; /* by address */
static size_t block_count, block_room;
static unsigned long long generation = 1;
static struct { CUdeviceptr base; size_t size; int kind; unsigned long long id; } tombstones[TOMBSTONES];
static unsigned tombstone;

void memory_changed(void) { generation++; }

static struct Arena *arena_of(CUdevice device) { return &arenas[device < 0 ? MAX_DEVICES : device]; }

int in_arena(CUdeviceptr address) {
  for (int i = 0; i <= MAX_DEVICES; i++)
    if (address >= (CUdeviceptr)arenas[i].begin && address < (CUdeviceptr)arenas[i].end) return 1;
  return 0;
}

static size_t first_after(CUdeviceptr address) { /* the first block that begins after the address */
  size_t low = 0, high = block_count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (blocks[middle]->base <= address) low = middle + 1;
    else high = middle;
  }
  return low;
}

Block *block_of(CUdeviceptr address) {
  size_t place = first_after(address);
  if (!place) return NULL;
  Block *block = blocks[place - 1];
  return address < block->base + block->room || (block->size == 0 && address == block->base) ? block : NULL;
}

static void insert(Block *block) {
  if (block_count == block_room) {
    block_room = block_room ? 2 * block_room : 256;
    blocks = realloc(blocks, block_room * sizeof *blocks);
  }
  size_t place = first_after(block->base);
  memmove(blocks + place + 1, blocks + place, (block_count - place) * sizeof *blocks);
  blocks[place] = block;
  block_count++;
  generation++;
}

static void take_out(Block *block) {
  size_t place = first_after(block->base) - 1;
  memmove(blocks + place, blocks + place + 1, (block_count - place - 1) * sizeof *blocks);
  block_count--;
  generation++;
}

static CUdeviceptr find_room(struct Arena *arena, size_t room) {
  for (int round = 0; round < 2; round++) {
    char *at = round ? arena->begin : arena->next;
    for (size_t place = first_after((CUdeviceptr)at); at + room + GAP <= arena->end; place++) {
      if (place) { /* not inside of the block before */
        char *end = (char *)blocks[place - 1]->base + blocks[place - 1]->room + GAP;
        if (end > at && (char *)blocks[place - 1]->base < arena->end) at = end;
      }
      char *limit = place < block_count && (char *)blocks[place]->base < arena->end ? (char *)blocks[place]->base
          : arena->end;
      if (at + room + GAP <= limit) {
        arena->next = at + room + GAP;
        return (CUdeviceptr)at;
      }
      if (place >= block_count || limit == arena->end) break;
    }
  }
  return 0;
}

size_t memory_used(CUdevice device) { return arena_of(device)->used; }
size_t memory_free(CUdevice device) {
  size_t used = memory_used(device);
  return used < settings.memory ? settings.memory - used : 0;
}

static void fill(Block *block, int value) {
  if (!settings.execute) return;
  if (block->room <= FILLED) memset((void *)block->base, value, block->room);
  else if (value == 0xff) memset((void *)block->base, value, 1 << 20);
}

Block *allocate(size_t bytes, CUdevice device, int kind, Context *context) {
  struct Arena *arena = arena_of(device);
  size_t room = (bytes + 511) / 512 * 512;
  if (room < bytes || (device >= 0 && room > memory_free(device))) return NULL;
  if (!arena->begin) { /* addresses only: memory is used when it is written */
    char *begin = mmap(NULL, ADDRESSES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) return NULL;
    arena->begin = arena->next = begin;
    arena->end = begin + ADDRESSES;
  }
  CUdeviceptr base = find_room(arena, room);
  if (!base) return NULL;
  Block *block = calloc(1, sizeof *block);
  block->base = base;
  block->size = bytes;
  block->room = room;
  block->device = device;
  block->kind = kind;
  block->context = context;
  block->held = block->valid = 1;
  block->id = next_id();
  arena->used += room;
  insert(block);
  fill(block, 0xff);
  return block;
}

Block *adopt(CUdeviceptr base, size_t bytes, CUdevice device, int kind, Context *context) { /* memory from elsewhere */
  Block *block = calloc(1, sizeof *block);
  block->base = base;
  block->size = block->room = bytes;
  block->device = device;
  block->kind = kind;
  block->context = context;
  block->held = block->valid = 1;
  block->id = next_id();
  insert(block);
  return block;
}

void give_back(Block *block) {
  take_out(block);
  if (block->kind != REGISTERED && block->kind != GLOBAL) { /* those are the program's, which may use them again */
    unsigned at = tombstone++ % TOMBSTONES;
    tombstones[at].base = block->base;
    tombstones[at].size = block->size;
    tombstones[at].kind = block->kind;
    tombstones[at].id = block->id;
    arena_of(block->device)->used -= block->room;
    if (block->room >= 1 << 20) madvise((void *)block->base, block->room, MADV_DONTNEED);
    else fill(block, 0xfb);
  }
  free(block);
}

int reachable(const Block *block, const Context *context) {
  if (block->device < 0 || block->kind == MANAGED || block->kind == GLOBAL) return 1;
  if (block->device == context->device || context->peers >> block->device & 1) return 1;
  return block->pool && block->pool->access >> context->device & 1;
}

/* Whether a call may name the range. What is freed in the order of a queue is checked when the work is done. */
CUresult check_range(CUdeviceptr address, size_t bytes, Context *context, int *kind) {
  Block *block = block_of(address);
  if (!block) {
    if (!in_arena(address)) {
      *kind = PAGEABLE;
      return OK;
    }
    *kind = UNKNOWN;
    return INVALID_VALUE;
  }
  *kind = block->kind == POOL_MEMORY && block->device < 0 ? PINNED : block->kind;
  return address + bytes <= block->base + block->size ? OK : INVALID_VALUE;
}

static const char NOWHERE[] = "lies in no allocation";

static const char *kind_name(int kind) {
  const char *names[] = {"device memory", "memory of a pool", "pinned memory", "registered memory", "managed memory",
                         "a global variable", "memory of a graph"};
  return names[kind];
}

/* What is wrong with a range that the device uses; NULL: nothing. */
const char *describe_range(CUdeviceptr address, size_t bytes, char *text, size_t room) {
  Block *block = block_of(address);
  if (block && block->valid && address + bytes <= block->base + block->size) return NULL;
  if (block && !block->valid)
    snprintf(text, room,
             "is in %s of %zu bytes at 0x%llx, which is freed or not yet allocated at this place of the queues: "
             "order the work by an event", kind_name(block->kind), block->size, block->base);
  else if (block)
    snprintf(text, room, "ends beyond %s of %zu bytes at 0x%llx", kind_name(block->kind), block->size, block->base);
  else {
    for (unsigned i = 1; i <= TOMBSTONES; i++) {
      unsigned at = (tombstone - i) % TOMBSTONES;
      if (tombstones[at].size && address >= tombstones[at].base &&
          address < tombstones[at].base + tombstones[at].size) {
        snprintf(text, room, "is in %s of %zu bytes at 0x%llx, which has been freed: use after free",
                 kind_name(tombstones[at].kind), tombstones[at].size, tombstones[at].base);
        return text;
      }
    }
    if (!in_arena(address)) return NULL;
    snprintf(text, room, "%s", NOWHERE);
  }
  return text;
}

/* ---- for Python: the ranges that kernels of a device may use, in the order of their addresses */
__attribute__((visibility("default"))) unsigned long long stub_generation(void) { return generation; }

__attribute__((visibility("default"))) size_t stub_ranges(int device, long long *table, size_t room) {
  size_t count = 0;
  lock();
  Context *context = context_of(device);
  for (size_t i = 0; i < block_count; i++) {
    Block *block = blocks[i];
    if (!block->valid || !context || !reachable(block, context)) continue;
    if (count < room) {
      table[2 * count] = block->base;
      table[2 * count + 1] = block->base + block->size;
    }
    count++;
  }
  unlock();
  return count;
}

__attribute__((visibility("default"))) int stub_describe(CUdeviceptr address, size_t bytes, char *text, size_t room) {
  lock();
  const char *found = describe_range(address, bytes, text, room);
  int known = found && strcmp(found, NOWHERE);
  unlock();
  return known;
}

__attribute__((visibility("default"))) size_t stub_held(int kind, size_t *bytes) {
  size_t count = 0;
  lock();
  *bytes = 0;
  for (size_t i = 0; i < block_count; i++)
    if (blocks[i]->held && (kind < 0 ? blocks[i]->device >= 0 : blocks[i]->kind == kind)) {
      count++;
      *bytes += blocks[i]->size;
    }
  unlock();
  return count;
}

/* ---- allocation */
static CUresult allocated(CUdeviceptr *address, size_t bytes, int kind, CUdevice device, unsigned flags) {
  if (!address || !bytes) return INVALID_VALUE;
  CUresult code = unsafe_call();
  if (code) return code;
  lock();
  Block *block = allocate(bytes, device, kind, current_context());
  if (!block) {
    trim_pools(device);
    block = allocate(bytes, device, kind, current_context());
  }
  if (!block) RETURN(OUT_OF_MEMORY);
  block->flags = flags;
  if (device < 0) counts.pinned_allocations++;
  else counts.allocations++;
  *address = block->base + misalignment();
  RETURN(OK);
}

API cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  ENTER
  return allocated(address, bytes, DEVICE_MEMORY, current_context()->device, 0);
}

API cuMemAllocPitch_v2(CUdeviceptr *address, size_t *pitch, size_t width, size_t height, unsigned element) {
  ENTER
  if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16)) return INVALID_VALUE;
  *pitch = (width + 511) / 512 * 512;
  return allocated(address, *pitch * height, DEVICE_MEMORY, current_context()->device, 0);
}

API cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
  ENTER
  if (flags != 1 && flags != 2) return INVALID_VALUE;
  return allocated(address, bytes, MANAGED, current_context()->device, flags);
}

API cuMemAllocHost_v2(void **address, size_t bytes) {
  ENTER
  return allocated((CUdeviceptr *)address, bytes, PINNED, -1, 0);
}

API cuMemHostAlloc(void **address, size_t bytes, unsigned flags) {
  ENTER
  if (flags > 7) return INVALID_VALUE;
  return allocated((CUdeviceptr *)address, bytes, PINNED, -1, flags);
}

static CUresult freed(CUdeviceptr address, int on_host) {
  CUresult code = unsafe_call();
  if (code) return code;
  lock();
  Block *block = block_of(address);
  int ours = block && block->base == address && block->held &&
             (on_host ? block->kind == PINNED : block->kind != PINNED && block->kind != REGISTERED &&
              block->kind != GLOBAL);
  if (!ours) RETURN(INVALID_VALUE);
  if (on_host) counts.pinned_frees++;
  else counts.frees++;
  if (block->kind == POOL_MEMORY || block->kind == GRAPH_MEMORY) RETURN(release_in_order(block, NULL));
      /* waits for nothing */
  block->held = 0;
  counts.implicit_synchronisations++;
  finish_all(); /* as the driver does */
  if (block->pending) RETURN(OK); /* called inside of a kernel: when its work is done */
  give_back(block);
  unlock();
  run_destructors();
  return current_context() ? current_context()->error : OK; /* a finalizer: nobody may see it */
}

API cuMemFree_v2(CUdeviceptr address) { ENTER_AS(AFTER_ERROR) return address ? freed(address, 0) : OK; }
API cuMemFreeHost(void *address) {
  ENTER_AS(AFTER_ERROR)
  return address ? freed((CUdeviceptr)address, 1) : INVALID_VALUE;
}

API cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  ENTER
  if (!free_bytes || !total) return INVALID_VALUE;
  lock();
  *free_bytes = memory_free(current_context()->device);
  *total = settings.memory;
  RETURN(OK);
}

API cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
  ENTER
  lock();
  Block *block = block_of(address);
  if (!block || !block->held) RETURN(NOT_FOUND);
  if (base) *base = block->base;
  if (bytes) *bytes = block->size;
  RETURN(OK);
}

API cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
  ENTER
  if (!address || flags) return INVALID_VALUE;
  lock();
  Block *block = block_of((CUdeviceptr)host);
  if (!block || !block->held || (block->kind != PINNED && block->kind != REGISTERED)) RETURN(INVALID_VALUE);
  *address = (CUdeviceptr)host;
  RETURN(OK);
}

API cuMemHostGetFlags(unsigned *flags, void *host) {
  ENTER
  lock();
  Block *block = block_of((CUdeviceptr)host);
  if (!flags || !block || !block->held || (block->kind != PINNED && block->kind != REGISTERED)) RETURN(INVALID_VALUE);
  *flags = block->flags | 2; /* mapped, as all pinned memory where addresses are unified */
  RETURN(OK);
}

API cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags) {
  ENTER
  if (!host || !bytes || flags > 15) return INVALID_VALUE;
  CUresult code = unsafe_call();
  if (code) return code;
  lock();
  CUdeviceptr base = (CUdeviceptr)host;
  size_t place = first_after(base);
  if (block_of(base) || (place < block_count &&
                         blocks[place]->base < base + bytes)) RETURN(HOST_MEMORY_ALREADY_REGISTERED);
  adopt(base, bytes, -1, REGISTERED, current_context())->flags = flags;
  RETURN(OK);
}

API cuMemHostUnregister(void *host) {
  ENTER_AS(AFTER_ERROR)
  CUresult code = unsafe_call();
  if (code) return code;
  lock();
  Block *block = block_of((CUdeviceptr)host);
  if (!block || block->kind != REGISTERED || block->base != (CUdeviceptr)host) RETURN(HOST_MEMORY_NOT_REGISTERED);
  finish_all();
  give_back(block);
  RETURN(OK);
}

/* ---- what an address is */
static CUresult pointer_value(void *data, int attribute, CUdeviceptr address) {
  Block *block = block_of(address);
  if (block && !block->held) block = NULL;
  int on_host = block && block->device < 0;
  switch (attribute) {
  case 1: if (!block) return INVALID_VALUE; *(void **)data = block->context; return OK;
  case 2: if (!block) return INVALID_VALUE; *(unsigned *)data = on_host ? 1 : 2; return OK;
  case 3: if (!block) return INVALID_VALUE; *(CUdeviceptr *)data = address; return OK;
  case 4: if (!block || (!on_host && block->kind != MANAGED)) return INVALID_VALUE; *(void **)data = (void *)address;
      return OK;
  case 6: if (!block) return INVALID_VALUE; *(int *)data = 1; return OK;
  case 7: if (!block) return INVALID_VALUE; *(unsigned long long *)data = block->id; return OK;
  case 8: *(int *)data = block && block->kind == MANAGED; return OK;
  case 9: if (!block) return INVALID_VALUE; *(int *)data = block->context ? block->context->device : 0; return OK;
  case 10: *(int *)data = 0; return OK; /* cannot be shared with another process */
  case 11: if (!block) return INVALID_VALUE; *(CUdeviceptr *)data = block->base; return OK;
  case 12: if (!block) return INVALID_VALUE; *(size_t *)data = block->size; return OK;
  case 13: *(int *)data = block != NULL; return OK;
  case 14: *(unsigned long long *)data = 0; return OK;
  case 15: case 21: case 22: *(int *)data = 0; return OK;
  case 16: if (!block) return INVALID_VALUE; *(int *)data = 3; return OK;
  case 17: *(void **)data = block ? block->pool : NULL; return OK;
  case 18: if (!block) return INVALID_VALUE; *(size_t *)data = block->room; return OK;
  case 19: if (!block) return INVALID_VALUE; *(CUdeviceptr *)data = block->base; return OK;
  case 20: if (!block) return INVALID_VALUE; *(unsigned long long *)data = block->id; return OK;
  default: return INVALID_VALUE;
  }
}

API cuPointerGetAttribute(void *data, int attribute, CUdeviceptr address) {
  ENTER
  if (!data) return INVALID_VALUE;
  lock();
  RETURN(pointer_value(data, attribute, address));
}

API cuPointerGetAttributes(unsigned count, int *attributes, void **data, CUdeviceptr address) {
  ENTER
  if (!count || !attributes || !data) return INVALID_VALUE;
  lock();
  for (unsigned i = 0; i < count; i++) {
    if (attributes[i] < 1 || attributes[i] > 22) RETURN(INVALID_VALUE);
    if (!data[i]) RETURN(INVALID_VALUE);
    if (!pointer_value(data[i], attributes[i], address)) continue;
    int a = attributes[i];
    size_t width = a == 1 || a == 3 || a == 4 || a == 7 || a == 11 || a == 12 || a == 14 || (a >= 17 && a <= 20) ? 8
        : 4;
    memset(data[i], 0, width); /* of an address that the driver does not know */
    if (attributes[i] == 9) *(int *)data[i] = -2;
  }
  RETURN(OK);
}

API cuPointerSetAttribute(const void *value, int attribute, CUdeviceptr address) {
  ENTER
  lock();
  Block *block = block_of(address);
  RETURN(block && block->held && attribute == 6 ? OK : INVALID_VALUE);
}

API cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, unsigned long long location, unsigned flags,
                          void *stream) {
  ENTER
  lock();
  Block *block = block_of(address);
  RETURN(block && block->kind == MANAGED && address + bytes <= block->base + block->size ? OK : INVALID_VALUE);
}

API cuMemAdvise_v2(CUdeviceptr address, size_t bytes, int advice, unsigned long long location) {
  ENTER
  lock();
  Block *block = block_of(address);
  RETURN(block && block->kind == MANAGED && address + bytes <= block->base + block->size ? OK : INVALID_VALUE);
}
