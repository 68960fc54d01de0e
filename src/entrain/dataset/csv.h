// A data set as a table for spreadsheets.
#pragma once

#include <string>

#include "entrain/dataset/dataset.h"

namespace entrain::dataset {

// A header, then one line per trial: domain,trial,id,origin,status,seconds (of a step; empty when it failed).
// Quoted as RFC 4180 says.
std::string to_csv(const Dataset& dataset);

}  // namespace entrain::dataset
