# make package: Debian packages by CPack.
#   entrain      the program, the libraries, headers and CMake package for programs of one's own, manual page, completion
#   entrain-mpi  the plugin that calls Open MPI, where it was built: the only one that needs Open MPI
# dpkg-shlibdeps finds what the program links. What only programs of one's own need to be built, and the lab, are recommended:
# apt installs them unless told --no-install-recommends.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGE_CONTACT "The entrain authors <entrain@users.noreply.invalid>")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME entrain)
set(CPACK_DEBIAN_PROGRAM_FILE_NAME DEB-DEFAULT)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "Distributed training for libtorch
 Trains torch::nn::Modules on several machines. How gradients are synchronized is
 chosen per variable, can be tuned with real trials, and changed between two steps.
 The program, and the C++ library for programs of one's own.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "libopenblas0-pthread")
set(recommended iproute2 g++ cmake libtorch-dev libprotobuf-dev protobuf-compiler libyaml-cpp-dev libfmt-dev libspdlog-dev
                nlohmann-json3-dev zlib1g-dev libssl-dev)
list(JOIN recommended ", " CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "entrain-mpi")

if(TARGET entrain_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME entrain-mpi)
  set(CPACK_DEBIAN_MPI_FILE_NAME DEB-DEFAULT)
  set(CPACK_COMPONENT_MPI_DESCRIPTION "Distributed training for libtorch: Open MPI
 The plugin with which jobs of entrain go over Open MPI (ENTRAIN_TRANSPORT=mpi).")
  set(CPACK_DEBIAN_MPI_PACKAGE_RECOMMENDS "openmpi-bin")
endif()
include(CPack)
