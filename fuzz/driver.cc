// Runs a fuzz target over files and folders of files, without libFuzzer: so that every compiler tests the
// corpus.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "entrain/base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  int count = 0;
  const auto run = [&](const fs::path& file) {
    const std::string content = entrain::read_file(file);
    std::fprintf(stderr, "%s\n", file.c_str());
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(content.data()), content.size());
    ++count;
  };
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      run(argv[i]);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) run(entry.path());
  }
  std::fprintf(stderr, "%d inputs\n", count);
  return count > 0 ? 0 : 1;
}
