#include "trial_flags.h"

#include "usage.h"

namespace entrain::app {

void add_trial_options(CLI::App& verb, trials::StandingOptions& job, trials::TrialMeasureOptions& measure) {
  verb.add_option("--compute", job.compute, "real, or replay:FILE (entrain graph --profile-out FILE)")
      ->capture_default_str();
  verb.add_option("--steps", measure.least, "Least measured steps of a trial")
      ->check(positive())
      ->capture_default_str();
  verb.add_option("--most-steps", measure.most, "Most, while short steps are not steady")
      ->check(positive())
      ->capture_default_str();
}

}  // namespace entrain::app
