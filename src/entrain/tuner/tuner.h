// A tune: planned shapes, where there are any; then the builders; then what the search proposes, in the best
// shape or in none; then a final round among the best.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "entrain/dataset/dataset.h"
#include "entrain/tuner/result.h"
#include "entrain/tuner/search.h"
#include "entrain/tuner/shape_source.h"
#include "entrain/tuner/trial_runner.h"

namespace entrain::tuner {

struct TuneOptions {
  int trials = 50;                    // proposed ones; builders and the final round come on top
  double minutes = 0;                 // 0: no limit. The final round is kept time for
  std::vector<std::string> builders;  // names; empty: all
  int finalists = 3;                  // proposed strategies in the final round; the best builders join them
  std::string reference;              // a builder that joins them too, for comparison; empty: none
  int confirm_rounds = 3;             // 0: no final round
  double deadline_s = 120;            // of a trial
  SearchOptions search;
  ShapeSource* shapes = nullptr;  // null: all workers hold all layers. Outlives the tune
  std::function<double()> now;    // seconds; empty: a steady clock
  std::function<bool()> stop;     // asked between trials: Ctrl-C. Empty: never
};

struct Task {
  int number;
  strategy::Strategy strategy;
  std::string origin;
  double deadline_s = 0;
  std::string hopeless = {};  // why it need not be run: report it as kDeadline; empty: run it
};

// The task as it belongs into the log.
dataset::Trial trial_of(const Task& task, const Measured& measured);

// What a progress bar shows.
struct TuneProgress {
  enum class Phase { kShapes, kBuilders, kSearch, kConfirm } phase = Phase::kBuilders;
  int done = 0;           // tasks, those of an earlier run too
  int total = 0;          // as far as is known
  double best_s = 0;      // 0: none yet
  double baseline_s = 0;  // best rival so far
  double speedup = 1;
  double hit_rate = 0;
  bool with_shapes = false;
  const dataset::Trial* last = nullptr;  // that has just ended

  // In a few words: "shapes", "builders", "best 1.20 ms, 1.31x the best rival", "final round".
  std::string summary() const;
};

// The order of a tune's trials, whoever runs them: next(), run it, log it, report(), again. Given the trials
// of an earlier run it goes on after them: no number twice, none left out, no strategy proposed again; what
// it proposes is what the earlier run would have. Not thread-safe.
class Tuner {
 public:
  // `domain` outlives it; its trials are those of an earlier run.
  Tuner(const dataset::Domain& domain, Guide guide, TuneOptions options);

  std::optional<Task> next();  // nothing: the tune is over
  // Requires: trial_of() the task that next() gave last.
  void report(const dataset::Trial& trial);

  const std::vector<dataset::Trial>& trials() const { return trials_; }  // the earlier ones too
  TuneProgress progress() const;
  TuneResult result() const { return summarize(trials_); }

 private:
  void resume(const std::vector<dataset::Trial>& earlier);
  void take(const dataset::Trial& trial);
  void queue_builders();
  void queue(std::vector<Proposal> proposals);
  void queue_proposals();
  bool fill_queue();
  void judge(Task& task) const;
  bool may_search() const;  // in trials and time
  void plan_final_round();
  int final_trials() const;  // at most

  const dataset::Domain& domain_;
  TuneOptions options_;
  Search search_;
  double start_s_ = 0;
  int reported_ = 0;  // in this run
  TuneProgress::Phase phase_ = TuneProgress::Phase::kBuilders;
  std::vector<dataset::Trial> trials_;
  int proposed_ = 0;       // of trials_
  int shape_batches_ = 0;  // asked for before the builders
  int next_number_ = 0;
  struct Waiting {
    strategy::Strategy strategy;
    std::string origin;
  };
  std::deque<Waiting> queue_;
};

// Runs a Tuner to its end. Each trial is in the log before anything else happens. A trial that throws is
// recorded as failed and the tune goes on; a PeerError is recorded and thrown again, for the job is broken.
// `domain.trials` are those of an earlier run of the same log. Throws Error when no builder could be run.
TuneResult tune(const dataset::Domain& domain, TrialRunner& runner, dataset::TrialLog& log,
                const Guide& guide, const TuneOptions& options,
                const std::function<void(const TuneProgress&)>& observer = nullptr);

}  // namespace entrain::tuner
