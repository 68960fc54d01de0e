#include "verbs.h"

// The list, in the order that --help shows.
#define ENTRAIN_VERBS(VERB) \
  VERB(demo)                \
  VERB(train)               \
  VERB(graph)               \
  VERB(probe)               \
  VERB(tune)                \
  VERB(explain)             \
  VERB(simulate)            \
  VERB(what_if)             \
  VERB(pipeline)            \
  VERB(dataset)             \
  VERB(simulator)           \
  VERB(experiment)          \
  VERB(rule_experiments)    \
  VERB(bench)               \
  VERB(launch)              \
  VERB(lab)                 \
  VERB(env)                 \
  VERB(generate)

namespace entrain::app {

#define ENTRAIN_DECLARE(name)                       \
  namespace name##_verb {                           \
    void add_##name(CLI::App& app, Action& action); \
  }
ENTRAIN_VERBS(ENTRAIN_DECLARE)
#undef ENTRAIN_DECLARE

void add_verbs(CLI::App& app, Action& action) {
#define ENTRAIN_ADD(name) name##_verb::add_##name(app, action);
  ENTRAIN_VERBS(ENTRAIN_ADD)
#undef ENTRAIN_ADD
}

}  // namespace entrain::app
