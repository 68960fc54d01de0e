// One rank, a process of its own, over tcp: equivalence_rank MODEL STRATEGY
#include <cstdio>

#include "entrain/parallel/server.h"
#include "support/equivalence.h"

int main(int argc, char** argv) {
  using namespace entrain;
  if (argc != 3) return 2;
  try {
    job::Context context = job::init();
    if (context.trains()) {
      const auto expected = testing::gradients_alone(argv[1], context.workers());
      testing::check_equivalence(context, argv[1], expected, {argv[2]});
    } else {
      parallel::serve(context);
    }
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
