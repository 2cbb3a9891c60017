// SentLog: what a sender remembers of its messages to one peer, so that it can tell which of them a RECEIVER_READY is
// for.
//
// Small and Yuan (2009, section 4.1) number messages by counters for every (peer, communicator, tag), whose memory
// grows with the tags. Here every message to a peer is counted once, whatever its tag, and the keys of the last few are
// kept; an announcement says how many messages of this sender its receiver had seen and how many posted receives of the
// same key were before it:
//
//   sent     1:a  2:b  3:a  4:a | 5 ..               a, b: keys (context, tag)
//   ready(key a, arrived = 2, ahead = 1):             of the a's after number 2, the receive will match the second:
//   number 4, which has gone already (useless); with ahead = 2: the next a that is sent (held until then).
//
// An announcement that the log does not reach back to is dropped: an announcement is an offer, dropping it is always
// safe. So memory is bounded: kLogged entries and kHeld offers a peer, with any number of tags.
//
// Offers of one key are in one list, in the order of their messages, so that finding one and passing it take the same
// time whether there is one or a thousand.
//
// Puts that no message follows (FIN elimination) are not counted, since their receiver does not see them in order with
// the messages; they are known by the serial of the announcement they used. So is a put whose message has crossed that
// announcement: its receiver may see the data before the message.
//
// Thread rule: under the rank's lock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.h"
#include "base/pool.h"
#include "wire/header.h"

namespace tern {

/// Whether message number a comes after b. Numbers wrap: later by less than half the range.
inline bool after(uint32_t a, uint32_t b) { return int32_t(a - b) > 0; }

/// An announced receive, as its sender keeps it.
struct Ready {
  uint64_t context = 0;
  int tag = 0;
  uint32_t token = 0;  ///< the receiver's
  wire::ReadyBody body{};

  /// Where a message of so many bytes may be put, and how much of it.
  wire::ClearBody clear_for(uint64_t message_bytes) const {
    return {.receiver_token = token,
            .reserved = 0,
            .bytes = std::min(message_bytes, body.capacity),
            .address = body.address,
            .key = {body.key[0], body.key[1]}};
  }
};

class SentLog {
 public:
  static constexpr uint32_t kLogged = 64;
  /// A program that posts a thousand receives and computes finds them filled. Shared memory has room for twice as many
  /// announcements, and for as many answers (shm/segment.h).
  static constexpr size_t kHeld = 1024;

  /// `sent`: how many messages have gone unlogged.
  explicit SentLog(uint32_t sent) : floor_(sent) {}

  /// A message of that number goes out now. `token`: of a send that waits for its receiver's answer; 0: it does not.
  void note(uint64_t context, int tag, uint32_t number, uint32_t token) {
    log(Entry{.context = context, .tag = tag, .number = number, .token = token, .serial = 0});
    if (held() != 0) pass(context, tag);
  }
  /// A put goes out that uses this announcement and is followed by no message.
  void note_put(const Ready& ready) {
    const uint64_t context = ready.context;
    const int tag = ready.tag;
    log(Entry{.context = context, .tag = tag, .number = 0, .token = 0, .serial = ready.body.serial});
    pass(context, tag);  // ends `ready`, if it is the one that is kept
  }
  /// The message of a send that waits for its answer, `token`, has crossed this announcement, and its data is put there
  /// without another word: from now on it is known by the announcement's serial.
  void note_crossed(const Ready& ready, uint32_t token);

  /// The announced receive that the next message of this key will match; null: none is known. Valid until the next
  /// call.
  const Ready* find(uint64_t context, int tag);

  enum class Verdict : uint8_t {
    held,     ///< for a message yet to be sent
    useless,  ///< its message has gone; `token` is that one's
    unknown,  ///< too old to tell, or too many are held
  };
  Verdict offer(const Ready& ready, uint32_t& token);

  /// Forgets the offers of a key.
  void withdraw(uint64_t context, int tag);
  /// Counting begins anew: what was offered so far is void.
  void restart();
  size_t held() const { return offers_.live(); }

 private:
  struct Entry {
    uint64_t context;
    int tag;
    uint32_t number;  ///< counts from 1; 0: a put without a message
    uint32_t token;
    uint32_t serial;  ///< not 0: a put that its receiver sees by itself, after a message or without one
  };
  struct Offer : ListHook<Offer> {
    Ready ready;
    uint32_t number = 0;  ///< of the key's message that it is for, counted as Key::passed
  };
  /// Messages with offers: lives as long as one of them.
  struct Key : ListHook<Key> {
    uint64_t context = 0;
    int tag = 0;
    uint32_t passed = 0;          ///< messages of the key since it was made
    IntrusiveList<Offer> offers;  ///< by ascending number, all of them at least `passed`
  };
  static constexpr size_t kBuckets = 64;

  void log(const Entry& entry);
  void pass(uint64_t context, int tag);
  Key* key_of(uint64_t context, int tag);
  void hold(const Ready& ready, uint32_t ahead);
  bool drop_first(Key& key);
  IntrusiveList<Key>& bucket(uint64_t context, int tag) {
    const uint64_t mixed = (context ^ uint64_t(uint32_t(tag)) << 32) * 0x9e3779b97f4a7c15u;
    return keys_[mixed >> 58];
  }

  std::array<Entry, kLogged> entries_;
  uint32_t logged_ = 0;        ///< ever; the last kLogged of them are there
  uint32_t floor_;             ///< every counted message after this one is in the log
  uint32_t floor_serial_ = 0;  ///< and every uncounted one after this serial
  std::array<IntrusiveList<Key>, kBuckets> keys_;
  Pool<Key, 8> key_pool_;
  Pool<Offer, 16> offers_;
};

}  // namespace tern
