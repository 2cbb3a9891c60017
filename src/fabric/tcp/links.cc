#include "fabric/tcp/links.h"

namespace tern::tcp {

Stream::Stream(Peer& owner, uint8_t number, TcpOutbound::Shared& sending)
    : peer(owner), index(number), outbound(sending), inbound(owner.receiving, number) {}

Peer::Peer(PeerId number, Sink& sink, TcpOutbound::Shared& sending)
    : Lane(number), receiving{sending.port,   *this, sink, sending.scratch.get(), TcpOutbound::kScratchBytes,
                              sending.sealed, {}} {
  streams[0] = std::make_unique<Stream>(*this, 0, sending);
}

}  // namespace tern::tcp
