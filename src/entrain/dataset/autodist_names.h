// What import and export agree on: names of files and folders.
#pragma once

#include <string>

namespace entrain::dataset::autodist {

// Written for hosts that need some ssh_config to be read by AutoDist; taken off again by the import.
inline constexpr const char* kNoSsh = "entrain";

// A name as a folder's: "/" and "%" become %2F and %25, a leading "." %2E.
std::string to_folder(const std::string& name);
std::string from_folder(const std::string& folder);

// The place of a domain: its model's folder and, below it, its cluster's.
struct Place {
  std::string model, cluster;
};
Place place_of(const std::string& domain, const std::string& model);

}  // namespace entrain::dataset::autodist
