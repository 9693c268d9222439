# Libraries beside libatbus, with dependencies of their own: the status server, links through NATS, discovery. They
# use nothing of libatbus but what that exports, and headers.

# atbus_add_part(NAME SOURCES file... DEPENDENCIES library... [OBJECTS target...]): the library atbus_NAME for
# users, atbus::NAME, and atbus_NAME_internal for our tests and tools. OBJECTS are object libraries that are part of it.
function(atbus_add_part name)
  cmake_parse_arguments(part "" "" "SOURCES;DEPENDENCIES;OBJECTS" ${ARGN})
  set(target atbus_${name})
  add_library(${target}_objects OBJECT ${part_SOURCES})
  atbus_compile_options(${target}_objects)
  target_include_directories(${target}_objects PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${target}_objects PRIVATE atbus ${part_DEPENDENCIES})
  if(ATBUS_FUZZ)
    target_compile_options(${target}_objects PRIVATE -fsanitize=fuzzer-no-link)
  endif()
  set(objects $<TARGET_OBJECTS:${target}_objects>)
  foreach(other IN LISTS part_OBJECTS)
    list(APPEND objects $<TARGET_OBJECTS:${other}>)
  endforeach()

  add_library(${target} ${objects})
  add_library(atbus::${name} ALIAS ${target})
  atbus_compile_options(${target})
  # What is headers only is of no use to who links this.
  set(linked ${part_DEPENDENCIES})
  list(REMOVE_ITEM linked nlohmann_json::nlohmann_json)
  target_link_libraries(${target} PUBLIC atbus PRIVATE ${linked})
  set_target_properties(
    ${target}
    PROPERTIES LINKER_LANGUAGE CXX
               EXPORT_NAME ${name}
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(BUILD_SHARED_LIBS AND NOT ATBUS_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()

  # As users link it, but beside the library that our tests and tools link.
  add_library(${target}_internal STATIC ${objects})
  set_target_properties(${target}_internal PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${target}_internal INTERFACE atbus_internal ${part_DEPENDENCIES})
endfunction()

# atbus_install_part(NAME HEADERS file... DESCRIPTION text LIBRARIES text): the component atbus_NAME, if it is
# built. LIBRARIES is what programs link besides, for pkg-config, if it is static.
function(atbus_install_part name)
  cmake_parse_arguments(part "" "DESCRIPTION;LIBRARIES" "HEADERS" ${ARGN})
  set(target atbus_${name})
  if(NOT TARGET ${target})
    return()
  endif()
  install(
    TARGETS ${target}
    EXPORT ${target}_targets
    COMPONENT ${target}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(
    EXPORT ${target}_targets
    NAMESPACE atbus::
    DESTINATION ${atbus_package_dir}
    COMPONENT ${target})
  list(TRANSFORM part_HEADERS PREPEND ${PROJECT_SOURCE_DIR}/include/atbus/)
  install(FILES ${part_HEADERS}
          DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/atbus COMPONENT ${target})
  # Not by Requires.private: a static library would need much that its package does not install.
  if(BUILD_SHARED_LIBS)
    set(part_LIBRARIES "")
  endif()
  set(part_NAME ${name})
  configure_file(${PROJECT_SOURCE_DIR}/cmake/atbus-part.pc.in
                 ${PROJECT_BINARY_DIR}/generated/atbus-${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/generated/atbus-${name}.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${target})
endfunction()
