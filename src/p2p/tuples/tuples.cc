#include "p2p/tuples/tuples.h"

namespace tern {

void Tuples::on_message(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  switch (header.kind) {
    case wire::Kind::tuple_ask: receiver.on_ask(peer, header, payload, bytes); return;
    case wire::Kind::tuple_answer: sender.on_answer(peer, header, payload, bytes); return;
    case wire::Kind::tuple_begin: receiver.on_begin(peer, header); return;
    case wire::Kind::tuple_stop: sender.on_stop(peer, header); return;
    case wire::Kind::tuple_owed: receiver.on_owed(peer, header, payload, bytes); return;
    case wire::Kind::tuple_stopped: receiver.on_stopped(peer, header, payload, bytes); return;
    case wire::Kind::tuple_repair: receiver.on_repair(peer, header, payload, bytes); return;
    case wire::Kind::tuple_resume: sender.on_resume(peer, header, payload, bytes); return;
    case wire::Kind::tuple_lost: receiver.on_lost(peer, header, payload, bytes); return;
    case wire::Kind::tuple_landed: sender.on_landed(peer, header, payload, bytes); return;
    case wire::Kind::tuple_want: sender.on_want(peer, header, payload, bytes); return;
    default: return;
  }
}

}  // namespace tern
