# entrain_module(NAME [TORCH] SOURCES a.cc... [DEPS x y...] [LIBS third_party...])
#   One static library `entrain_NAME` per module folder. DEPS are other modules
#   (lower rungs only; scripts/check_ladder checks the #includes), LIBS third-party targets.
function(entrain_module NAME)
  cmake_parse_arguments(M "TORCH" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(M_TORCH AND NOT ENTRAIN_TORCH)
    return()
  endif()
  add_library(entrain_${NAME} STATIC ${M_SOURCES})
  set_property(GLOBAL APPEND PROPERTY ENTRAIN_MODULES entrain_${NAME})
  target_include_directories(entrain_${NAME} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)
  entrain_unity(entrain_${NAME})
  list(TRANSFORM M_DEPS PREPEND entrain_)
  target_link_libraries(entrain_${NAME} PUBLIC ${M_DEPS} ${M_LIBS} Threads::Threads)
  if(M_TORCH)
    entrain_use_torch(entrain_${NAME})
  endif()
endfunction()

# entrain_test(NAME [TORCH] SOURCES a_test.cc... [DEPS x y...] [LABELS inprocess|process|lab])
#   One test program `NAME_test`; each TEST becomes a ctest case (with TORCH: the program is one).
#   inprocess: ranks are threads (also run by `make sanitize`); process: starts
#   processes; lab: needs network namespaces and skips where there are none.
function(entrain_test NAME)
  cmake_parse_arguments(T "TORCH" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT ENTRAIN_TESTS OR (T_TORCH AND NOT ENTRAIN_TORCH))
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(NOT T_LABELS)
    set(T_LABELS inprocess)
  endif()
  add_executable(${NAME}_test ${T_SOURCES})
  list(TRANSFORM T_DEPS PREPEND entrain_)
  target_include_directories(${NAME}_test PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${NAME}_test PRIVATE ${T_DEPS} GTest::gmock GTest::gtest_main)
  if(T_TORCH)
    entrain_use_torch(${NAME}_test)
  endif()
  if(T_TORCH)
    # Loading libtorch takes a second or two: once a program, not once a case.
    add_test(NAME ${NAME} COMMAND ${NAME}_test)
    set_tests_properties(${NAME} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT})
  else()
    # The kernel gives a namespace's number anew: tests that make some run one by one.
    if(T_LABELS STREQUAL lab)
      set(lock RESOURCE_LOCK namespaces)
    endif()
    gtest_discover_tests(${NAME}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                         PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT} ${lock})
  endif()
endfunction()

# With ENTRAIN_UNITY the target's files are compiled in batches of 12, each as one. 12 of them take about 1.3 GB of memory
# and as long as two alone. GCC cannot know that what a batch includes is no header.
function(entrain_unity TARGET)
  if(ENTRAIN_UNITY)
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    target_compile_options(${TARGET} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

function(entrain_use_torch TARGET)
  # The precompiled header is -fPIC; a program would be -fPIE, which cannot use it.
  get_target_property(type ${TARGET} TYPE)
  if(type STREQUAL EXECUTABLE)
    set_target_properties(${TARGET} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${TARGET} PRIVATE -fPIC)
    set_property(TARGET ${TARGET} APPEND PROPERTY BUILD_RPATH ${entrain_BINARY_DIR})  # of plugins
  endif()
  # The 2.x wheels bring fmt headers of their own, which no installed library goes with.
  if(EXISTS ${TORCH_INSTALL_PREFIX}/include/fmt/base.h)
    target_compile_definitions(${TARGET} PUBLIC FMT_HEADER_ONLY)
  endif()
  # They also export a std::filesystem of their own, whose remove_all() calls a null pointer. Our objects must find the
  # compiler's first. `-lstdc++` in front does that where it is a shared library; from a static one the linker takes only
  # what is asked for at that point, so a symbol of each of its three parts (paths, folders, operations) is asked for.
  target_link_options(${TARGET} PUBLIC
    "LINKER:--undefined=_ZNSt10filesystem7__cxx114path14_M_split_cmptsEv"
    "LINKER:--undefined=_ZNSt10filesystem7__cxx1118directory_iteratorppEv"
    "LINKER:--undefined=_ZNSt10filesystem10remove_allERKNS_7__cxx114pathE"
    "LINKER:--push-state,--no-as-needed,-lstdc++,--pop-state")
  target_link_libraries(${TARGET} PUBLIC ${TORCH_LIBRARIES})
  target_include_directories(${TARGET} SYSTEM PUBLIC ${TORCH_INCLUDE_DIRS})
  target_precompile_headers(${TARGET} REUSE_FROM torch_pch)
endfunction()
