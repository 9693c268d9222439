// A node for the test of the status page: sends messages at a rate to another one, until it is killed.
//
//   page_node ID REPORTS PARENT CHILDREN LISTEN [TO RATE SIZE]     "-" for none of it
#include <atbus/atbus.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const int64_t second_ns = 1000000000;
static const int64_t turn_ns = 20000000;

typedef struct traffic {
  uint64_t to; /* 0: none */
  int64_t rate;
  size_t size;
  int64_t due_at_ns;
} traffic;

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * second_ns + time.tv_nsec;
}

static void on_message(void* user, const atbus_message* message) {
  (void)user;
  (void)message;
}

static const char* text_or_none(const char* text) {
  return strcmp(text, "-") != 0 ? text : NULL;
}

static traffic traffic_of(char** words) {
  traffic all = {0, strtol(words[1], NULL, 10), strtoul(words[2], NULL, 10), now_ns()};
  atbus_parse_id(words[0], &all.to);
  return all;
}

// Refused ones are counted by the node; that is what the page shows.
static void send_some(atbus_node* node, traffic* all) {
  static const char bytes[65536];
  for (; all->to != 0 && all->due_at_ns <= now_ns(); all->due_at_ns += second_ns / all->rate)
    (void)atbus_node_send(node, all->to, 1, bytes, all->size);
}

static atbus_node* open_node(char** words) {
  const char* const parents[] = {text_or_none(words[3]), NULL};
  const char* const listen = text_or_none(words[5]);
  atbus_node_options options;
  uint64_t id;
  atbus_node* node;
  atbus_node_options_init(&options);
  options.report_directory = text_or_none(words[2]) != NULL ? words[2] : "";
  options.parents = parents;
  options.children = text_or_none(words[4]);
  options.allow_unauthenticated = 1;
  if (atbus_parse_id(words[1], &id) != ATBUS_OK ||
      atbus_node_new(id, &options, &node) != ATBUS_OK ||
      atbus_node_on_message(node, on_message, NULL) != ATBUS_OK ||
      (listen != NULL && atbus_node_listen(node, listen) != ATBUS_OK))
    return fprintf(stderr, "%s\n", atbus_last_error()), NULL;
  return node;
}

int main(int argc, char** argv) {
  if (argc != 6 && argc != 9)
    return fprintf(stderr, "usage: page_node ID REPORTS PARENT CHILDREN LISTEN [TO RATE SIZE]\n"),
           2;
  traffic all = {0, 0, 0, 0};
  if (argc == 9)
    all = traffic_of(argv + 6);
  atbus_node* const node = open_node(argv);
  if (node == NULL)
    return 1;
  while (atbus_node_is_open(node)) {
    atbus_node_poll(node, 0, 0, NULL);
    send_some(node, &all);
    atbus_node_wait(node, turn_ns);
  }
  return 0;
}
