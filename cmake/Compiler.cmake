# Warnings are errors; dependencies are system headers, so theirs do not count.
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Werror)

if(ENTRAIN_SANITIZE)
  # GCC warns falsely about instrumented code (array bounds inside fmt and std::copy).
  add_compile_options(-Wno-error -fsanitize=${ENTRAIN_SANITIZE} -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${ENTRAIN_SANITIZE})
endif()

# ccache must be told that a precompiled header may stand for its includes.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()
