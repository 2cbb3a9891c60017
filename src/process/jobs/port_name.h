// The name of a port (MPI 5.0, 11.9.1): "tern1.<number>.<secret>.<card>". The number in hexadecimal digits; the secret,
// where the name is handed over privately (MPI_Comm_spawn), and the addresses (wire/card.h) in URL-safe base64. Else
// the secret is in the user's folder (name_folder.h). Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "fabric/tcp/cipher.h"
#include "wire/card.h"

namespace tern {

struct PortName {
  uint64_t number = 0;
  std::optional<TcpKey> secret;
  wire::Card card;
};

/// MPI_MAX_PORT_NAME - 1.
inline constexpr size_t kMaxPortName = 1023;

/// With as many of the addresses as fit.
std::string to_text(PortName name);
/// MPI_ERR_PORT: not the name of a port.
Error parse_port_name(std::string_view text, PortName& name);

}  // namespace tern
