#include "fabric/ip/host_question.h"

#include <cerrno>

namespace tern {
namespace {

// The port of tcpmux, a service that is not in use. If something listens there, the connection is an answer, too.
constexpr uint16_t kClosedPort = 1;

}  // namespace

void HostQuestion::ask(StreamPort& port, const SocketAddress& address) {
  SocketAddress target = address;
  target.set_port(kClosedPort);
  const int call = port.connect(target, {});
  refused_ = call == -ECONNREFUSED;
  call_ = StreamHandle(port, call);
}

bool HostQuestion::answered(StreamPort& port) {
  if (refused_) {
    refused_ = false;
    return true;
  }
  if (!call_ || port.ready(call_.get(), kWritable) == 0) return false;
  const int error = port.error(call_.get());
  call_.reset();
  return error == 0 || error == ECONNREFUSED || error == ECONNRESET;
}

}  // namespace tern
