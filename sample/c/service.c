// Node 2: counts the letters of what it is asked, now or a moment later, until it is told to stop:
// `atbus command shm://letters stop`.
#include <atbus/atbus.h>
#include <stdio.h>

typedef struct service {
  int is_running;
  atbus_request* later; /* one that is not answered yet */
} service;

static void answer(atbus_request* request) {
  size_t size;
  char text[32];
  atbus_request_bytes(request, &size);
  const int length = snprintf(text, sizeof text, "%zu letters", size);
  if (atbus_request_reply(request, text, (size_t)length) != ATBUS_OK)
    fprintf(stderr, "%s\n", atbus_last_error());
}

static void on_request(void* user, atbus_request* request) {
  service* self = user;
  if (atbus_request_type(request) != 2 || self->later != NULL)
    answer(request);
  else
    self->later = atbus_request_detach(request);
}

static void on_stop(void* user, atbus_command* command) {
  service* self = user;
  const char* const values[] = {"stopped", "node 2"};
  atbus_command_reply(command, values, 2);
  self->is_running = 0;
}

static void on_log(void* user, const char* line, size_t size) {
  (void)user;
  fprintf(stderr, "%.*s\n", (int)size, line);
}

int main(int argc, char** argv) {
  service self = {1, NULL};
  atbus_node* node;
  if (atbus_node_new(2, NULL, &node) != ATBUS_OK)
    return fprintf(stderr, "%s\n", atbus_last_error()), 1;
  atbus_node_on_log(node, on_log, NULL);
  atbus_node_on_any_request(node, on_request, &self);
  atbus_node_on_command(node, "stop", on_stop, &self);
  if (atbus_node_listen(node, argc > 1 ? argv[1] : "shm://letters") != ATBUS_OK)
    return fprintf(stderr, "%s\n", atbus_last_error()), 1;
  while (self.is_running) {
    atbus_node_poll(node, 0, 0, NULL);
    if (self.later != NULL) {
      answer(self.later);
      atbus_request_free(self.later);
      self.later = NULL;
    }
    atbus_node_wait(node, 100 * 1000 * 1000);
  }
  const atbus_code how = atbus_node_shutdown(node, 1000 * 1000 * 1000);
  atbus_node_free(node);
  return how == ATBUS_OK ? 0 : 1;
}
