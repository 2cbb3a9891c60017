// One end of the channel between mpiexec and an agent: frames over two descriptors, or one.
// Thread rule: the event loop. Nothing here blocks: what the other side does not take yet is kept.
#pragma once

#include <cstdint>
#include <string>

#include "channel_messages.h"

namespace tern::mpiexec {

class Channel {
 public:
  /// Both may be the same descriptor; they are ours from now on, and do not block. Begins with the magic.
  Channel(int in, int out);
  ~Channel() { close(); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// To watch for reading; -1: closed.
  int descriptor() const { return in_; }
  /// To watch for writing, when there is something unsent.
  int out_descriptor() const { return out_; }
  size_t unsent() const { return unsent_.size() - sent_; }

  /// Keeps the frame; flush() sends it.
  void send(const Frame& frame);
  /// False: nobody reads any more.
  bool flush();
  /// Reads what is there, at most some 100 KiB. False: the other side has ended, or is lost. Frames may still be there.
  bool receive();
  FrameReader::Next next(Frame& frame) { return reader_.next(frame); }
  const FrameReader& reader() const { return reader_; }
  /// When bytes came for the last time.
  uint64_t heard_ms() const { return heard_ms_; }
  /// A silence until now was our own.
  void forgive_silence();
  void close();

 private:
  int in_, out_;
  std::string unsent_;
  size_t sent_ = 0;
  FrameReader reader_;
  uint64_t heard_ms_;
};

}  // namespace tern::mpiexec
