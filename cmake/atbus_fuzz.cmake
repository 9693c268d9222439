# test/hostile/<floor>/<name>_fuzz.cpp: a libFuzzer program <name>_fuzz with ATBUS_FUZZ=ON. In every
# other build the same file becomes a program that replays its corpus once, as an ordinary test, so
# that what the fuzzer found stays found under any compiler.
function(atbus_add_fuzz_targets)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/test/hostile/*/*_fuzz.cpp)
  foreach(source IN LISTS sources)
    cmake_path(GET source STEM name)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME floor)
    set(corpus ${folder}/corpus/${name})
    if(ATBUS_FUZZ)
      add_executable(${name} ${source})
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
      # .ci/run reads this list: program, then corpus.
      set_property(GLOBAL APPEND_STRING PROPERTY ATBUS_FUZZ_LIST "${name} ${corpus}\n")
    else()
      add_executable(${name} ${source} ${PROJECT_SOURCE_DIR}/test/hostile/replay_corpus.cpp)
      add_test(NAME hostile/${floor}/${name}.ReplaysItsCorpus COMMAND ${name} ${corpus})
      set_tests_properties(hostile/${floor}/${name}.ReplaysItsCorpus PROPERTIES TIMEOUT 120 LABELS
                                                                               hostile)
    endif()
    atbus_compile_options(${name})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/test/support
                                               ${PROJECT_SOURCE_DIR}/test)
    target_link_libraries(${name} PRIVATE atbus_internal)
  endforeach()
  if(ATBUS_FUZZ)
    get_property(list GLOBAL PROPERTY ATBUS_FUZZ_LIST)
    file(WRITE ${PROJECT_BINARY_DIR}/fuzz_targets.txt "${list}")
  endif()
endfunction()
