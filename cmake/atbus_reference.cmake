# The target `docs`: pages in build/.../reference/html, made of the comments of the public headers. A
# public name without a comment is an error.
find_package(Doxygen 1.9.4)
if(NOT DOXYGEN_FOUND)
  message(FATAL_ERROR "ATBUS_BUILD_DOCS needs Doxygen 1.9.4, which was not found. "
                      "tools/script/install_dependencies.sh --with-dev installs it.")
endif()

file(GLOB atbus_reference_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/atbus/*.hpp)
list(APPEND atbus_reference_headers ${PROJECT_SOURCE_DIR}/include/atbus/atbus.h
     ${PROJECT_SOURCE_DIR}/include/atbus/atbus_simulation.h)
# Two of the headers in detail/ declare types that public ones hand out.
list(APPEND atbus_reference_headers
     ${PROJECT_SOURCE_DIR}/include/atbus/detail/page_memory.hpp
     ${PROJECT_SOURCE_DIR}/include/atbus/detail/receiver_backend.hpp
     ${ATBUS_GENERATED_INCLUDE_DIR}/atbus/build_settings.hpp)

set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/reference)
set(DOXYGEN_PROJECT_BRIEF ${PROJECT_DESCRIPTION})
set(DOXYGEN_USE_MDFILE_AS_MAINPAGE ${PROJECT_SOURCE_DIR}/doc/reference.md)
set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR}/include ${ATBUS_GENERATED_INCLUDE_DIR})
set(DOXYGEN_STRIP_FROM_INC_PATH ${DOXYGEN_STRIP_FROM_PATH})
set(DOXYGEN_GENERATE_LATEX NO)
set(DOXYGEN_HAVE_DOT NO)
set(DOXYGEN_VERBATIM_HEADERS NO)
set(DOXYGEN_SORT_MEMBER_DOCS NO)
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_BUILTIN_STL_SUPPORT YES)
# What is documented: all that users can name.
set(DOXYGEN_EXTRACT_ALL NO)
set(DOXYGEN_EXTRACT_PRIVATE NO)
set(DOXYGEN_HIDE_FRIEND_COMPOUNDS YES)
set(DOXYGEN_EXCLUDE_SYMBOLS atbus::detail "atbus::detail::*")
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
set(DOXYGEN_PREDEFINED ATBUS_API= ATBUS_C_API=)
# And nothing is left out.
set(DOXYGEN_QUIET YES)
set(DOXYGEN_WARN_IF_UNDOCUMENTED YES)
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)

# Values of enumerations are looked for afterwards: Doxygen 1.9.4 does not miss their comments.
set(DOXYGEN_GENERATE_XML YES)
set(DOXYGEN_XML_PROGRAMLISTING NO)

doxygen_add_docs(docs ${atbus_reference_headers} ${PROJECT_SOURCE_DIR}/doc/reference.md
                 COMMENT "Reference pages: ${DOXYGEN_OUTPUT_DIRECTORY}/html/index.html")
add_custom_command(
  TARGET docs POST_BUILD
  COMMAND ${CMAKE_COMMAND} -D XML_DIR=${DOXYGEN_OUTPUT_DIRECTORY}/xml
          -P ${CMAKE_CURRENT_LIST_DIR}/atbus_check_enum_values.cmake
  VERBATIM)
