#include "entrain/api/context.h"

#include <algorithm>

#include "entrain/job/context.h"
#include "entrain/parallel/server.h"

namespace entrain {

Context::Context(std::unique_ptr<job::Context> inner) : inner_(std::move(inner)) {}
Context::Context(Context&&) noexcept = default;
Context& Context::operator=(Context&&) noexcept = default;
Context::~Context() = default;

int Context::rank() const { return inner_->rank(); }
int Context::world() const { return inner_->world(); }
bool Context::trains() const { return inner_->trains(); }
int Context::workers() const { return inner_->workers(); }

int Context::worker() const {
  const auto ranks = inner_->cluster.worker_ranks();
  const auto found = std::find(ranks.begin(), ranks.end(), rank());
  return found == ranks.end() ? -1 : static_cast<int>(found - ranks.begin());
}

Context init(const std::string& cluster) {
  return Context(std::make_unique<job::Context>(job::init(cluster)));
}

void serve(Context& context) { parallel::serve(context.inner()); }

}  // namespace entrain
