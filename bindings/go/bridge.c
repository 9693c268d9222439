#include "bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "_cgo_export.h"

struct bridge {
  atbus_node* node;
  int wakeup;
  uintptr_t direct;  // not 0: of goMessage
  int is_cancelled;  // the shutdown; of all threads
  size_t room;       // for messages that come while it shuts down, in bytes
  int has_no_room;   // for further messages, which has ended the node
  bridge_event* events;
  size_t event_count;
  size_t event_room;
  unsigned char* bytes;
  size_t byte_count;
  size_t byte_room;
};

// What a callback of one request, command or wait is given.
typedef struct waiting {
  bridge* of;
  uint64_t number;
} waiting;

static int grow(void** at, size_t* room, size_t needed, size_t each) {
  size_t wanted = *room ? *room : 64;
  void* made;
  if (needed <= *room)
    return 1;
  while (wanted < needed)
    wanted *= 2;
  made = realloc(*at, wanted * each);
  if (!made)
    return 0;
  *at = made;
  *room = wanted;
  return 1;
}

// An event without bytes; NULL: there is no memory.
static bridge_event* add(bridge* of, uint32_t kind, uint64_t id) {
  bridge_event* made;
  if (!grow((void**)&of->events, &of->event_room, of->event_count + 1, sizeof *of->events))
    return NULL;
  made = &of->events[of->event_count++];
  memset(made, 0, sizeof *made);
  made->kind = kind;
  made->id = id;
  made->offset = of->byte_count;
  return made;
}

// Appends to the bytes of the newest event.
static int append(bridge* of, bridge_event* to, const void* bytes, size_t size) {
  if (!grow((void**)&of->bytes, &of->byte_room, of->byte_count + size, 1))
    return 0;
  if (size != 0)
    memcpy(of->bytes + of->byte_count, bytes, size);
  of->byte_count += size;
  to->size += size;
  return 1;
}

static void on_response(void* user, const atbus_response* response) {
  waiting* from = user;
  bridge_event* made = add(from->of, BRIDGE_RESPONSE, response->source);
  if (made) {
    made->number = from->number;
    made->code = append(from->of, made, response->bytes, response->size) ? (int32_t)response->code
                                                                         : ATBUS_OUT_OF_MEMORY;
  }
  free(from);
}

static void on_values(void* user, atbus_code code, const char* const* values, size_t count) {
  waiting* from = user;
  bridge_event* made = add(from->of, BRIDGE_VALUES, 0);
  if (made) {
    made->number = from->number;
    made->code = (int32_t)code;
    for (size_t i = 0; i != count; ++i)
      if (!append(from->of, made, values[i], strlen(values[i]) + 1))
        made->code = ATBUS_OUT_OF_MEMORY;
  }
  free(from);
}

static void on_ready(void* user, atbus_code code) {
  waiting* from = user;
  bridge_event* made = add(from->of, BRIDGE_READY, 0);
  if (made) {
    made->number = from->number;
    made->code = (int32_t)code;
  }
  free(from);
}

static void on_request(void* user, atbus_request* request) {
  bridge* of = user;
  bridge_event* made = add(of, BRIDGE_REQUEST, atbus_request_source(request));
  if (!made)
    return;  // it fails
  made->type = atbus_request_type(request);
  made->flag = atbus_request_redelivered(request);
  made->handle = atbus_request_detach(request);
  if (!made->handle)
    --of->event_count;
}

static void on_command(void* user, atbus_command* command) {
  bridge* of = user;
  const char* word;
  bridge_event* made = add(of, BRIDGE_COMMAND, atbus_command_source(command));
  if (!made)
    return;  // it fails
  for (size_t i = 0; (word = atbus_command_word(command, i)) != NULL; ++i)
    if (!append(of, made, word, strlen(word) + 1)) {
      --of->event_count;
      return;
    }
  made->handle = atbus_command_detach(command);
  if (!made->handle)
    --of->event_count;
}

static void on_undelivered(void* user, const atbus_undelivered* what) {
  bridge* of = user;
  bridge_event* made = add(of, BRIDGE_UNDELIVERED, what->destination);
  if (!made)
    return;
  made->type = what->type;
  made->count = what->count;
  made->code = (int32_t)what->outcome;
  made->reason = (int32_t)what->reason;
  (void)append(of, made, what->bytes, what->size);
}

static void on_endpoint(void* user, const atbus_endpoint* node, atbus_endpoint_event event) {
  bridge_event* made = add(user, BRIDGE_ENDPOINT, node->id);
  if (made)
    made->type = (uint32_t)event;
}

static void on_writable(void* user, uint64_t id) {
  (void)add(user, BRIDGE_WRITABLE, id);
}

static void on_log(void* user, const char* line, size_t size) {
  bridge_event* made = add(user, BRIDGE_LOG, 0);
  if (made)
    (void)append(user, made, line, size);
}

// The node ends behind the message that has taken the last room, and where there is no memory for one.
static void queue_message(void* user, const atbus_message* message) {
  bridge* of = user;
  const size_t cost = sizeof(bridge_event) + message->size;
  bridge_event* made = add(of, BRIDGE_MESSAGE, message->source);
  if (made && append(of, made, message->bytes, message->size)) {
    made->type = message->type;
    made->flag = message->redelivered;
    if (cost < of->room) {
      of->room -= cost;
      return;
    }
  } else if (made) {
    --of->event_count;
  }
  of->has_no_room = 1;
  atbus_node_close(of->node);
}

static void on_direct_message(void* user, const atbus_message* message) {
  bridge* of = user;
  if (of->direct)
    goMessage(of->direct, (atbus_message*)message);
  else  // the handler has ended itself: the rest of this poll is for Receive
    queue_message(user, message);
}

atbus_code bridge_new(uint64_t id, const atbus_node_options* options, bridge** made) {
  atbus_code code;
  bridge* of = calloc(1, sizeof *of);
  *made = NULL;
  if (!of)
    return ATBUS_OUT_OF_MEMORY;
  of->room = SIZE_MAX;
  of->wakeup = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  code = of->wakeup < 0 ? ATBUS_SYSTEM_ERROR : atbus_node_new(id, options, &of->node);
  if (code != ATBUS_OK) {
    bridge_free(of);
    return code;
  }
  atbus_node_on_undelivered(of->node, on_undelivered, of);
  atbus_node_on_endpoint(of->node, on_endpoint, of);
  atbus_node_on_writable(of->node, on_writable, of);
  atbus_node_on_log(of->node, on_log, of);
  *made = of;
  return ATBUS_OK;
}

static void give(bridge* of, bridge_batch* batch) {
  batch->events = of->events;
  batch->event_count = of->event_count;
  batch->event_bytes = of->bytes;
}

void bridge_close(bridge* of, bridge_batch* batch) {
  memset(batch, 0, sizeof *batch);
  atbus_node_close(of->node);
  give(of, batch);
}

void bridge_free(bridge* of) {
  atbus_node_free(of->node);
  if (of->wakeup >= 0)
    close(of->wakeup);
  free(of->events);
  free(of->bytes);
  free(of);
}

atbus_node* bridge_node(bridge* of) {
  return of->node;
}

atbus_code bridge_send(bridge* of, uint64_t to, const void* records, size_t size, size_t* used) {
  const unsigned char* at = records;
  *used = 0;
  while (*used < size) {
    bridge_record record;
    const unsigned char* bytes = at + *used + sizeof record;
    atbus_code code;
    memcpy(&record, at + *used, sizeof record);
    code = record.required ? atbus_node_send_required(of->node, to, record.type, bytes, record.size)
                           : atbus_node_send(of->node, to, record.type, bytes, record.size);
    if (code != ATBUS_OK)
      return code;
    *used += sizeof record + ((record.size + 7) & ~(size_t)7);
  }
  return ATBUS_OK;
}

atbus_code bridge_turn(bridge* of, size_t messages, int pause, bridge_batch* batch) {
  atbus_code code;
  const void* bytes = NULL;
  memset(batch, 0, sizeof *batch);
  if (pause)
    code = atbus_node_flush(of->node);
  else if (of->direct)
    code = atbus_node_poll(of->node, messages, 0, NULL);
  else
    code = atbus_node_receive(of->node, messages, &batch->messages, &batch->message_count, &bytes,
                              &batch->message_size);
  batch->message_bytes = bytes;
  give(of, batch);
  return code;
}

void bridge_read(bridge* of) {
  of->event_count = of->byte_count = 0;
}

static int timeout_ms(int64_t ns) {
  if (ns < 0)
    return -1;
  return ns > INT64_C(3600000000000) ? 3600000 : (int)((ns + 999999) / 1000000);
}

void bridge_sleep(bridge* of, int pause, int64_t timeout_ns) {
  struct pollfd watched[2] = {{of->wakeup, POLLIN, 0}, {-1, POLLIN, 0}};
  uint64_t count;
  if (!pause) {
    int64_t longest;
    if (!atbus_node_prepare_sleep(of->node))
      goto over;
    longest = atbus_node_longest_sleep(of->node);
    if (longest >= 0 && (timeout_ns < 0 || longest < timeout_ns))
      timeout_ns = longest;
    watched[1].fd = atbus_node_descriptor(of->node);
  }
  (void)poll(watched, 2, timeout_ms(timeout_ns));
  if (!pause)
    atbus_node_finish_sleep(of->node);
over:
  if (read(of->wakeup, &count, sizeof count) < 0 && errno != EAGAIN)
    return;
}

void bridge_wake(bridge* of) {
  const uint64_t one = 1;
  // Fails only when it is awake anyway.
  if (write(of->wakeup, &one, sizeof one) < 0)
    return;
}

atbus_code bridge_direct(bridge* of, uintptr_t go) {
  atbus_code code = go ? atbus_node_on_message(of->node, on_direct_message, of) : ATBUS_OK;
  if (code == ATBUS_OK)
    of->direct = go;  // 0: the next turn receives in batches
  return code;
}

static waiting* wait_for(bridge* of, uint64_t number) {
  waiting* made = malloc(sizeof *made);
  if (made) {
    made->of = of;
    made->number = number;
  }
  return made;
}

atbus_code bridge_request(bridge* of, uint64_t number, uint64_t to, uint32_t type,
                          const void* bytes, size_t size, int64_t timeout_ns,
                          atbus_request_handle* handle) {
  waiting* user = wait_for(of, number);
  atbus_code code = ATBUS_OUT_OF_MEMORY;
  if (user)
    code =
        atbus_node_request(of->node, to, type, bytes, size, timeout_ns, on_response, user, handle);
  if (code != ATBUS_OK)
    free(user);
  return code;
}

atbus_code bridge_command(bridge* of, uint64_t number, uint64_t to, char** words, size_t count,
                          int64_t timeout_ns) {
  waiting* user = wait_for(of, number);
  atbus_code code = ATBUS_OUT_OF_MEMORY;
  if (user)
    code = atbus_node_command(of->node, to, (const char* const*)words, count, timeout_ns, on_values,
                              user);
  if (code != ATBUS_OK)
    free(user);
  return code;
}

atbus_code bridge_ready(bridge* of, uint64_t number, uint64_t id, int64_t timeout_ns) {
  waiting* user = wait_for(of, number);
  atbus_code code = ATBUS_OUT_OF_MEMORY;
  if (user)
    code = atbus_node_on_ready(of->node, id, timeout_ns, on_ready, user);
  if (code != ATBUS_OK)
    free(user);
  return code;
}

atbus_code bridge_on_request(bridge* of, int any, uint32_t type, int is_set) {
  atbus_request_callback call = is_set ? on_request : NULL;
  return any ? atbus_node_on_any_request(of->node, call, of)
             : atbus_node_on_request(of->node, type, call, of);
}

atbus_code bridge_on_command(bridge* of, const char* name, int is_set) {
  return atbus_node_on_command(of->node, name, is_set ? on_command : NULL, of);
}

static void watch_cancel(bridge* of);

static void on_tick(void* user, atbus_code code) {
  bridge* of = user;
  if (code == ATBUS_CLOSED)
    return;
  if (__atomic_load_n(&of->is_cancelled, __ATOMIC_RELAXED))
    atbus_node_close(of->node);
  else if (code == ATBUS_TIMED_OUT)
    watch_cancel(of);
}

// Nothing from outside can interrupt a shutdown: a wait for a node that never comes looks again and again.
static void watch_cancel(bridge* of) {
  const int64_t often_ns = 10000000;
  (void)atbus_node_on_ready(of->node, UINT64_MAX, often_ns, on_tick, of);
}

atbus_code bridge_shutdown(bridge* of, int64_t timeout_ns, size_t room, bridge_batch* batch) {
  atbus_code code;
  memset(batch, 0, sizeof *batch);
  of->room = room;
  atbus_node_on_message(of->node, of->direct ? on_direct_message : queue_message, of);
  watch_cancel(of);
  code = atbus_node_shutdown(of->node, timeout_ns);
  give(of, batch);
  return of->has_no_room ? ATBUS_OUT_OF_MEMORY : code;
}

void bridge_cancel_shutdown(bridge* of) {
  __atomic_store_n(&of->is_cancelled, 1, __ATOMIC_RELAXED);
}
