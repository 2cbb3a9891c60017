// Puts and gets. Where they are copies by a CPU (no autonomous path) they go piece by piece: if the peer comes to its
// library meanwhile and a stream is faster (who_copies.h), the rest is streamed. Where either may copy
// (deferred_copies.h) the peer is likely to come soon: pieces begin short and double, so that it waits for no longer
// than this rank has worked alone.
//
//   getter                        owner                    putter                        owner
//     get piece, piece ...          computes                 put piece, piece ...          computes
//                                   is back                                                is back
//     cts(offset) -------------->                            filled(taken), if not told
//     <------------------------- data, from there on         data, from there on ------->
//
// Thread rule: under the rank's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/pool.h"
#include "p2p/core/control_messages.h"
#include "p2p/core/receives.h"
#include "p2p/core/sends.h"

namespace tern {

/// How much of a transfer is moved at a time.
class Pieces {
 public:
  /// Of a message to or from that peer. `stream_faster`: its rest may be streamed; false: all at once. `either`: either
  /// side may copy it.
  Pieces(const Endpoint& peer, bool stream_faster, bool either);
  Pieces() = default;
  /// How much of `left` is moved now.
  size_t next(size_t left);

 private:
  size_t now_bytes_ = 0;  ///< 0: all at once
  size_t most_bytes_ = 0;
};

/// Fetches the data of matched receives.
class Gets {
 public:
  /// What becomes of the receive.
  class Client {
   public:
    /// Its data is all there.
    virtual void fetched(ReceiveRequest& receive, const ReceivedRts& rts) = 0;
    /// The peer has come to its library, or a get has failed: the rest, from `offset` on, is still to come.
    virtual void interrupted(ReceiveRequest& receive, const ReceivedRts& rts, size_t offset) = 0;

   protected:
    ~Client() = default;
  };

  Gets(Receives& receives, Endpoints& endpoints, Client& client)
      : receives_(receives), endpoints_(endpoints), client_(client) {}

  /// `stream_faster`: as CopySituation.
  void begin(ReceiveRequest& receive, const ReceivedRts& rts, bool stream_faster);

 private:
  struct Get final : TransferOperation {
    Gets* owner = nullptr;
    ReceiveRequest* receive = nullptr;
    ReceivedRts rts{};
    size_t offset = 0;  ///< so much of the data is here; `bytes` more are on their way
    Pieces pieces;
    bool stream_faster = false;
    bool in_call = false;   ///< RemoteMemory::get has not returned
    bool finished = false;  ///< done was called meanwhile
    Error error;
  };
  void run(Get& get);
  bool piece_done(Get& get);

  Receives& receives_;
  Endpoints& endpoints_;
  Client& client_;
  Pool<Get, 16> gets_;
};

/// Puts the data of sends to where their receivers want it.
class Puts {
 public:
  Puts(Sends& sends, Endpoints& endpoints, ControlMessages& control)
      : sends_(sends), endpoints_(endpoints), control_(control) {}

  /// Puts the send's data to where `to` says; the send waits for that (kPut). The receiver is told, as the flags `tell`
  /// of `filled` say, at once or when it is done; with none it sees for itself. False: the put has failed at once,
  /// nothing was told.
  bool begin(SendRequest& send, const wire::ClearBody& to, uint8_t tell, size_t offset = 0);

 private:
  struct Put final : TransferOperation {
    Puts* owner = nullptr;
    SendRequest* send = nullptr;
    wire::ClearBody to{};
    uint64_t total = 0;  ///< bytes of the message
    size_t wanted = 0;   ///< of which the receive has room for so many
    size_t offset = 0;   ///< so many are there; `bytes` more are on their way
    Pieces pieces;
    uint8_t tell = 0;       ///< flags of `filled` that the receiver has not been told yet
    bool begun = false;     ///< the first piece has not failed at once
    bool in_call = false;   ///< RemoteMemory::put has not returned
    bool finished = false;  ///< done was called meanwhile
    Error error;
  };
  bool run(Put& put);
  bool piece_done(Put& put);
  void end(Put& put);
  void tell(Put& put, uint8_t flags);

  Sends& sends_;
  Endpoints& endpoints_;
  ControlMessages& control_;
  Pool<Put, 16> puts_;
};

}  // namespace tern
