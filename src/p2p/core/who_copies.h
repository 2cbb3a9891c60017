// Who moves the data of a long message: one pure function of what is known of the pair. Everybody who asks that asks it
// here: the choice of a send's protocol, the answer to an announcement, a transfer between two pieces, and a copy that
// either side may make.
//
// Where a copy costs CPU time of a rank (no autonomous path), it matters which rank has time for it. A receiver that is
// in its library takes its part of a stream, which is often faster than one CPU copying alone; for one that computes,
// the data is put into its buffer meanwhile. A nonblocking sender may go off computing, so a long message is only
// announced: the receiver fetches it, or asks for a stream, whichever fits when it gets there; or the sender puts it,
// if it waits before the receiver does (deferred_copies.h), or copies it to a library buffer (copy_out.h). So is one
// whose sender receives as much at the same time (Traffic::exchange): two streams are four copies by two CPUs, two
// fetches are two.
//
// Whether a stream is faster is measured (CopyArbiter::stream_is_faster). Both ranks of a pair have one answer for a
// size, and a request keeps the one that it began with. Thread rule: pure.
#pragma once

#include <cstdint>

namespace tern {

enum class Mover : uint8_t {
  put,       ///< the sender, into the receiver's buffer
  get,       ///< the receiver, from the sender's memory
  stream,    ///< both: messages on the lane
  defer,     ///< it is decided later: the data stays where it is, and the peer knows of it
  copy_out,  ///< the sender, to a library buffer: nobody knows where it is wanted
};

enum class CopySide : uint8_t { sender, receiver };

/// What the answer depends on. `CopySide`: this rank's; the peer is the other one.
struct CopySituation {
  CopySide side = CopySide::sender;
  bool can_put = false;        ///< the sender may write to where the data is wanted
  bool can_get = false;        ///< the receiver may read where it lies
  bool stream_faster = false;  ///< copied by two CPUs it takes less time than by one; false where no CPU copies
  bool peer_present = false;   ///< the peer is in its library, and would take its part
  // Of a sender.
  bool leaves = false;     ///< it is nonblocking and may go off computing, or has a long receive of its own to copy
  bool lockable = false;   ///< either side may copy later; a lock on the data decides which does
  bool soon_over = false;  ///< the message is so short that streaming it delays nobody
  bool idle = false;       ///< the copy was deferred, and this rank has nothing else to do now
  bool patient = false;    ///< idle: a peer that is present is given time to make the copy
};

constexpr Mover who_copies(const CopySituation& s) {
  const bool both_copy = s.stream_faster && s.peer_present;
  if (s.side == CopySide::receiver) return s.can_get && !both_copy ? Mover::get : Mover::stream;
  if (s.idle) {
    if (s.peer_present && s.patient) return Mover::defer;
    return s.can_put ? Mover::put : Mover::copy_out;
  }
  if (s.leaves && s.can_get && (both_copy ? !s.soon_over : s.lockable)) return Mover::defer;
  return s.can_put && !both_copy ? Mover::put : Mover::stream;
}

/// With the peer's presence, which takes a moment to find out, and is asked only where the answer depends on it.
template <typename Present>
Mover who_copies(CopySituation s, Present&& peer_present) {
  s.peer_present = true;
  const Mover with_peer = who_copies(s);
  s.peer_present = false;
  const Mover alone = who_copies(s);
  return with_peer == alone || !peer_present() ? alone : with_peer;
}

}  // namespace tern
