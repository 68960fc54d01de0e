// One "address slots=4" per line, as Open MPI and Horovod read it; # starts a comment.
#include <sstream>

#include "entrain/base/error.h"
#include "entrain/cluster/parsers.h"

namespace entrain::cluster {

Cluster cluster_from_hostfile(const std::string& content, const std::string& origin) {
  check_length(content, origin);
  Cluster cluster;
  cluster.name = origin;
  std::istringstream lines(content);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    const std::string where = fmt::format("{}:{}", origin, number);
    Host host;
    if (!(words >> host.address)) continue;
    for (std::string word; words >> word;) {
      if (word.starts_with("slots=")) {
        host.workers = parse_int(word.substr(6), 1, kMaxRanks, where + ": slots");
      } else if (!word.starts_with("max_slots=") && !word.starts_with("max-slots=")) {
        bad_input("{}: field is \"{}\", allowed: slots=N", where, word.substr(0, 80));
      }
    }
    host.chief = cluster.hosts.empty();
    cluster.hosts.push_back(std::move(host));
  }
  check(cluster, origin);
  return cluster;
}

}  // namespace entrain::cluster
