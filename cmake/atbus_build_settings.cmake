# The ATBUS_MACRO_* cache variables set the defaults that are compiled in. Each is checked here, so
# that a value that can't work stops the configuration with its reason instead of a running bus.
include(${CMAKE_CURRENT_LIST_DIR}/atbus_check_settings.cmake)

set(ATBUS_MACRO_BUSID_TYPE "uint64_t" CACHE STRING "Type of a bus id; only uint64_t")
set(ATBUS_MACRO_CONNECTION_BACKLOG 128
    CACHE STRING "Connections the kernel queues before they are accepted")
set(ATBUS_MACRO_CONNECTION_CONFIRM_TIMEOUT 30
    CACHE STRING "Seconds a new connection may take to finish its opening")
set(ATBUS_MACRO_DATA_ALIGN_TYPE "uint64_t"
    CACHE STRING "Type that payloads are aligned to; only uint64_t")
set(ATBUS_MACRO_DATA_NODE_SIZE 128 CACHE STRING "Bytes of a block of the static pool")
set(ATBUS_MACRO_DATA_SMALL_SIZE 3072
    CACHE STRING "Messages up to this many bytes are gathered into one write")
set(ATBUS_MACRO_HUGETLB_SIZE 4194304
    CACHE STRING "Bytes that a pool on huge pages rounds its size up to")
set(ATBUS_MACRO_MSG_LIMIT 65536 CACHE STRING "Default message limit: payload bytes, inclusive")

atbus_check_settings(atbus_setting_complaints)
if(atbus_setting_complaints)
  list(JOIN atbus_setting_complaints "\n" atbus_setting_complaints)
  message(FATAL_ERROR "Build settings that can't work:\n${atbus_setting_complaints}")
endif()

if(NOT ATBUS_GENERATED_INCLUDE_DIR)
  set(ATBUS_GENERATED_INCLUDE_DIR ${PROJECT_BINARY_DIR}/generated/include)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_settings.hpp.in
               ${ATBUS_GENERATED_INCLUDE_DIR}/atbus/build_settings.hpp @ONLY)
