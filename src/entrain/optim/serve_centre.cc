#include "entrain/base/error.h"
#include "entrain/optim/async_rules.h"
#include "entrain/optim/coordinator.h"

namespace entrain::optim {

// What serves does so on its own threads, and waits for the workers' end when it goes out of scope. It blocks
// on nobody: the timeout is the workers'.
void serve_centre(const strategy::Optimizer& settings, transport::Transport& transport,
                  const std::vector<int>& workers, double /*timeout_s*/,
                  const std::vector<std::vector<int>>& groups, int run) {
  transport.tolerate_losses();
  if (settings.rule == "downpour") {
    const Centre centre(transport, run, workers, downpour_centre(), {});
  } else if (settings.rule == "easgd-async") {
    const Centre centre(transport, run, workers, easgd_centre(settings.pull), {});
  } else if (settings.rule == "lsgd-async") {
    const std::vector<std::vector<int>> one = {workers};
    const Office office(transport, settings, groups.empty() ? one : groups, run, 0);
  } else {
    bad_input(
        "optimizer: rule is '{}', which keeps no centre; those that do: downpour, easgd-async, lsgd-async",
        settings.rule);
  }
}

}  // namespace entrain::optim
