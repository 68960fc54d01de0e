#include "entrain/dataset/autodist_names.h"

namespace entrain::dataset::autodist {

std::string to_folder(const std::string& name) {
  std::string folder;
  for (const char c : name) {
    if (c == '/') {
      folder += "%2F";
    } else if (c == '%') {
      folder += "%25";
    } else if (c == '.' && folder.empty()) {
      folder += "%2E";
    } else {
      folder += c;
    }
  }
  return folder;
}

std::string from_folder(const std::string& folder) {
  std::string name;
  for (size_t i = 0; i < folder.size(); ++i) {
    const std::string code = folder.substr(i, 3);
    const char c = code == "%2F" ? '/' : code == "%25" ? '%' : code == "%2E" ? '.' : '\0';
    name += c != '\0' ? c : folder[i];
    if (c != '\0') i += 2;
  }
  return name;
}

Place place_of(const std::string& domain, const std::string& model) {
  const std::string prefix = model + "@";
  const bool regular = !model.empty() && domain.size() > prefix.size() && domain.starts_with(prefix);
  if (regular) return {to_folder(model), to_folder(domain.substr(prefix.size()))};
  return {to_folder(model.empty() ? "model" : model), to_folder(domain)};
}

}  // namespace entrain::dataset::autodist
