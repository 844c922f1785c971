/* New memory holds NaN: preloaded by tests/machines.py, so that a kernel that reads what it has not written is found out. */
#include <stddef.h>
#include <string.h>

extern void *__libc_malloc(size_t);
extern void *__libc_memalign(size_t, size_t);

static void *filled(void *memory, size_t size) { return memory && size < (1 << 26) ? memset(memory, 0xff, size) : memory; }

void *malloc(size_t size) { return filled(__libc_malloc(size), size); }

void *aligned_alloc(size_t alignment, size_t size) { return filled(__libc_memalign(alignment, size), size); }

int posix_memalign(void **memory, size_t alignment, size_t size) {
  *memory = filled(__libc_memalign(alignment, size), size);
  return *memory ? 0 : 12; /* ENOMEM */
}
