// gzip in memory. Same text, same bytes: no time stamp is written.
#pragma once

#include <string>
#include <string_view>

namespace entrain::dataset {

std::string gzip(std::string_view text);

// Takes files of several members too (`cat a.gz b.gz`). Throws InputError "ORIGIN: ..." when the data is not
// gzip, is damaged, ends early, or would become larger than any data set.
std::string gunzip(std::string_view bytes, const std::string& origin);

}  // namespace entrain::dataset
