#if __has_include(<rdma/fi_endpoint.h>)
#include "fabric/ofi/fi_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "fabric/ofi/ofi.h"
#include "wire/ofi.h"

namespace tern::ofi {
namespace {

static_assert(sizeof(Context::provider) >= sizeof(fi_context2) && alignof(Context) >= alignof(fi_context2));
static_assert(kAgain == -FI_EAGAIN && kNoMemory == -FI_ENOMEM && kTruncated == FI_ETRUNC && kCancelled == FI_ECANCELED);
static_assert(kNoAddress == FI_ADDR_UNSPEC);

constexpr uint64_t kTransmitOrders = FI_ORDER_SAS | FI_ORDER_SAW;

// A tag's format marks fields of bits by alternating runs (fi_endpoint(3), mem_tag_format): all bits up to the highest
// that is set may be used.
uint64_t usable_tag_bits(uint64_t format) {
  if (format == 0) return 0;
  const int highest = 63 - __builtin_clzll(format);
  return highest == 63 ? ~uint64_t{0} : (uint64_t{1} << (highest + 1)) - 1;
}

// What to do about an error, where that is known.
std::string remedy_of(const std::string& provider, std::string_view call, int error) {
  const bool efa = provider.find("efa") != std::string::npos;
  switch (error) {
    case FI_ENOMEM:
      return "; the limit of locked memory may be too low (ulimit -l unlimited, in /etc/security/limits.conf or for "
             "the launcher's service)";
    case FI_ENODEV:
      if (std::string device = device_of(provider); !device.empty()) return device;
      return "; is the adapter's driver loaded, and does a container have its device?";
    case FI_EINVAL:
      if (call != "fi_enable" || provider.find("ofi_rxm") == std::string::npos) return "";
      return "; the completion queue for so many ranks may be larger than the adapter takes: set FI_UNIVERSE_SIZE=8 "
             "(mpiexec -genv), or less";
    case FI_EACCES:
    case FI_EPERM: return "; may this user open the adapter's device?";
    case FI_ETIMEDOUT:
    case FI_EHOSTUNREACH:
    case FI_ENOTCONN:
      return efa ? "; EFA needs a security group that allows all traffic within itself, in both directions"
                 : "; is the peer's process alive, and the network between the hosts up?";
    case FI_ENODATA: return "; fi_info -l lists the providers of this machine";
    default: return "";
  }
}

// What a provider states and does not do (seen with 1.17).
void leave_out_defects(Capabilities& able) {
  auto is = [&](const char* name) { return able.provider.find(name) != std::string::npos; };
  if (able.provider == "net") able.tagged = false;  // a message without a receive stops all others of its sender
  if (is("ofi_rxd")) {
    able.inject_bytes = 0;  // injected messages, and buffers for many, complete without their contexts
    able.multi_receive = false;
    able.atomics = false;  // it reads an answer's memory that it has freed: SIGSEGV in fi_cq_read
  }
  // Its buffers for many come back with a short message, though a longer one before it is still on its way into them
  // (1.17; what 2.x does has not been looked at).
  if (is("ofi_rxm")) able.multi_receive = false;
  if (able.provider == "shm") able.tagged = false;  // long messages to receives of one peer are not found
  if (is("efa")) able.automatic_progress = false;   // announced, not there (fi_efa(7))
}

// ofi_rxm has FI_OFI_RXM_EAGER_LIMIT (tell_libfabric) from 1.13 to 1.19. Up to it a message goes from its memory to the
// stream, and from there to the receive.
bool is_streamed(std::string_view provider, uint32_t version) {
  if (provider == "tcp;ofi_rxm") return version >= FI_VERSION(1, 13) && version < FI_VERSION(1, 20);
  return provider == "tcp" || provider == "net" || provider == "sockets";
}

}  // namespace

std::string device_of(std::string_view provider) {
  constexpr struct {
    const char *provider, *device;
  } kDevices[] = {{"cxi", "/dev/cxi0 (HPE Slingshot's driver)"},
                  {"efa", "a device in /dev/infiniband, of the driver efa"},
                  {"opx", "/dev/hfi1_0 (Omni-Path's driver hfi1)"},
                  {"psm2", "/dev/hfi1_0 (Omni-Path's driver hfi1)"},
                  {"psm3", "a device in /dev/infiniband, and libpsm3's rights to it"},
                  {"verbs", "a device in /dev/infiniband"}};
  for (const auto& its : kDevices) {
    if (provider.substr(0, provider.find(';')) != its.provider) continue;
    return std::string("; it needs ") + its.device +
           ", which this user may open and a container must be given, and a libfabric built with it (fi_info -l)";
  }
  return {};
}

std::string explain_error(const FiLibrary& library, const std::string& provider, const char* call, int error) {
  error = std::abs(error);
  return "provider " + provider + ": " + call + ": " + library.strerror(error) + remedy_of(provider, call, error);
}

Capabilities capabilities_of(const fi_info& info, uint32_t version) {
  Capabilities able;
  const uint64_t caps = info.caps;
  const fi_domain_attr& domain = *info.domain_attr;
  auto has = [caps](uint64_t bits) { return (caps & bits) == bits; };
  able.provider = info.fabric_attr->prov_name ? info.fabric_attr->prov_name : "";
  able.domain = domain.name ? domain.name : "";
  able.format = std::to_string(info.addr_format);
  const bool usable_keys = domain.mr_key_size <= sizeof(uint64_t) && !(domain.mr_mode & FI_MR_RAW);
  able.rma = has(FI_RMA) && usable_keys;
  able.atomics = has(FI_ATOMIC) && usable_keys;
  able.tagged = has(FI_TAGGED | FI_DIRECTED_RECV);
  able.multi_receive = has(FI_MULTI_RECV);
  able.delivery_complete = info.tx_attr->op_flags & FI_DELIVERY_COMPLETE;
  // Delivery-complete is not enough: it may be reported when the provider has buffered the message (fi_cq(3)).
  able.match_complete = info.tx_attr->op_flags & FI_MATCH_COMPLETE;
  able.free_complete = info.tx_attr->op_flags & FI_INJECT_COMPLETE;
  able.marks = domain.cq_data_size != 0;
  able.send_after_send = info.tx_attr->msg_order & info.rx_attr->msg_order & FI_ORDER_SAS;
  able.send_after_write = info.tx_attr->msg_order & info.rx_attr->msg_order & FI_ORDER_SAW;
  able.automatic_progress = domain.data_progress == FI_PROGRESS_AUTO;
  able.needs_local = domain.mr_mode & FI_MR_LOCAL;
  able.virtual_addresses = domain.mr_mode & FI_MR_VIRT_ADDR;
  able.copied_by_target = !able.automatic_progress && !is_fast(able.provider);
  able.streams = is_streamed(able.provider, version);
  able.pins = domain.mr_mode & (FI_MR_LOCAL | FI_MR_ALLOCATED);
  able.inject_bytes = info.tx_attr->inject_size;
  able.max_bytes = info.ep_attr->max_msg_size;
  able.sends = info.tx_attr->size;
  able.receives = info.rx_attr->size;
  able.receive_pieces = std::max<size_t>(info.rx_attr->iov_limit, 1);
  able.tag_bits = usable_tag_bits(info.ep_attr->mem_tag_format);
  leave_out_defects(able);
  return able;
}

class FiPort::FiRegion final : public Region {
 public:
  explicit FiRegion(fid_mr* mr) : mr_(mr) {
    descriptor_ = fi_mr_desc(mr);
    key_ = fi_mr_key(mr);
  }
  ~FiRegion() override { (void)fi_close(&mr_->fid); }

 private:
  fid_mr* mr_;
};

FiPort::FiPort(std::shared_ptr<const FiLibrary> library, const fi_info& info)
    : library_(std::move(library)), info_(library_->dupinfo(&info)) {
  TERN_ASSERT(info_);
  capabilities_ = capabilities_of(info, library_->version());
  info_->tx_attr->op_flags = 0;  // they were questions; each operation says what it needs
}

std::unique_ptr<FiPort> FiPort::open(std::shared_ptr<const FiLibrary> library, const fi_info& info, bool cores_shared,
                                     size_t least_room, Error& failure) {
  std::unique_ptr<FiPort> port(new FiPort(std::move(library), info));
  port->capabilities_.least_room = least_room;
  port->capabilities_.takes_core = cores_shared && has_polling_thread(port->capabilities_.provider);
  if (port->capabilities_.provider == "sockets") port->buffers_.emplace();
  failure = port->start();
  if (failure) port.reset();
  return port;
}

Error FiPort::refused(const char* call, long result) const {
  return Error(ErrorClass::other, explain(call, int(result)));
}

Error FiPort::start() {
  if (int result = library_->fabric(info_->fabric_attr, &fabric_, nullptr)) return refused("fi_fabric", result);
  if (int result = fi_domain(fabric_, info_, &domain_, nullptr)) return refused("fi_domain", result);
  if (int result = open_queue()) return refused("fi_cq_open", result);
  if (int result = open_vector()) return refused("fi_av_open", result);
  if (int result = fi_endpoint(domain_, info_, &endpoint_, nullptr)) return refused("fi_endpoint", result);
  if (int result = fi_ep_bind(endpoint_, &vector_->fid, 0)) return refused("fi_ep_bind", result);
  if (int result = fi_ep_bind(endpoint_, &queue_->fid, FI_TRANSMIT | FI_RECV)) return refused("fi_ep_bind", result);
  if (Error error = enable()) return error;
  char name[wire::kMaxOfiAddress];
  size_t bytes = sizeof name;
  if (int result = fi_getname(&endpoint_->fid, name, &bytes)) return refused("fi_getname", result);
  address_.assign(name, bytes);
  if (buffers_) buffers_->listening(address_);
  if (capabilities_.atomics) ask_for_atomics();
  return {};
}

// Options belong before fi_enable (fi_setopt(3)), and the provider shm of libfabric 2 does not look at this one later:
// it would write behind the end of a buffer in which a message has no room. Before that version shm has no place for it
// until it is enabled.
Error FiPort::enable() {
  const auto set_least_room = [this] {
    if (!capabilities_.multi_receive) return 0;
    const size_t bytes = capabilities_.least_room;
    return fi_setopt(&endpoint_->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &bytes, sizeof bytes);
  };
  const bool before = library_->version() >= FI_VERSION(2, 0);
  if (int result = before ? set_least_room() : 0) return refused("fi_setopt(FI_OPT_MIN_MULTI_RECV)", result);
  if (int result = fi_enable(endpoint_)) return refused("fi_enable", result);
  if (int result = before ? 0 : set_least_room()) return refused("fi_setopt(FI_OPT_MIN_MULTI_RECV)", result);
  return {};
}

void FiPort::ask_for_atomics() {
  auto words_of = [this](fi_op op) {  // 0: it is not offered
    size_t count = 0;
    return fi_fetch_atomicvalid(endpoint_, FI_UINT64, op, &count) == 0 ? count : 0;
  };
  size_t count = 0;
  const size_t added = words_of(FI_SUM), swapped = words_of(FI_ATOMIC_WRITE);
  capabilities_.atomics = added > 0 && fi_compare_atomicvalid(endpoint_, FI_UINT64, FI_CSWAP, &count) == 0 && count > 0;
  capabilities_.atomic_swap = capabilities_.atomics && swapped > 0;
  capabilities_.atomic_words = capabilities_.atomic_swap ? std::min(added, swapped) : added;
}

// With a descriptor to wait for, where the provider has one.
int FiPort::open_queue() {
  fi_cq_attr wanted{};
  wanted.format = FI_CQ_FORMAT_DATA;  // with the place of a message in a buffer for many
  wanted.size = info_->tx_attr->size + info_->rx_attr->size;
  wanted.wait_obj = FI_WAIT_FD;
  int result = fi_cq_open(domain_, &wanted, &queue_, nullptr);
  if (result == 0 && fi_control(&queue_->fid, FI_GETWAIT, &descriptor_) == 0) {
    capabilities_.waits = descriptor_ >= 0;
    return 0;
  }
  descriptor_ = -1;
  nap_.emplace();
  if (result == 0) (void)fi_close(&queue_->fid);
  queue_ = nullptr;
  wanted.wait_obj = FI_WAIT_NONE;
  return fi_cq_open(domain_, &wanted, &queue_, nullptr);
}

int FiPort::open_vector() {
  fi_av_attr wanted{};
  wanted.type = info_->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_TABLE : info_->domain_attr->av_type;
  return fi_av_open(domain_, &wanted, &vector_, nullptr);
}

FiPort::~FiPort() {
  for (fid* object :
       {endpoint_ ? &endpoint_->fid : nullptr, vector_ ? &vector_->fid : nullptr, queue_ ? &queue_->fid : nullptr,
        domain_ ? &domain_->fid : nullptr, fabric_ ? &fabric_->fid : nullptr}) {
    if (object) (void)fi_close(object);
  }
  library_->freeinfo(info_);
}

int FiPort::insert(std::string_view address, Address& result) {
  fi_addr_t inserted = FI_ADDR_NOTAVAIL;
  const int count = fi_av_insert(vector_, address.data(), 1, &inserted, 0, nullptr);
  if (count < 0) return count;
  if (count != 1 || inserted == FI_ADDR_NOTAVAIL) return -FI_EINVAL;
  result = inserted;
  if (buffers_) buffers_->inserted(result, address);
  return 0;
}

void FiPort::remove(Address address) {
  fi_addr_t removed = address;
  if (buffers_) buffers_->removed(address);
  (void)fi_av_remove(vector_, &removed, 1, 0);
}

namespace {

struct Vector {
  iovec piece;
  void* descriptor;
  explicit Vector(const Piece& from)
      : piece{from.data, from.bytes}, descriptor(from.region ? from.region->descriptor() : nullptr) {}
};

}  // namespace

// Said by nobody, a send completes when the peer's side has confirmed it. `sockets` sends a message back for that, for
// which its thread polls.
uint64_t FiPort::when_free() const { return capabilities_.free_complete ? FI_INJECT_COMPLETE : 0; }

int FiPort::posted(Address peer, long result) {
  if (buffers_ && result == 0) buffers_->posted(peer);
  return int(result);
}

int FiPort::send(Address to, const Piece& piece, bool inject, Context& context) {
  Vector vector(piece);
  fi_msg message{};
  message.msg_iov = &vector.piece;
  message.desc = &vector.descriptor;
  message.iov_count = 1;
  message.addr = to;
  message.context = &context;
  return posted(to, fi_sendmsg(endpoint_, &message, FI_COMPLETION | when_free() | (inject ? FI_INJECT : 0)));
}

int FiPort::receive(const Piece& piece, bool many, Context& context) {
  Vector vector(piece);
  fi_msg message{};
  message.msg_iov = &vector.piece;
  message.desc = &vector.descriptor;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.context = &context;
  return int(fi_recvmsg(endpoint_, &message, FI_COMPLETION | (many ? FI_MULTI_RECV : 0)));
}

int FiPort::send_tagged(Address to, uint64_t tag, const Piece& piece, bool marked, Context& context) {
  Vector vector(piece);
  fi_msg_tagged message{};
  message.msg_iov = &vector.piece;
  message.desc = &vector.descriptor;
  message.iov_count = 1;
  message.addr = to;
  message.tag = tag;
  message.context = &context;
  uint64_t flags = FI_COMPLETION | (capabilities_.match_complete ? FI_MATCH_COMPLETE : when_free());
  if (marked && capabilities_.marks) flags |= FI_REMOTE_CQ_DATA;
  return posted(to, fi_tsendmsg(endpoint_, &message, flags));
}

int FiPort::receive_tagged(Address from, uint64_t tag, const Piece* pieces, size_t count, Context& context) {
  constexpr size_t kMost = 2;  // a buffer and spare room
  TERN_ASSERT(count <= kMost);
  iovec vectors[kMost];
  void* descriptors[kMost];
  for (size_t i = 0; i < count; ++i) {
    vectors[i] = {pieces[i].data, pieces[i].bytes};
    descriptors[i] = pieces[i].region ? pieces[i].region->descriptor() : nullptr;
  }
  fi_msg_tagged message{};
  message.msg_iov = vectors;
  message.desc = descriptors;
  message.iov_count = count;
  message.addr = from;
  message.tag = tag;
  message.context = &context;
  return int(fi_trecvmsg(endpoint_, &message, FI_COMPLETION));
}

namespace {

struct RmaMessage {
  Vector vector;
  fi_rma_iov remote;
  fi_msg_rma message{};
  RmaMessage(Address peer, const Piece& piece, uint64_t address, uint64_t key, Context& context)
      : vector(piece), remote{address, piece.bytes, key} {
    message.msg_iov = &vector.piece;
    message.desc = &vector.descriptor;
    message.iov_count = 1;
    message.addr = peer;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &context;
  }
};

}  // namespace

int FiPort::write(Address to, const Piece& piece, uint64_t remote, uint64_t key, Context& context) {
  RmaMessage its(to, piece, remote, key, context);
  return posted(to, fi_writemsg(endpoint_, &its.message, FI_COMPLETION | FI_DELIVERY_COMPLETE));
}

int FiPort::read(Address from, const Piece& piece, uint64_t remote, uint64_t key, Context& context) {
  RmaMessage its(from, piece, remote, key, context);
  return posted(from, fi_readmsg(endpoint_, &its.message, FI_COMPLETION));
}

int FiPort::atomic(Address to, AtomicOperation::Kind kind, const Piece& operands, const Piece& result, uint64_t remote,
                   uint64_t key, Context& context) {
  auto* words = static_cast<uint64_t*>(operands.data);
  const size_t count = result.bytes / sizeof(uint64_t);
  fi_ioc operand{words, count}, compare{words + 1, 1}, answer{result.data, count};
  void* operand_descriptor = operands.region ? operands.region->descriptor() : nullptr;
  void* answer_descriptor = result.region ? result.region->descriptor() : nullptr;
  fi_rma_ioc target{remote, count, key};
  fi_msg_atomic message{};
  message.msg_iov = &operand;
  message.desc = &operand_descriptor;
  message.iov_count = 1;
  message.addr = to;
  message.rma_iov = &target;
  message.rma_iov_count = 1;
  message.datatype = FI_UINT64;
  message.context = &context;
  if (kind == AtomicOperation::Kind::compare_swap) {
    message.op = FI_CSWAP;
    return posted(to, fi_compare_atomicmsg(endpoint_, &message, &compare, &operand_descriptor, 1, &answer,
                                           &answer_descriptor, 1, FI_COMPLETION));
  }
  message.op = kind == AtomicOperation::Kind::swap ? FI_ATOMIC_WRITE : FI_SUM;
  return posted(to, fi_fetch_atomicmsg(endpoint_, &message, &answer, &answer_descriptor, 1, FI_COMPLETION));
}

// FI_WRITE: this rank's writes to others read the memory; FI_READ: its reads write it.
uint64_t FiPort::access_of(const MemoryRights& rights) const {
  uint64_t access = FI_SEND;
  if (rights.local_write) access |= FI_RECV;
  if (capabilities_.rma || capabilities_.atomics) access |= rights.local_write ? FI_READ | FI_WRITE : FI_WRITE;
  if (rights.remote_read || rights.remote_atomic) access |= FI_REMOTE_READ;
  if (rights.remote_write || rights.remote_atomic) access |= FI_REMOTE_WRITE;
  return access;
}

std::unique_ptr<Region> FiPort::register_memory(const void* address, size_t bytes, const MemoryRights& rights,
                                                int& error) {
  const int mode = info_->domain_attr->mr_mode;
  const uint64_t key = mode & FI_MR_PROV_KEY ? 0 : next_key_++;
  fid_mr* mr = nullptr;
  error = fi_mr_reg(domain_, address, bytes, access_of(rights), 0, key, 0, &mr, nullptr);
  if (error != 0) return nullptr;
  if (mode & FI_MR_ENDPOINT) {
    error = fi_mr_bind(mr, &endpoint_->fid, 0);
    if (error == 0) error = fi_mr_enable(mr);
    if (error != 0) {
      (void)fi_close(&mr->fid);
      return nullptr;
    }
  }
  return std::make_unique<FiRegion>(mr);
}

void FiPort::cancel(Context& context) { (void)fi_cancel(&endpoint_->fid, &context); }

int FiPort::poll(Completion* out, int most) {
  constexpr int kBatch = 16;  // as many as the path takes at a time
  fi_cq_data_entry entries[kBatch];
  const ssize_t count = fi_cq_read(queue_, entries, size_t(std::min(most, kBatch)));
  if (count > 0) {
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_data_entry& entry = entries[i];
      Completion& its = out[i];
      its = {};
      its.context = static_cast<Context*>(entry.op_context);
      its.released = entry.flags & FI_MULTI_RECV;
      its.message = entry.flags & FI_RECV;
      its.marked = (entry.flags & FI_REMOTE_CQ_DATA) || !capabilities_.marks;
      its.data = static_cast<const std::byte*>(entry.buf);
      its.bytes = entry.len;
    }
    return int(count);
  }
  if (count == -FI_EAGAIN) return 0;
  if (count == -FI_EAVAIL) return take_error(out[0]) ? 1 : 0;
  return int(count);
}

bool FiPort::take_error(Completion& out) {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(queue_, &entry, 0) != 1) return false;
  out = {};
  out.context = static_cast<Context*>(entry.op_context);
  out.error = entry.err;
  out.released = true;
  out.message = entry.err == FI_ETRUNC;
  out.marked = true;
  out.bytes = entry.len + entry.olen;
  return out.context != nullptr;
}

bool FiPort::arm() {
  if (nap_) return nap_->arm();
  fid* queue = &queue_->fid;
  return fi_trywait(fabric_, &queue, 1) == 0;
}

}  // namespace tern::ofi
#endif
