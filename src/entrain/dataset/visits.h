// A strategy measured at several times.
#pragma once

#include "entrain/dataset/dataset.h"

namespace entrain::dataset {

// Every strategy of a domain once: the ok() trials that repeat each other (strategy_key) become the first of
// them, and `seconds` holds one value a visit, its median. Visits count alike, however many
// steps each had: what disturbs one visit as a whole then weighs once.
// A strategy with one visit keeps its steps. Trials that are not ok() stay, but for those whose strategy was
// ok() another time.
Dataset join_visits(const Dataset& dataset);

}  // namespace entrain::dataset
