// The start of an executable on C libraries before 2.34. Since then crt1.o leaves the constructors to the C library; an
// older one expects a function that runs them, and would run none. Linked with --wrap=__libc_start_main.
#include <stddef.h>

typedef void (*constructor)(int, char**, char**);
typedef int (*program)(int, char**, char**);
extern const constructor __init_array_start[] __attribute__((visibility("hidden")));
extern const constructor __init_array_end[] __attribute__((visibility("hidden")));
void _init(void);
int __real___libc_start_main(program, int, char**, constructor, void (*)(void), void (*)(void), void*);

static void construct(int count, char** arguments, char** environment) {
  _init();
  for (const constructor* next = __init_array_start; next != __init_array_end; ++next) (*next)(count, arguments, environment);
}

int __wrap___libc_start_main(program main, int count, char** arguments, constructor init, void (*fini)(void),
                             void (*linker_fini)(void), void* stack_end) {
  return __real___libc_start_main(main, count, arguments, init ? init : construct, fini, linker_fini, stack_end);
}
