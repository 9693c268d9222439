# Warnings, sanitizers and instrumentation, applied to every target of ours and to nobody else's.

set(atbus_instrument_flags "")
if(ATBUS_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ATBUS_FUZZ needs Clang (libFuzzer is part of it); "
                        "this is ${CMAKE_CXX_COMPILER_ID}. Try: cmake --preset asan")
  endif()
  if(ATBUS_SANITIZE STREQUAL "")
    set(ATBUS_SANITIZE "address,undefined")
  endif()
endif()
if(ATBUS_SANITIZE MATCHES "thread" AND ATBUS_SANITIZE MATCHES "address")
  message(FATAL_ERROR "ATBUS_SANITIZE: thread and address can't be used together (got "
                      "\"${ATBUS_SANITIZE}\").")
endif()
if(NOT ATBUS_SANITIZE STREQUAL "")
  # Of debug information a report needs the lines, not what describes every type.
  # The library's own assertions see what lies within memory that was allocated.
  list(APPEND atbus_instrument_flags -fsanitize=${ATBUS_SANITIZE} -fno-omit-frame-pointer -g1
       -D_GLIBCXX_ASSERTIONS)
  if(ATBUS_SANITIZE MATCHES "undefined")
    # Before it believes a vptr it looks at the memory through a pipe, and takes the vptr for a false
    # one in a process that is out of descriptors.
    list(APPEND atbus_instrument_flags -fno-sanitize-recover=undefined -fno-sanitize=vptr)
    # Clang before 17 fails with "Cannot represent a difference across sections" where it checks
    # calls through pointers and a coroutine is inline or a template.
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 17)
      list(APPEND atbus_instrument_flags -fno-sanitize=function)
    endif()
  endif()
endif()
if(ATBUS_COVERAGE)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    list(APPEND atbus_instrument_flags -fprofile-instr-generate -fcoverage-mapping)
  else()
    list(APPEND atbus_instrument_flags --coverage)
  endif()
endif()

set(atbus_warning_flags -Wall -Wextra -Wconversion -Wshadow)
if(ATBUS_WARNINGS_AS_ERRORS)
  list(APPEND atbus_warning_flags -Werror)
endif()
# Clang warns of a name that hides one of another file, where several files are compiled as one. Each is
# compiled alone in the clang stage of .ci/run.
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(REMOVE_ITEM atbus_warning_flags -Wshadow)
endif()
# GCC: fences are invisible to ThreadSanitizer. We know; the lane's stress tests say what that costs.
if(ATBUS_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND atbus_warning_flags -Wno-tsan)
endif()
# GCC 12 warns of impossible overlaps inside std::string's operator+ (its bug 105651, gone in 13).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND atbus_warning_flags -Wno-restrict)
endif()

function(atbus_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_compile_options(${target} PRIVATE ${atbus_warning_flags} ${atbus_instrument_flags})
  target_link_options(${target} PRIVATE ${atbus_instrument_flags})
  set_target_properties(
    ${target}
    PROPERTIES CXX_EXTENSIONS OFF
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               POSITION_INDEPENDENT_CODE ON)
endfunction()
