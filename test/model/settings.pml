/* Settings of a model come from the environment, so that one compiled checker serves all mutants. */
c_decl {
  \#include <stdlib.h>
  static int setting(const char* name, int otherwise) {
    const char* const text = getenv(name);
    return text == NULL ? otherwise : atoi(text);
  }
};
