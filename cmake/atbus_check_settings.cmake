# atbus_check_settings(<out>): looks at every ATBUS_MACRO_* variable and puts one sentence per value
# that can't work into <out>, each naming the variable, the value and the reason.

# Decimal only: a leading zero would make an octal number of it in C++.
function(atbus_check_number out variable least most reason)
  set(value "${${variable}}")
  set(complaint "")
  if(NOT value MATCHES "^(0|[1-9][0-9]*)$")
    set(complaint "must be a whole number in decimal, without sign, unit or leading zero")
  else()
    string(LENGTH "${value}" digits)
    if(digits GREATER 18 OR value LESS least OR value GREATER most)
      set(complaint "must be from ${least} to ${most}: ${reason}")
    endif()
  endif()
  if(complaint)
    set(complaint "${variable} is \"${value}\" but ${complaint}.")
  endif()
  set(${out} "${complaint}" PARENT_SCOPE)
endfunction()

function(atbus_check_power_of_two out variable least most reason)
  atbus_check_number(complaint ${variable} ${least} ${most} "${reason}")
  if(NOT complaint)
    set(value "${${variable}}")
    math(EXPR shared_bits "${value} & (${value} - 1)")
    if(NOT shared_bits EQUAL 0)
      set(complaint "${variable} is \"${value}\" but must be a power of two: offsets are found by "
                    "masking, and a run of such units must end where the next one starts.")
      string(CONCAT complaint ${complaint})
    endif()
  endif()
  set(${out} "${complaint}" PARENT_SCOPE)
endfunction()

function(atbus_check_uint64 out variable reason)
  set(${out} "" PARENT_SCOPE)
  if(NOT "${${variable}}" MATCHES "^(std::)?uint64_t$")
    set(${out} "${variable} is \"${${variable}}\" but only uint64_t works: ${reason}." PARENT_SCOPE)
  endif()
endfunction()

function(atbus_check_settings out)
  set(complaints "")
  macro(keep)
    if(complaint)
      list(APPEND complaints "${complaint}")
    endif()
  endmacro()

  atbus_check_uint64(complaint ATBUS_MACRO_BUSID_TYPE
    "a bus id takes 8 bytes in every message head, and a node built otherwise could talk to no other")
  keep()
  atbus_check_uint64(complaint ATBUS_MACRO_DATA_ALIGN_TYPE
    "records and payloads start at multiples of 8 bytes in every segment and frame, and a process \
built otherwise would misread them")
  keep()
  atbus_check_number(complaint ATBUS_MACRO_CONNECTION_BACKLOG 1 2147483647
    "the kernel must queue at least one connection, and listen() takes an int")
  keep()
  atbus_check_number(complaint ATBUS_MACRO_CONNECTION_CONFIRM_TIMEOUT 1 86400
    "seconds, since with 0 no connection could finish opening, and beyond a day a silent peer would \
hold its place for good")
  keep()
  atbus_check_power_of_two(complaint ATBUS_MACRO_DATA_NODE_SIZE 32 65536
    "bytes, since a block must hold its own head and leave room for data, and a larger one would waste \
nearly all of itself on a small message")
  keep()
  atbus_check_number(complaint ATBUS_MACRO_DATA_SMALL_SIZE 1 65536
    "bytes, since messages up to this size are copied together, which larger ones make slower")
  keep()
  atbus_check_power_of_two(complaint ATBUS_MACRO_HUGETLB_SIZE 65536 1073741824
    "bytes, since Linux has no huge page smaller or larger than this on the machines atbus runs on")
  keep()
  atbus_check_number(complaint ATBUS_MACRO_MSG_LIMIT 1 67108864
    "payload bytes, since the frame and record formats are checked up to 64 MiB and no further")
  keep()
  set(${out} "${complaints}" PARENT_SCOPE)
endfunction()
