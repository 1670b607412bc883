/* Memory in the order of a stream: pools, and when a block of theirs may be used again. */
#include "stub.h"

typedef struct { int kind, id; } Location;
typedef struct {
  int allocation, handles;
  Location location;
  void *security;
  size_t maximum;
  unsigned short usage;
  unsigned char reserved[54];
} PoolProperties;
typedef struct { Location location; int flags; } Access;

static Pool *pools;
static Pool *standard[MAX_DEVICES], *current[MAX_DEVICES], *host_pool;
static Block **free_blocks; /* of all pools: freed, not given back to the device yet */
static size_t free_count, free_room;

static Pool *new_pool(CUdevice device, int is_standard) {
  Pool *pool = calloc(1, sizeof *pool);
  pool->magic = POOL;
  pool->device = device;
  pool->standard = is_standard;
  pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
  if (device >= 0) pool->access = 1u << device;
  pool->next = pools;
  return pools = pool;
}

static Pool *standard_pool(CUdevice device) {
  if (!standard[device]) current[device] = standard[device] = new_pool(device, 1);
  return standard[device];
}

static Pool *current_pool(CUdevice device) {
  standard_pool(device);
  return current[device];
}

/* What the device does when it comes to an allocation or a release. */
void block_allocated(Block *block) {
  block->pending--;
  block->valid = 1;
  if (settings.execute && block->room <= 64 << 20) memset((void *)block->base, 0xff, block->room);
  memory_changed();
}

static void give_back_from_pool(Block *block) {
  block->pool->reserved -= block->room;
  for (size_t i = 0; i < free_count; i++)
    if (free_blocks[i] == block) free_blocks[i] = free_blocks[--free_count];
  give_back(block);
}

void block_released(Block *block) {
  block->pending--;
  block->valid = 0;
  if (settings.execute && block->room <= 64 << 20) memset((void *)block->base, 0xfb, block->room);
  memory_changed();
}

/* Memory of a graph exists as long as a node of a graph or of an executable allocates or releases it. */
void node_uses(Block *block, int count) {
  if (block->kind != GRAPH_MEMORY) return;
  block->graphs += count;
  if (!block->graphs && !block->pending && (!block->valid || !block->held)) give_back(block);
}

static void trim(Pool *pool, CUdevice device, uint64_t keep) {
  for (size_t i = 0; i < free_count;) {
    Block *block = free_blocks[i];
    int matches = pool ? block->pool == pool : block->device == device;
    if (matches && !block->pending && !block->valid && !block->held &&
        block->pool->reserved > keep) give_back_from_pool(block);
    else i++;
  }
}

void trim_pools(CUdevice device) { if (device >= 0) trim(NULL, device, 0); }

/* Free a block when the work that is queued before is done; without a stream, when all work is done. */
CUresult release_in_order(Block *block, Stream *stream) {
  Work work = {.kind = RELEASE, .context = block->context, .as.block = block};
  block->held = 0;
  block->released_in = stream;
  if (block->pool) {
    block->pool->used -= block->room;
    if (free_count == free_room) {
      free_room = free_room ? 2 * free_room : 64;
      free_blocks = realloc(free_blocks, free_room * sizeof *free_blocks);
    }
    free_blocks[free_count++] = block;
  } else block->graphs++; /* the operation's, as that of a node */
  if (stream) release(queue(&work, stream));
  else release(queue_after(&work, block->context, NULL, 0, NULL)); /* at once: cuMemFree waits for nothing here */
  return OK;
}

static Block *take(Pool *pool, size_t bytes, Stream *stream) {
  size_t room = (bytes + 511) / 512 * 512;
  Block *found = NULL;
  for (size_t i = 0; i < free_count; i++) {
    Block *block = free_blocks[i];
    if (block->pool != pool || block->room < room || block->room > 2 * room) continue;
    /* freed in this stream: in its order; elsewhere: only when the release is done */
    if (block->released_in != stream && block->pending) continue;
    if (!found || block->room < found->room) found = block;
  }
  if (!found) return NULL;
  for (size_t i = 0; i < free_count; i++)
    if (free_blocks[i] == found) free_blocks[i] = free_blocks[--free_count];
  found->size = bytes;
  found->held = 1;
  found->id = next_id();
  return found;
}

static CUresult allocate_in_order(CUdeviceptr *address, size_t bytes, Pool *pool, void *handle) {
  Stream *stream;
  if (!address || !bytes) return INVALID_VALUE;
  if (!alive(pool, POOL)) return INVALID_VALUE;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  if (pool->device >= 0 && stream->context->device != pool->device &&
      !(pool->access >> stream->context->device & 1)) RETURN(INVALID_VALUE);
  if (pool->maximum && pool->used + bytes > pool->maximum) RETURN(OUT_OF_MEMORY);
  if (stream->capture) { /* memory of the graph: allocated now, usable in the order of its nodes */
    Block *block = allocate(bytes, pool->device, GRAPH_MEMORY, stream->context);
    if (!block) RETURN(OUT_OF_MEMORY);
    block->valid = 0;
    block->graphs = 1;
    Work work = {.kind = ALLOCATE, .context = stream->context, .as.block = block};
    *address = block->base;
    code = capture_work(stream, &work, NULL);
    if (code) free_work(&work);
    RETURN(code);
  }
  Block *block = take(pool, bytes, stream);
  if (!block) {
    block = allocate(bytes, pool->device, POOL_MEMORY, stream->context);
    if (!block) {
      trim_pools(pool->device);
      block = allocate(bytes, pool->device, POOL_MEMORY, stream->context);
    }
    if (!block && queue_has_work()) { /* memory that is freed in other streams comes back when their work is done */
      finish_all();
      trim_pools(pool->device);
      block = allocate(bytes, pool->device, POOL_MEMORY, stream->context);
    }
    if (!block) RETURN(OUT_OF_MEMORY);
    block->valid = 0;
    block->pool = pool;
    pool->reserved += block->room;
    if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
    memory_changed();
  }
  pool->used += block->room;
  if (pool->used > pool->used_high) pool->used_high = pool->used;
  counts.allocations++;
  Work work = {.kind = ALLOCATE, .context = stream->context, .as.block = block};
  *address = block->base + misalignment();
  release(queue(&work, stream));
  RETURN(OK);
}

API cuMemAllocAsync(CUdeviceptr *address, size_t bytes, void *stream) {
  ENTER
  lock();
  Stream *found;
  CUresult code = find_stream(stream, &found);
  Pool *pool = code ? NULL : current_pool(found->context->device);
  unlock();
  return code ? code : allocate_in_order(address, bytes, pool, stream);
}

API cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, Pool *pool, void *stream) {
  ENTER
  return allocate_in_order(address, bytes, pool, stream);
}

API cuMemFreeAsync(CUdeviceptr address, void *handle) {
  ENTER_AS(AFTER_ERROR)
  Stream *stream;
  if (!address) return OK;
  lock();
  CUresult code = find_stream(handle, &stream);
  if (code) RETURN(code);
  Block *block = block_of(address);
  if (!block || block->base != address || !block->held || block->kind == PINNED ||
      block->kind == REGISTERED || block->kind == GLOBAL) RETURN(INVALID_VALUE);
  if (stream->capture) {
    if (block->kind != GRAPH_MEMORY) RETURN(INVALID_VALUE);
    block->graphs++;
    Work work = {.kind = RELEASE, .context = stream->context, .as.block = block};
    code = capture_work(stream, &work, NULL);
    if (code) free_work(&work);
    RETURN(code);
  }
  counts.frees++;
  RETURN(release_in_order(block, stream));
}

/* ---- pools */
API cuDeviceGetDefaultMemPool(Pool **pool, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (!pool) return INVALID_VALUE;
  if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
  lock();
  *pool = standard_pool(device);
  RETURN(OK);
}

API cuDeviceGetMemPool(Pool **pool, CUdevice device) {
  ENTER_AS(NO_CONTEXT)
  if (!pool) return INVALID_VALUE;
  if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
  lock();
  *pool = current_pool(device);
  RETURN(OK);
}

API cuDeviceSetMemPool(CUdevice device, Pool *pool) {
  ENTER_AS(NO_CONTEXT)
  if (device < 0 || device >= settings.devices) return INVALID_DEVICE;
  if (!alive(pool, POOL) || pool->device != device) return INVALID_VALUE;
  lock();
  standard_pool(device);
  current[device] = pool;
  RETURN(OK);
}

static CUresult located(Pool **pool, const Location *location) {
  if (!pool || !location) return INVALID_VALUE;
  lock();
  if (location->kind == 1) {
    if (location->id < 0 || location->id >= settings.devices) RETURN(INVALID_DEVICE);
    *pool = current_pool(location->id);
  } else if (location->kind >= 2 && location->kind <= 4) {
    if (!host_pool) host_pool = new_pool(-1, 1);
    *pool = host_pool;
  } else RETURN(INVALID_VALUE);
  RETURN(OK);
}

API cuMemGetDefaultMemPool(Pool **pool, const Location *location, int kind) {
  ENTER_AS(NO_CONTEXT)
  return located(pool, location);
}
API cuMemGetMemPool(Pool **pool, const Location *location, int kind) {
  ENTER_AS(NO_CONTEXT)
  return located(pool, location);
}

API cuMemPoolCreate(Pool **pool, const PoolProperties *properties) {
  ENTER_AS(NO_CONTEXT)
  if (!pool || !properties) return INVALID_VALUE;
  if (properties->handles) return NOT_SUPPORTED; /* nothing can be shared with another process */
  int on_device = properties->location.kind == 1;
  if (!on_device && (properties->location.kind < 2 || properties->location.kind > 4)) return INVALID_VALUE;
  if (on_device && (properties->location.id < 0 || properties->location.id >= settings.devices)) return INVALID_DEVICE;
  lock();
  *pool = new_pool(on_device ? properties->location.id : -1, 0);
  (*pool)->maximum = properties->maximum;
  RETURN(OK);
}

API cuMemPoolDestroy(Pool *pool) {
  ENTER_AS(AFTER_ERROR)
  if (!alive(pool, POOL) || pool->standard) return INVALID_VALUE;
  lock();
  trim(pool, pool->device, 0);
  for (int i = 0; i < MAX_DEVICES; i++)
    if (current[i] == pool) current[i] = standard[i];
  pool->magic = 0; /* its memory stays, since blocks may live on */
  RETURN(OK);
}

API cuMemPoolTrimTo(Pool *pool, size_t keep) {
  ENTER
  if (!alive(pool, POOL)) return INVALID_VALUE;
  lock();
  trim(pool, pool->device, keep);
  RETURN(OK);
}

static uint64_t *pool_number(Pool *pool, int attribute) {
  switch (attribute) {
  case 4: return &pool->threshold;
  case 5: return &pool->reserved;
  case 6: return &pool->reserved_high;
  case 7: return &pool->used;
  case 8: return &pool->used_high;
  default: return NULL;
  }
}

API cuMemPoolGetAttribute(Pool *pool, int attribute, void *value) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(pool, POOL) || !value) return INVALID_VALUE;
  lock();
  if (attribute >= 1 && attribute <= 3) *(int *)value = pool->reuse[attribute - 1];
  else if (attribute == 9) *(int *)value = 1; /* pinned: on its device */
  else if (attribute == 10 || attribute == 14 || attribute == 15) *(int *)value = 0;
  else if (attribute == 11) *(int *)value = pool->device < 0 ? 0 : pool->device;
  else if (attribute == 12) *(int *)value = pool->device < 0 ? 2 : 1;
  else if (attribute == 13) *(uint64_t *)value = pool->maximum;
  else {
    uint64_t *number = pool_number(pool, attribute);
    if (!number) RETURN(INVALID_VALUE);
    *(uint64_t *)value = *number;
  }
  RETURN(OK);
}

API cuMemPoolSetAttribute(Pool *pool, int attribute, const void *value) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(pool, POOL) || !value) return INVALID_VALUE;
  lock();
  if (attribute >= 1 && attribute <= 3) pool->reuse[attribute - 1] = *(const int *)value;
  else if (attribute == 4) pool->threshold = *(const uint64_t *)value;
  else if (attribute == 6 || attribute == 8) {
    if (*(const uint64_t *)value) RETURN(INVALID_VALUE); /* a maximum can only be set to zero */
    *pool_number(pool, attribute) = attribute == 6 ? pool->reserved : pool->used;
  } else RETURN(INVALID_VALUE);
  RETURN(OK);
}

API cuMemPoolSetAccess(Pool *pool, const Access *entries, size_t count) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(pool, POOL) || (count && !entries)) return INVALID_VALUE;
  lock();
  for (size_t i = 0; i < count; i++) {
    if (entries[i].location.kind != 1) continue;
    CUdevice device = entries[i].location.id;
    if (device < 0 || device >= settings.devices) RETURN(INVALID_DEVICE);
    if (device == pool->device && !entries[i].flags) RETURN(INVALID_VALUE);
    if (entries[i].flags) pool->access |= 1u << device;
    else pool->access &= ~(1u << device);
  }
  memory_changed();
  RETURN(OK);
}

API cuMemPoolGetAccess(int *flags, Pool *pool, const Location *location) {
  ENTER_AS(NO_CONTEXT)
  if (!alive(pool, POOL) || !flags || !location) return INVALID_VALUE;
  *flags = location->kind == 1 && pool->access >> location->id & 1 ? 3 : 0;
  return OK;
}

API cuMemPoolExportToShareableHandle(void *handle, Pool *pool, int kind, unsigned long long flags) {
  ENTER
  return NOT_SUPPORTED;
}
API cuMemPoolImportFromShareableHandle(Pool **pool, void *handle, int kind, unsigned long long flags) {
  ENTER
  return NOT_SUPPORTED;
}
API cuMemPoolExportPointer(void *data, CUdeviceptr address) { ENTER return NOT_SUPPORTED; }
API cuMemPoolImportPointer(CUdeviceptr *address, Pool *pool, void *data) { ENTER return NOT_SUPPORTED; }
