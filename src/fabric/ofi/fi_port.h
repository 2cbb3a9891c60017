// Port over libfabric. The registration modes that a provider asks for (FI_MR_ENDPOINT, FI_MR_PROV_KEY) end here.
//
// Thread rule: as Port.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "fabric/ofi/fi_library.h"
#include "fabric/ofi/nap_timer.h"
#include "fabric/ofi/ofi_port.h"
#include "fabric/ofi/socket_buffers.h"

namespace tern::ofi {

/// What `info` states, as fi_getinfo returned it for hints that asked for these capabilities.
/// `version`: of libfabric.
Capabilities capabilities_of(const fi_info& info, uint32_t version);

/// "; it needs ...": the device without which that provider is not there. Empty: none is known.
std::string device_of(std::string_view provider);

/// "provider NAME: CALL: meaning; remedy".
std::string explain_error(const FiLibrary& library, const std::string& provider, const char* call, int error);

class FiPort final : public Port {
 public:
  /// Null exactly when `failure` is set. `info` is copied. `cores_shared`: ranks and providers' threads are more than
  /// the cores. `least_room`: the longest message that will be sent, for which a buffer for many must have room.
  static std::unique_ptr<FiPort> open(std::shared_ptr<const FiLibrary> library, const fi_info& info, bool cores_shared,
                                      size_t least_room, Error& failure);
  ~FiPort() override;

  int insert(std::string_view address, Address& result) override;
  void remove(Address address) override;
  int send(Address to, const Piece& piece, bool inject, Context& context) override;
  int receive(const Piece& piece, bool many, Context& context) override;
  int send_tagged(Address to, uint64_t tag, const Piece& piece, bool marked, Context& context) override;
  int receive_tagged(Address from, uint64_t tag, const Piece* pieces, size_t count, Context& context) override;
  int write(Address to, const Piece& piece, uint64_t remote, uint64_t key, Context& context) override;
  int read(Address from, const Piece& piece, uint64_t remote, uint64_t key, Context& context) override;
  int atomic(Address to, AtomicOperation::Kind kind, const Piece& operands, const Piece& result, uint64_t remote,
             uint64_t key, Context& context) override;
  std::unique_ptr<Region> register_memory(const void* address, size_t bytes, const MemoryRights& rights,
                                          int& error) override;
  void cancel(Context& context) override;
  int poll(Completion* out, int most) override;
  int descriptor() const override { return nap_ ? nap_->descriptor() : descriptor_; }
  bool arm() override;
  std::string explain(const char* call, int error) const override {
    return explain_error(*library_, capabilities_.provider, call, error);
  }

 private:
  class FiRegion;

  FiPort(std::shared_ptr<const FiLibrary> library, const fi_info& info);
  Error start();
  Error enable();
  void ask_for_atomics();
  int open_queue();
  int open_vector();
  Error refused(const char* call, long result) const;
  bool take_error(Completion& out);
  uint64_t access_of(const MemoryRights& rights) const;
  uint64_t when_free() const;
  int posted(Address peer, long result);

  std::shared_ptr<const FiLibrary> library_;
  fi_info* info_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* queue_ = nullptr;
  fid_av* vector_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  int descriptor_ = -1;
  std::optional<NapTimer> nap_;           ///< where the provider has no descriptor
  std::optional<SocketBuffers> buffers_;  ///< of the provider `sockets` only
  uint64_t next_key_ = 1;                 ///< where the user of a domain chooses the keys
};

}  // namespace tern::ofi
