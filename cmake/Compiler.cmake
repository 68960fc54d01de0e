# Dependencies are system headers, so their warnings do not count.
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
# Errors only where they are mended, in CI and for developers: a compiler that a user has may know others.
option(ENTRAIN_WERROR "Warnings are errors" OFF)
if(ENTRAIN_WERROR)
  add_compile_options(-Werror)
endif()

if(ENTRAIN_SANITIZE)
  # GCC warns falsely about instrumented code (array bounds inside fmt and std::copy).
  add_compile_options(-Wno-error -fsanitize=${ENTRAIN_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${ENTRAIN_SANITIZE})
endif()

if(ENTRAIN_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)  # counts which branches an input takes
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()

# ccache where it was installed when the folder was first configured: later it would change every command and compile
# all again. It must be told that a precompiled header may stand for its includes, and that paths inside the source folder
# are relative, so that a second clone or worktree finds what the first has compiled.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  option(ENTRAIN_CCACHE "Compile through ccache" ON)
else()
  option(ENTRAIN_CCACHE "Compile through ccache" OFF)
endif()
if(ENTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()
