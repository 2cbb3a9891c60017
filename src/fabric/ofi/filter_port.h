// FilterPort: a port for tests (TERN_OFI_FILTER) before a provider in software. It offers no more than what EFA, cxi or
// PSM3 state, and does whatever they may do: it delays operations, reorders those whose order is not stated, completes
// in any order, splits reads and writes, and says "again" by chance. It checks what the user of a port must keep to:
// registered memory where that is required, and the limits that are stated.
//
// Source: fi_efa(7), fi_cxi(7), fi_psm3(7) of libfabric 1.17 to 2.1. How keys and addresses of exposed memory are made
// stays as the provider below has it.
//
// Thread rule: as Port.
#pragma once

#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "base/pool.h"
#include "base/rng.h"
#include "fabric/ofi/nap_timer.h"
#include "fabric/ofi/ofi_port.h"

namespace tern::ofi {

enum class FilterKind : uint8_t { none, efa, cxi, psm3 };

/// False: there is no such filter. Empty: none.
bool parse_filter(std::string_view name, FilterKind& kind);

class FilterPort final : public Port {
 public:
  FilterPort(std::unique_ptr<Port> below, FilterKind kind, uint64_t seed = 1);
  ~FilterPort() override;

  int insert(std::string_view address, Address& result) override { return below_->insert(address, result); }
  void remove(Address address) override { below_->remove(address); }
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
  int descriptor() const override { return capabilities_.waits ? below_->descriptor() : nap_.descriptor(); }
  bool arm() override {
    return delayed_.empty() && held_.empty() && (capabilities_.waits ? below_->arm() : nap_.arm());
  }
  std::string explain(const char* call, int error) const override { return below_->explain(call, error); }

 private:
  class FilterRegion;
  enum class Verb : uint8_t { send, send_tagged, write, read, atomic, receive, receive_tagged };
  /// One operation of the user, in one part or several of the port below.
  struct Whole {
    Context* user = nullptr;
    uint32_t parts = 0;
    int error = 0;
    bool many = false;
  };
  struct Part : Context {
    Whole* whole = nullptr;
    Verb verb = Verb::send;
    Address peer = kNoAddress;
    uint64_t tag = 0, remote = 0, key = 0;
    bool marked = false;
    AtomicOperation::Kind kind = AtomicOperation::Kind::fetch_add;
    Piece piece, answer;
    std::vector<std::byte> injected;  ///< the data, whose memory is the user's again
  };

  bool by_chance(uint32_t of) { return rng_.next() % of == 0; }
  void check(const Piece& piece) const;
  Piece below(const Piece& piece) const;
  Part& new_part(Whole& whole, Verb verb, Address peer, const Piece& piece);
  int start(Part& part);
  int start_split(Verb verb, Address peer, const Piece& piece, uint64_t remote, uint64_t key, Context& context);
  int hand_down(Part& part);
  void hand_down_delayed();
  void take(const Completion& completion);

  const std::unique_ptr<Port> below_;
  Rng rng_;
  NapTimer nap_;  ///< where the provider that is played has no descriptor
  Pool<Whole> wholes_;
  Pool<Part> parts_;
  std::unique_ptr<std::byte[]> spare_;  ///< room behind receives whose messages are cut off; null: none are
  std::vector<Part*> delayed_;          ///< not yet handed down, oldest first
  std::vector<Completion> held_;        ///< not yet given to the user, oldest first
  std::vector<Part*> outstanding_;      ///< that the port below has
};

}  // namespace tern::ofi
