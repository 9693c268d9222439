// What a user's first program does, in one process.
#include <atbus/atbus.h>
#include <stdio.h>

static void on_message(void* node, const atbus_message* m) {
  printf("%.*s\n", (int)m->size, (const char*)m->bytes);
  atbus_node_stop(node);
}

int main(void) {
  atbus_node* node;
  if (atbus_node_new(1, NULL, &node) != ATBUS_OK ||
      atbus_node_on_message(node, on_message, node) != ATBUS_OK ||
      atbus_node_send(node, 1, 0, "hello", 5) != ATBUS_OK || atbus_node_run(node) != ATBUS_OK)
    return fprintf(stderr, "%s\n", atbus_last_error()), 1;
  atbus_node_free(node);
  return 0;
}
