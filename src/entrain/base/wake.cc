#include "entrain/base/wake.h"

#include <algorithm>
#include <utility>

namespace entrain {
namespace {

thread_local std::vector<std::shared_ptr<Sleeper>>* held = nullptr;

}  // namespace

void wake(const std::shared_ptr<Sleeper>& sleeper) {
  if (held == nullptr) return sleeper->wake();
  if (std::find(held->begin(), held->end(), sleeper) == held->end()) held->push_back(sleeper);
}

WakeTogether::WakeTogether() : outermost_(held == nullptr) {
  if (outermost_) held = &sleepers_;
}

WakeTogether::~WakeTogether() {
  if (!outermost_) return;
  now();
  held = nullptr;
}

void WakeTogether::now() {
  if (held == nullptr) return;
  for (const auto& sleeper : std::exchange(*held, {})) sleeper->wake();
}

}  // namespace entrain
