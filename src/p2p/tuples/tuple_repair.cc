// Tuple queues: the connection of a queue has failed. See tuples.h.
#include <cstring>

#include "p2p/tuples/tuples.h"

namespace tern {

void Tuples::broken(TupleLine& line, const TupleTicket& ticket) {
  ++counts_.tuple_repairs;
  wire::TupleRepairBody body{};
  body.line = line.token;
  std::memcpy(body.ticket, &ticket, sizeof body.ticket);
  control_.post(*line.to, wire::make_control_header(wire::Kind::tuple_repair, line.remote), &body, sizeof body);
}

// A queue that is not there any more has been closed, and that happens only when all of its messages have landed.
void Tuples::on_repair(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleRepairBody asked;
  if (!wire::parse_body(payload, bytes, asked)) return;
  wire::TupleResumeBody body{};
  TupleQueue* queue = queues_.find(header.token);
  if (queue && queue->lost) return;  // its sender knows by now
  if (!queue || queue->from != &peer || queue->remote != asked.line) {
    body.result = wire::TupleResumeBody::closed;
  } else {
    TupleTicket ticket, answer;
    std::memcpy(&ticket, asked.ticket, sizeof ticket);
    if (queue->path->repair(*queue->queue, ticket, answer)) body.result = wire::TupleResumeBody::failed;
    else std::memcpy(body.ticket, &answer, sizeof body.ticket);
  }
  control_.post(peer, wire::make_control_header(wire::Kind::tuple_resume, asked.line), &body, sizeof body);
}

void Tuples::on_resume(Endpoint& peer, const wire::Header& header, const std::byte* payload, size_t bytes) {
  wire::TupleResumeBody body;
  TupleLine* line = lines_.find(header.token);
  if (!wire::parse_body(payload, bytes, body) || !line || line->to != &peer || line->lost) return;
  if (body.result == wire::TupleResumeBody::failed) {
    line->path->abandon(*line->queue);
    return;
  }
  TupleTicket answer;
  std::memcpy(&answer, body.ticket, sizeof answer);
  line->path->resume(*line->queue, body.result == wire::TupleResumeBody::repaired ? &answer : nullptr);
}

}  // namespace tern
