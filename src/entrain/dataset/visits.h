// A strategy measured at several times.
#pragma once

#include "entrain/dataset/dataset.h"

namespace entrain::dataset {

// Every strategy of a domain once: the ok() trials that repeat each other (strategy_key) become the first of
// them, with the steps of all. Trials that are not ok() stay, but for those whose strategy was ok() another
// time.
Dataset join_visits(const Dataset& dataset);

}  // namespace entrain::dataset
