// libibverbs and libmlx5, loaded at run time (once, for good), so that Tern runs where they are not installed. Only
// functions that the libraries export stand here; the verbs that the header defines inline go through a context's own
// table and need no library.
//
// Thread rule: a constant once loaded.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include <memory>
#include <string>

namespace tern::rdma {

// clang-format off
#define TERN_VERBS_FUNCTIONS(X) \
  X(get_device_list) X(free_device_list) X(get_device_name) X(open_device) X(close_device) \
  X(query_device) X(query_port) \
  X(alloc_pd) X(dealloc_pd) X(reg_mr) X(dereg_mr) \
  X(create_comp_channel) X(destroy_comp_channel) X(get_cq_event) X(ack_cq_events) X(create_cq) X(destroy_cq) \
  X(create_srq) X(modify_srq) X(destroy_srq) X(create_qp) X(modify_qp) X(destroy_qp) X(qp_to_qp_ex) \
  X(create_ah) X(destroy_ah) X(get_async_event) X(ack_async_event)
// clang-format on

struct IbvLibrary {
  /// Null, and the reason, where libibverbs is missing or too old.
  static std::shared_ptr<const IbvLibrary> load(std::string& why_not);

#define TERN_VERBS_MEMBER(name) decltype(&ibv_##name) name = nullptr;
  TERN_VERBS_FUNCTIONS(TERN_VERBS_MEMBER)
#undef TERN_VERBS_MEMBER
  decltype(&_ibv_query_gid_table) query_gid_table = nullptr;

  /// Direct verbs of mlx5 adapters: all there, or all null.
  struct Mlx5 {
    decltype(&mlx5dv_is_supported) is_supported = nullptr;
    decltype(&mlx5dv_create_qp) create_qp = nullptr;
    decltype(&mlx5dv_qp_ex_from_ibv_qp_ex) qp_ex_from_ibv_qp_ex = nullptr;
  } mlx5;
  std::string mlx5_why_not;  ///< why there are none
};

}  // namespace tern::rdma
