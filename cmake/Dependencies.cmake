# Everything here is packaged by Debian 12 and Ubuntu 24.04; scripts/setup installs it.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)  # before Torch: its 2.x packages define an empty stand-in
if(ENTRAIN_TORCH)
  find_package(Torch REQUIRED)
endif()
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL 3 REQUIRED)
# Optional: the mpi transport. MPI's own C++ classes are not wanted.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI QUIET COMPONENTS CXX)
# Optional: sums by NCCL, with a libtorch that has CUDA. The one that libtorch came with (its wheels keep NCCL beside
# it), since a program loads only one.
if(TARGET torch_cuda)
  find_package(CUDAToolkit QUIET)
  set(beside_torch ${TORCH_INSTALL_PREFIX}/../nvidia/nccl)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${beside_torch}/include)
  find_library(NCCL_LIBRARY NAMES libnccl.so.2 nccl HINTS ${beside_torch}/lib)
  if(NOT CUDAToolkit_FOUND OR NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    unset(NCCL_LIBRARY CACHE)
  endif()
endif()
# Optional: the tests. They are left out without it, since the program can be built all the same.
if(ENTRAIN_TESTS)
  find_package(GTest QUIET)
  if(GTest_FOUND)
    include(GoogleTest)
  else()
    set(ENTRAIN_TESTS OFF)  # of this run: the next one looks again
    message(STATUS "tests: left out, GTest is not installed (scripts/setup --test installs it)")
  endif()
endif()

# yaml-cpp 0.7 exports `yaml-cpp`, 0.8 `yaml-cpp::yaml-cpp`.
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()

# Parsing torch/torch.h takes 17 s: it is precompiled once, here, and every
# target that names TORCH in entrain_module() reuses it.
if(ENTRAIN_TORCH)
  add_library(torch_pch OBJECT ${CMAKE_CURRENT_SOURCE_DIR}/cmake/torch_pch.cc)
  target_link_libraries(torch_pch PUBLIC ${TORCH_LIBRARIES})
  target_include_directories(torch_pch SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
  if(EXISTS ${TORCH_INSTALL_PREFIX}/include/fmt/base.h)
    target_compile_definitions(torch_pch PRIVATE FMT_HEADER_ONLY)  # as in entrain_use_torch()
  endif()
  target_precompile_headers(torch_pch PRIVATE <torch/torch.h>)
endif()
