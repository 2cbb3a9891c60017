#include "rma/target.h"

namespace tern::rma {

void DataSend::over(Error error) {
  IntrusiveList<DataSend, InFlight>::remove(this);
  target->flight.end_pending();
  if (request) {
    if (error) request->fail(std::move(error));
    request->end_part();
  }
  progress->notify();
  delete this;
}

void Outbox::seal(DataSend* data) {
  TERN_ASSERT(!data || fills_parcel());
  if (!fills_parcel()) return;
  sealed.push_back({std::move(open), confirm, data, nullptr});
  open.clear();
  confirm = 0;
}

void Outbox::hold(HeldOperation& operation) {
  seal();
  sealed.push_back({{}, 0, nullptr, &operation});
}

}  // namespace tern::rma
