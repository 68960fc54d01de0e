#include "entrain/train/apart_records.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "entrain/strategy/stored.h"

namespace entrain::train {
namespace {

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

ApartRecords::ApartRecords(const std::filesystem::path& folder, int rank,
                           const strategy::Optimizer& settings) {
  if (folder.empty()) return;
  std::filesystem::create_directories(folder);
  steps_.emplace(folder / fmt::format("worker-{}.jsonl", rank));
  events_.emplace(folder / "tensorboard" / fmt::format("worker-{}", rank), "entrain");
  if (rank != 0) return;
  strategy::Strategy job;
  job.id = settings.rule;
  job.optimizer = settings;
  strategy::save(job, folder / "strategy.json");
  tests_.emplace(folder / "tests.jsonl");
  leaders_.emplace(folder / "leaders.jsonl");
}

void ApartRecords::step(int64_t step, double wall_s, double loss, const optim::Journal& journal,
                        uint64_t bytes_sent) {
  if (!steps_) return;
  steps_->append(nlohmann::json{
      {"step", step},
      {"wall_s", wall_s},
      {"loss", loss},
      {"communication_s", journal.communication_s},
      {"exchanges", journal.exchanges},
      {"bytes_sent",
       bytes_sent}}.dump());
  const double now = unix_time();
  events_->scalar("train/loss", step, loss, now);
  events_->scalar("train/communication_s", step, journal.communication_s, now);
  leaders(journal);
}

void ApartRecords::leaders(const optim::Journal& journal) {
  if (!leaders_) return;
  for (; leaders_written_ < journal.leaders.size(); ++leaders_written_) {
    const auto& lead = journal.leaders[leaders_written_];
    leaders_->append(
        nlohmann::json{{"step", lead.step}, {"local", lead.local}, {"global", lead.global}}.dump());
    events_->scalar("leader", lead.step, lead.global >= 0 ? lead.global : lead.local, unix_time());
  }
}

void ApartRecords::test(const Test& test) {
  if (!tests_) return;
  nlohmann::json line = {{"step", test.step},
                         {"wall_s", test.wall_s},
                         {"loss", test.loss},
                         {"training_loss", test.training_loss},
                         {"to_average", test.to_average}};
  const double now = unix_time();
  if (!test.to_leader.empty()) line["to_leader"] = test.to_leader;
  const auto distances = [&](const char* what, const std::vector<double>& by_worker) {
    for (size_t i = 0; i < by_worker.size(); ++i) {
      events_->scalar(fmt::format("{}/worker-{}", what, i), test.step, by_worker[i], now);
    }
  };
  distances("to_average", test.to_average);
  distances("to_leader", test.to_leader);
  events_->scalar("test/loss", test.step, test.loss, now);
  if (test.error >= 0) {
    line["error"] = test.error;
    events_->scalar("test/error", test.step, test.error, now);
  }
  tests_->append(line.dump());
}

}  // namespace entrain::train
