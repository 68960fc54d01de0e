#include "rank_verb.h"

#include <cstdlib>
#include <string_view>

#include "entrain/base/files.h"
#include "entrain/transport/launch_environment.h"
#include "job.h"

namespace entrain::app {
namespace {

// In the environment of ranks that run_on_ranks() starts.
constexpr const char* kStarted = "ENTRAIN_STARTED";

// The command line that this process was started with; the program is the same file.
std::vector<std::string> own_command() {
  std::vector<std::string> argv;
  const std::string line = read_file("/proc/self/cmdline");
  for (size_t begin = 0; begin < line.size();) {
    const size_t end = line.find('\0', begin);
    argv.push_back(line.substr(begin, end - begin));
    begin = end + 1;
  }
  argv[0] = "/proc/self/exe";
  return argv;
}

}  // namespace

bool started_by_entrain() { return std::getenv(kStarted) != nullptr; }

int code_after(int signal) {
  return signal == 0 || transport::launch_environment().is_rank() ? 0 : 128 + signal;
}

int run_on_ranks(const std::string& cluster, double timeout_s, const std::function<int(Context&)>& work,
                 int essential_rank) {
  const transport::LaunchEnvironment launch = transport::launch_environment();
  if (!launch.is_rank()) {
    const cluster::Cluster parsed = cluster::parse(cluster.empty() ? "local:1" : cluster);
    if (parsed.world() > 1) {
      JobOptions options;
      options.timeout_s = timeout_s;
      options.essential_rank = essential_rank;
      ::setenv(kStarted, "1", 1);
      return run_job(parsed, own_command(), options);
    }
  }
  Context context = init(cluster);
  if (!launch.timeout_given) context.job.timeout_s = timeout_s;
  try {
    return work(context);
  } catch (const std::exception& e) {
    context.transport->close(e.what());  // the others learn why
    throw;
  }
}

}  // namespace entrain::app
