# cmake --install BUILD --prefix P: headers, libraries, the program with manual page and completion for bash, the mpi plugin
# where it was built, and what find_package(entrain) reads.
# A program links entrain::entrain; nothing else is needed.
include(GNUInstallDirs)
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME program)
include(CMakePackageConfigHelpers)

add_library(entrain_public INTERFACE)
target_link_libraries(entrain_public INTERFACE entrain_api)
target_compile_features(entrain_public INTERFACE cxx_std_20)
set_target_properties(entrain_public PROPERTIES EXPORT_NAME entrain)
add_library(entrain::entrain ALIAS entrain_public)

# All modules: static libraries need those below them. Generated headers are nobody's but ours.
get_property(modules GLOBAL PROPERTY ENTRAIN_MODULES)
set(libraries ${modules})
foreach(module IN LISTS modules)
  get_target_property(linked ${module} INTERFACE_LINK_LIBRARIES)
  foreach(library IN LISTS linked)
    if(library MATCHES "^entrain_.*_proto$")
      list(APPEND libraries ${library})
      set(here "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>")
      set_target_properties(${library} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${here}"
                            INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${here}")
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES libraries)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/entrain)
install(TARGETS ${libraries} entrain_public EXPORT entrain ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT entrain NAMESPACE entrain:: FILE entrain-targets.cmake DESTINATION ${package})
# What entrain.h includes, and nothing else: tests/integration/install_test.py compiles it against these alone.
foreach(header entrain.h api/checkpoints.h api/collectives.h api/context.h api/distribute.h api/pipelined.h
        api/sampler.h api/strategies.h api/train_apart.h api/tune.h base/errors.h base/non_finite.h job/reduce.h
        parallel/options.h strategy/rules.h)
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/src/entrain/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/entrain/${folder})
endforeach()
# The program finds the mpi plugin in its prefix, and a libtorch of one's own where it was.
file(RELATIVE_PATH libraries_from_bin /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
set_target_properties(entrain PROPERTIES INSTALL_RPATH "$ORIGIN/${libraries_from_bin}" INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS entrain RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET entrain_mpi)
  install(TARGETS entrain_mpi LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT mpi)
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/entrain-mpi RENAME copyright
          COMPONENT mpi)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/entrain RENAME copyright)
# The program knows its verbs and flags best: it writes these when it is installed.
install(CODE "
  foreach(document man completion)
    execute_process(COMMAND \"${PROJECT_BINARY_DIR}/entrain\" generate \${document} COMMAND_ERROR_IS_FATAL ANY
                    OUTPUT_FILE \"${PROJECT_BINARY_DIR}/entrain.\${document}\")
  endforeach()" COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/entrain.man DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME entrain.1)
install(FILES ${PROJECT_BINARY_DIR}/entrain.completion DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        RENAME entrain)

configure_file(${CMAKE_CURRENT_LIST_DIR}/entrain-config.cmake.in ${PROJECT_BINARY_DIR}/entrain-config.cmake @ONLY)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/entrain-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/entrain-config.cmake ${PROJECT_BINARY_DIR}/entrain-config-version.cmake
        DESTINATION ${package})
