// The handshake of one connection: both sides prove that they hold the job's key before a byte of the stream
// is believed. Bytes in, bytes out, no sockets: the same machine is driven by the path, the unit test and the
// fuzzer.
//
// The authentication of each message is BLAKE2b, keyed with the job's key, over the transcript: all bytes of the
// handshake so far, both directions, including this message. Each side's nonce is fresh, so a proof cannot be replayed;
// the stage and both ranks are in the transcript, so none can be reflected or used between other ranks. After the
// handshake the stream is encrypted if TERN_ENCRYPT is set (cipher.h), with keys derived from the job's key and the
// whole transcript, so from both nonces. Without it, attackers who can change packets on the wire are out of scope.
//
// Thread rule: a value of its connection, under the rank's lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/peer_table.h"
#include "fabric/ip/key_exchange.h"
#include "fabric/tcp/cipher.h"
#include "wire/handshake.h"

namespace tern {

/// What a rank states in every handshake; outlives them.
struct TcpIdentity {
  RankName name;
  TcpKey key{};
  uint32_t version = 0;             ///< wire::kVersion
  std::string agreement;            ///< wire::Greeting::agreement
  bool encrypts = false;            ///< a key is exchanged
  const PeerTable* jobs = nullptr;  ///< has the secrets of other jobs; null: there are no others
};

/// The secret that this job gives to jobs it meets; it does not reveal the job's key.
JobSecret secret_for_others(const TcpKey& job_key);

class TcpHandshake {
 public:
  enum class State : uint8_t {
    talking,  ///< wants `need` more bytes from the peer
    asks,     ///< the peer has proven itself; call `decide`
    decided,  ///< over; `verdict` tells how
    rubbish,  ///< the peer is not a Tern rank: close without an answer
  };

  /// The side that listens.
  explicit TcpHandshake(const TcpIdentity& self) : TcpHandshake(self, kNoRank) {}
  /// The side that calls `target`, for the `generation`-th connection of that `stream`; `stood` is the last one it has
  /// used. kNoRank: the side that listens.
  ~TcpHandshake();
  TcpHandshake(const TcpIdentity& self, const RankName& target, uint8_t stream = 0, uint32_t generation = 1,
               uint32_t stood = 0);

  State state() const { return state_; }
  /// Bytes that the peer's next piece must have; never more than the present message, so nothing of the stream is
  /// consumed.
  size_t need() const { return need_ - input_.size(); }
  /// Part of a message has arrived.
  bool partial() const { return !input_.empty(); }
  /// Takes at most `need` bytes from the peer.
  void feed(const std::byte* data, size_t bytes);
  /// In state `asks`: the verdict on the connection. `received`: bytes of the stream that have arrived here. The caller
  /// (who states this first, and then waits for the verdict) reads no more from the earlier connection afterwards.
  void decide(wire::Verdict verdict, uint64_t received = 0);
  /// Bytes to send now; the caller sends all of them and clears the string.
  std::string& output() { return output_; }

  wire::Verdict verdict() const { return verdict_; }
  /// Both sides have agreed: bytes of the stream that have arrived at the peer.
  uint64_t received() const { return received_; }
  /// Acceptor, once greeted: what the connection is for.
  uint8_t stream() const { return theirs_.stream; }
  uint32_t generation() const { return theirs_.generation; }
  uint32_t stood() const { return theirs_.stood; }
  /// The side that calls, or the one that listens.
  bool calls() const { return initiator_; }
  /// The other rank: known from the start to the initiator, to the acceptor once it is proven.
  const RankName& peer() const { return peer_; }
  /// The peer's hello was authentic (perhaps an old one, replayed): preferred when places are short.
  bool greeted() const { return greeted_; }
  /// Initiator: the proof has been sent, so the peer may consider the connection established.
  bool committed() const { return committed_; }
  /// Both sides have agreed: the key for what the caller sends on this connection, or for what the other side does.
  TcpKey session_key(bool from_caller) const;
  /// Why ranks of the same job cannot connect, for the user: after a verdict of version or agreement.
  std::string describe(wire::Verdict verdict) const;

 private:
  void on_whole_message();
  bool choose_key(uint64_t job);
  void append(std::string_view message);
  bool authentic(std::string_view message);
  wire::Greeting greeting(const RankName& to);
  std::array<uint8_t, wire::kProofBytes> authentication() const;
  wire::Verdict judge(const wire::Greeting& greeting) const;

  const TcpIdentity& self_;
  TcpKey key_{};  ///< the job's; with a rank of another job, one made of both jobs' secrets
  RankName peer_;
  bool initiator_;
  bool greeted_ = false;
  bool committed_ = false;
  State state_ = State::talking;
  wire::HandshakeStage expected_;
  wire::Verdict verdict_ = wire::Verdict::refused;
  size_t need_ = wire::kHandshakePrefixBytes;
  std::string input_;  ///< the message that is arriving
  std::string output_;
  std::string transcript_;  ///< every whole message so far
  wire::Greeting theirs_;
  std::optional<KeyExchange> exchange_;  ///< if the stream is to be encrypted
  ExchangeKey shared_{};                 ///< and its result
  uint64_t received_ = 0;
};

}  // namespace tern
