// RequestActions: what a program may ask of a request beyond waiting for it. The requests are p2p's lowest part, what
// is asked concerns all protocols: their composition implements it (impl.h). Thread rule: under the rank's lock.
#pragma once

namespace tern {

class SendRequest;
class SentRequest;
class ReceiveRequest;

class RequestActions {
 public:
  /// Begins it, the first time or again (MPI_Start).
  virtual void begin(SendRequest& send) = 0;
  virtual void begin(ReceiveRequest& receive) = 0;
  /// MPI_Cancel.
  virtual void cancel(SendRequest& send) = 0;
  virtual void cancel(SentRequest& sent) = 0;
  virtual void cancel(ReceiveRequest& receive) = 0;

 protected:
  ~RequestActions() = default;
};

}  // namespace tern
