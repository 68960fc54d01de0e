// The rankers by name. No torch in this header.
#pragma once

#include <span>
#include <string_view>

#include "entrain/simulator/ranker.h"

namespace entrain::simulator {

std::span<const std::string_view> ranker_names();  // linear, rnn, gat, boosted

// Throws InputError listing the names.
std::unique_ptr<Ranker> make_ranker(const std::string& name);

// Whichever ranker the file holds. Throws InputError, one line, when it is none or has other features.
std::unique_ptr<Ranker> load_ranker(const std::filesystem::path& path);

}  // namespace entrain::simulator
