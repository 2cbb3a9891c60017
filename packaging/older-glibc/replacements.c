// What the C++ library and the compiler's unwinder use of a newer C library than the one the wheel is to run on (stubs.py).
// Linked into everything that ships there. Thread rule: any thread, as the functions that they replace.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// 2.32. "False" is always right: reference counts are then changed atomically.
char __libc_single_threaded = 0;

// 2.33: before, <sys/stat.h> called __xstat and others. The kernel's structure is the C library's on 64-bit processors.
int stat(const char* restrict path, struct stat* restrict result) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, result, 0);
}

int lstat(const char* restrict path, struct stat* restrict result) {
  return (int)syscall(SYS_newfstatat, AT_FDCWD, path, result, AT_SYMLINK_NOFOLLOW);
}

int fstat(int file, struct stat* result) { return (int)syscall(SYS_fstat, file, result); }

int fstatat(int folder, const char* restrict path, struct stat* restrict result, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, result, flags);
}

// The large-file names, which are the same functions on 64-bit processors.
__attribute__((alias("stat"))) int stat64(const char* restrict path, struct stat64* restrict result);
__attribute__((alias("lstat"))) int lstat64(const char* restrict path, struct stat64* restrict result);
__attribute__((alias("fstat"))) int fstat64(int file, struct stat64* result);
__attribute__((alias("fstatat"))) int fstatat64(int folder, const char* restrict path, struct stat64* restrict result, int flags);

// 2.36, for std::random_device. Without randomness there is no secret: end, as glibc does.
uint32_t arc4random(void) {
  uint32_t value;
  while (getrandom(&value, sizeof value, 0) != (ssize_t)sizeof value) {
    if (errno != EINTR) abort();
  }
  return value;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
// 2.35, for the unwinder: the tables of the object that has this address. Here by the list of loaded objects, as the
// unwinder itself did before. Weak: the simulator has one of its own.
struct search {
  uintptr_t address;
  struct dl_find_object* result;
};

static int look_at(struct dl_phdr_info* object, size_t size, void* argument) {
  (void)size;
  const struct search* search = argument;
  uintptr_t first = UINTPTR_MAX, last = 0;
  const ElfW(Phdr)* tables = NULL;
  int inside = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    const uintptr_t start = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) tables = part;
    if (part->p_type != PT_LOAD) continue;
    if (start < first) first = start;
    if (start + part->p_memsz > last) last = start + part->p_memsz;
    inside |= search->address >= start && search->address < start + part->p_memsz;
  }
  if (!inside || !tables) return inside ? -1 : 0;
  memset(search->result, 0, sizeof *search->result);
  search->result->dlfo_map_start = (void*)first;
  search->result->dlfo_map_end = (void*)last;
  search->result->dlfo_eh_frame = (void*)(object->dlpi_addr + tables->p_vaddr);
  return 1;
}

int tern_find_object(void* address, struct dl_find_object* result) {
  struct search search = {(uintptr_t)address, result};
  return dl_iterate_phdr(look_at, &search) == 1 ? 0 : -1;
}

__attribute__((weak, visibility("default"))) int _dl_find_object(void* address, struct dl_find_object* result) {
  return tern_find_object(address, result);
}
#endif
