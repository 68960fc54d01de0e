// Flags that verbs which measure strategies in a standing job share.
#pragma once

#include <CLI/CLI.hpp>

#include "entrain/trials/standing_job.h"

namespace entrain::app {

// --compute, --steps, --most-steps. Both must outlive the parsing.
void add_trial_options(CLI::App& verb, trials::StandingOptions& job, trials::TrialMeasureOptions& measure);

}  // namespace entrain::app
