// The peer of the interoperation test in C; interop_test.py says what a peer does.
#include <atbus/atbus.h>
#include <stdio.h>
#include <stdlib.h>

enum { sleep_ns = 10 * 1000 * 1000 };

typedef struct receiver {
  FILE* log;
  int is_running;
} receiver;

static void fail(const char* what) {
  fprintf(stderr, "%s: %s\n", what, atbus_last_error());
  exit(1);
}

static atbus_node* new_node(uint64_t id, const char* token) {
  const char* const tokens[] = {token, NULL};
  atbus_node_options options;
  atbus_node* node;
  atbus_node_options_init(&options);
  options.tokens = tokens;
  if (atbus_node_new(id, &options, &node) != ATBUS_OK)
    fail("new");
  return node;
}

static void on_message(void* user, const atbus_message* m) {
  receiver* const self = user;
  if (m->size == 3 && memcmp(m->bytes, "end", 3) == 0) {
    self->is_running = 0;
    return;
  }
  fprintf(self->log, "%.*s%s\n", (int)m->size, (const char*)m->bytes,
          m->redelivered ? " again" : "");
  fflush(self->log);
}

static void on_request(void* user, atbus_request* request) {
  char text[64];
  size_t size;
  const void* const bytes = atbus_request_bytes(request, &size);
  (void)user;
  snprintf(text, sizeof text, "%.*s!", (int)size, (const char*)bytes);
  if (atbus_request_reply(request, text, strlen(text)) != ATBUS_OK)
    fail("reply");
}

static void receive(const char* address, const char* token, const char* log) {
  receiver self = {fopen(log, "a"), 1};
  atbus_node* const node = new_node(2, token);
  atbus_node_on_message(node, on_message, &self);
  atbus_node_on_any_request(node, on_request, NULL);
  if (atbus_node_listen(node, address) != ATBUS_OK)
    fail("listen");
  while (self.is_running) {
    atbus_node_poll(node, 0, 0, NULL);
    atbus_node_wait(node, sleep_ns);
  }
  atbus_node_shutdown(node, 1000 * 1000 * 1000);
  atbus_node_free(node);
}

typedef struct reply {
  int is_here;
  atbus_code code;
  char text[64];
} reply;

static void on_response(void* user, const atbus_response* r) {
  reply* const self = user;
  self->is_here = 1;
  self->code = r->code;
  snprintf(self->text, sizeof self->text, "%.*s", (int)r->size, (const char*)r->bytes);
}

static void send_all(const char* address, const char* token, int count) {
  atbus_node* const node = new_node(1, token);
  char text[64];
  if (atbus_node_connect(node, 2, address) != ATBUS_OK)
    fail("connect");
  for (int i = 0; i != count; ++i) {
    snprintf(text, sizeof text, "%d", i);
    atbus_code how;
    while ((how = atbus_node_send(node, 2, 0, text, strlen(text))) == ATBUS_WOULD_BLOCK) {
      atbus_node_poll(node, 0, 0, NULL);
      atbus_node_wait(node, sleep_ns);
    }
    if (how != ATBUS_OK)
      fail("send");
    if (i % 50 == 0)
      atbus_node_poll(node, 0, 0, NULL);
  }
  for (int answers = 0; answers != 10;) {
    reply answer = {0, ATBUS_OK, ""};
    if (atbus_node_request(node, 2, 7, "ask", 3, (int64_t)60 * 1000 * 1000 * 1000, on_response,
                           &answer, NULL) != ATBUS_OK)
      fail("request");
    while (!answer.is_here) {
      atbus_node_poll(node, 0, 0, NULL);
      atbus_node_wait(node, sleep_ns);
    }
    if (answer.code == ATBUS_OUTCOME_UNKNOWN)
      continue;
    if (strcmp(answer.text, "ask!") != 0) {
      fprintf(stderr, "the reply is %s\n", answer.text);
      exit(1);
    }
    ++answers;
  }
  atbus_node_send(node, 2, 0, "end", 3);
  if (atbus_node_shutdown(node, (int64_t)30 * 1000 * 1000 * 1000) != ATBUS_OK)
    fail("shutdown");
  atbus_node_free(node);
}

int main(int argc, char** argv) {
  if (argc != 5)
    return 2;
  if (strcmp(argv[1], "receive") == 0)
    receive(argv[2], argv[3], argv[4]);
  else
    send_all(argv[2], argv[3], atoi(argv[4]));
  return 0;
}
