// libfabric, loaded at run time. Only functions that the library exports stand here; the others go through tables that
// its objects bring along. Versions of the symbols are those whose structures the headers of API 1.11 to 1.17 describe;
// later libraries keep them.
//
// Thread rule: a constant once loaded.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <memory>
#include <string>

namespace tern::ofi {

// fi_context2 and FI_MR_ENDPOINT in today's form came with 1.5; 1.11 is the first of the releases that distributions
// still maintain.
inline constexpr uint32_t kOldestApi = FI_VERSION(1, 11), kNewestApi = FI_VERSION(1, 17);

struct FiLibrary {
  /// Null, and the reason, where libfabric is missing or too old.
  static std::shared_ptr<const FiLibrary> load(std::string& why_not);

  decltype(&fi_getinfo) getinfo = nullptr;
  decltype(&fi_freeinfo) freeinfo = nullptr;
  decltype(&fi_dupinfo) dupinfo = nullptr;
  decltype(&fi_fabric) fabric = nullptr;
  decltype(&fi_strerror) strerror = nullptr;
  decltype(&fi_version) version = nullptr;
};

/// What fi_getinfo returned; freed with it.
class FiInfos {
 public:
  FiInfos(std::shared_ptr<const FiLibrary> library, fi_info* first) : library_(std::move(library)), first_(first) {}
  ~FiInfos() {
    if (first_) library_->freeinfo(first_);
  }
  FiInfos(const FiInfos&) = delete;
  FiInfos& operator=(const FiInfos&) = delete;
  fi_info* first() const { return first_; }

 private:
  std::shared_ptr<const FiLibrary> library_;
  fi_info* first_;
};

}  // namespace tern::ofi
