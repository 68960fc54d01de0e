#include "entrain/api/checkpoints.h"

#include "entrain/base/error.h"

namespace entrain {

Checkpoints::Checkpoints(std::filesystem::path folder, int keep) : folder_(std::move(folder)), keep_(keep) {
  if (keep < 1) bad_input("checkpoints to keep is {}; allowed: 1 or more", keep);
}

void Checkpoints::save(int64_t step, Handle& handle) const { handle.save(folder_, keep_, step); }

int64_t Checkpoints::resume(Handle& handle) const { return handle.resume(folder_).value_or(0); }

}  // namespace entrain
