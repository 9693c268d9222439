# atbus_add_c_program(TARGET SOURCE): a program in C that uses libatbus_c. The C++ compiler compiles C
# too, so that no other one is needed.
function(atbus_add_c_program target source)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${target}.o)
  add_custom_command(
    OUTPUT ${object}
    COMMAND
      ${CMAKE_CXX_COMPILER} -x c -std=c99 -O2 -Wall -Wextra -Wconversion -pedantic
      $<$<BOOL:${ATBUS_WARNINGS_AS_ERRORS}>:-Werror> -fPIE ${atbus_instrument_flags} -I
      ${PROJECT_SOURCE_DIR}/include -c ${source} -o ${object}
    DEPENDS ${source} ${PROJECT_SOURCE_DIR}/include/atbus/atbus.h
            ${PROJECT_SOURCE_DIR}/include/atbus/atbus_simulation.h
    COMMAND_EXPAND_LISTS)
  add_executable(${target} ${object})
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_options(${target} PRIVATE ${atbus_instrument_flags})
  target_link_libraries(${target} PRIVATE atbus_c)
endfunction()
