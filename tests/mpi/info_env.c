// ranks: 1 2
/* MPI_Info_create_env gives the same before, while and after MPI runs, and what MPI_INFO_ENV says (MPI 5.0,
 * chapter 10). */
#include "check.h"

static const char *const kKeys[] = {"command", "argv", "maxprocs", "host", "arch", "wdir"};
enum { kCount = sizeof kKeys / sizeof kKeys[0] };

/* "" when there is no such key. */
static void read_key(MPI_Info info, const char *key, char value[MPI_MAX_INFO_VAL]) {
  int length = MPI_MAX_INFO_VAL, found = 0;
  value[0] = '\0';
  MPI_Info_get_string(info, key, &length, value, &found);
  if (!found) value[0] = '\0';
}

static int same(MPI_Info a, MPI_Info b) {
  char one[MPI_MAX_INFO_VAL], other[MPI_MAX_INFO_VAL];
  for (int i = 0; i < kCount; i++) {
    read_key(a, kKeys[i], one);
    read_key(b, kKeys[i], other);
    if (strcmp(one, other) != 0) {
      fprintf(stderr, "%s: '%s' and '%s'\n", kKeys[i], one, other);
      return 0;
    }
  }
  return 1;
}

int main(int argc, char **argv) {
  MPI_Info before, during, after;
  char ranks[MPI_MAX_INFO_VAL], expected[16];
  int size, good;
  MPI_Info_create_env(argc, argv, &before);
  MPI_Init(&argc, &argv);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Info_create_env(argc, argv, &during);
  CHECK(same(before, during));
  CHECK(same(during, MPI_INFO_ENV));
  snprintf(expected, sizeof expected, "%d", size);
  read_key(before, "maxprocs", ranks);
  CHECK(strcmp(ranks, expected) == 0);
  done();
  MPI_Info_create_env(argc, argv, &after);
  good = same(before, after);
  MPI_Info_free(&before);
  MPI_Info_free(&during);
  MPI_Info_free(&after);
  return good ? 0 : 1;
}
