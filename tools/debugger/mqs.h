// The interface between a debugger and the library by which it reads a rank's message queues: what libtern_dbg.so
// exports (`extern "C"`), and what the debugger gives it. Names and layouts are the interface's.
// Source: MPI Forum, MPI message queue dumping interface, version 1.0 (2013); compatibility 2, that is without spawned
// processes. Thread rule: the debugger calls from one thread.
#pragma once

#include <cstddef>

extern "C" {

// The debugger's own: only their addresses pass.
struct mqs_image;
struct mqs_process;
struct mqs_type;
// This library's own.
struct mqs_image_info;
struct mqs_process_info;

using mqs_taddr_t = unsigned long;  // an address in the rank
using mqs_tword_t = long;

enum : int { mqs_ok = 0, mqs_no_information = 1, mqs_end_of_list = 2, mqs_first_user_code = 100 };
enum : int { mqs_pending_sends = 0, mqs_pending_receives = 1, mqs_unexpected_messages = 2 };
enum : int { mqs_st_pending = 0, mqs_st_matched = 1, mqs_st_complete = 2 };
enum : int { kMqsCompatibility = 2, kMqsAny = -1 };

struct mqs_target_type_sizes {
  int short_size, int_size, long_size, long_long_size, pointer_size, bool_size, size_t_size;
};

struct mqs_communicator {
  mqs_taddr_t unique_id;
  mqs_tword_t local_rank, size;
  char name[64];
};

struct mqs_pending_operation {
  int status;
  mqs_tword_t desired_local_rank, desired_global_rank;  // kMqsAny: any, or a rank of another job
  int tag_wild;
  mqs_tword_t desired_tag, desired_length;  // bytes
  int system_buffer;                        // the library's, not the program's
  mqs_taddr_t buffer;
  // Of sends, and of what is matched or more.
  mqs_tword_t actual_local_rank, actual_global_rank, actual_tag, actual_length;
  char extra_text[5][64];
};

struct mqs_basic_callbacks {
  void* (*mqs_malloc_fp)(size_t);
  void (*mqs_free_fp)(void*);
  void (*mqs_dprints_fp)(const char*);
  char* (*mqs_errorstring_fp)(int);
  void (*mqs_put_image_info_fp)(mqs_image*, mqs_image_info*);
  mqs_image_info* (*mqs_get_image_info_fp)(mqs_image*);
  void (*mqs_put_process_info_fp)(mqs_process*, mqs_process_info*);
  mqs_process_info* (*mqs_get_process_info_fp)(mqs_process*);
};

struct mqs_image_callbacks {
  void (*mqs_get_type_sizes_fp)(mqs_process*, mqs_target_type_sizes*);
  int (*mqs_find_function_fp)(mqs_image*, char*, int language, mqs_taddr_t*);
  int (*mqs_find_symbol_fp)(mqs_image*, char*, mqs_taddr_t*);
  mqs_type* (*mqs_find_type_fp)(mqs_image*, char*, int language);
  int (*mqs_field_offset_fp)(mqs_type*, char*);
  int (*mqs_sizeof_fp)(mqs_type*);
};

struct mqs_process_callbacks {
  int (*mqs_get_global_rank_fp)(mqs_process*);
  mqs_image* (*mqs_get_image_fp)(mqs_process*);
  int (*mqs_fetch_data_fp)(mqs_process*, mqs_taddr_t, int bytes, void*);
  void (*mqs_target_to_host_fp)(mqs_process*, const void* in, void* out, int bytes);
};
}
