// What the Go package calls: the functions of atbus/atbus.h with queues in between, so that one call from Go does the
// work of a batch, and events cost no call to Go.
#ifndef ATBUS_GO_BRIDGE_H
#define ATBUS_GO_BRIDGE_H

#include <atbus/atbus.h>

// Before each message in a buffer of messages to send. The bytes follow; the next record begins at a multiple of 8.
typedef struct bridge_record {
  uint64_t size;
  uint32_t type;
  uint32_t required;  // not 0: atbus_node_send_required
} bridge_record;

enum bridge_kind {
  BRIDGE_RESPONSE = 1,  // number, id, code, bytes
  BRIDGE_VALUES,        // number, code, bytes: texts that each end with a zero byte
  BRIDGE_READY,         // number, code
  BRIDGE_REQUEST,       // id, type, flag: redelivered, handle; the bytes are those of the handle
  BRIDGE_COMMAND,       // id, bytes: words that each end with a zero byte, handle
  BRIDGE_UNDELIVERED,   // id, type, count, code: outcome, reason, bytes
  BRIDGE_ENDPOINT,      // id, type: an atbus_endpoint_event
  BRIDGE_WRITABLE,      // id
  BRIDGE_LOG,           // bytes
  BRIDGE_MESSAGE        // id, type, flag: redelivered, bytes; of atbus_node_shutdown
};

typedef struct bridge_event {
  uint32_t kind;
  uint32_t type;
  uint64_t number;
  uint64_t id;
  uint64_t count;
  int32_t code;
  int32_t reason;
  int32_t flag;
  size_t offset;  // of its bytes in those of the batch
  size_t size;
  void* handle;
} bridge_event;

typedef struct bridge bridge;

// What a turn has brought: the messages are valid until the next turn, the events until bridge_read.
typedef struct bridge_batch {
  const atbus_message* messages;
  size_t message_count;
  const unsigned char* message_bytes;
  size_t message_size;
  const bridge_event* events;
  size_t event_count;
  const unsigned char* event_bytes;
} bridge_batch;

atbus_code bridge_new(uint64_t id, const atbus_node_options* options, bridge** made);
// Ends the node. The events of its end are in the batch. The bridge stays.
void bridge_close(bridge* of, bridge_batch* batch);
void bridge_free(bridge* of);
atbus_node* bridge_node(bridge* of);

// Sends the records; *used says how many bytes of them were sent. If it fails, the record there is at fault.
atbus_code bridge_send(bridge* of, uint64_t to, const void* records, size_t size, size_t* used);
// Polls. `pause` not 0: sends what is queued, and takes no message.
atbus_code bridge_turn(bridge* of, size_t messages, int pause, bridge_batch* batch);
// The events were read: there is room for the next ones.
void bridge_read(bridge* of);
// Sleeps until there is something to do, bridge_wake is called, or the time is over (negative: no limit).
void bridge_sleep(bridge* of, int pause, int64_t timeout_ns);
// Any thread, before bridge_free.
void bridge_wake(bridge* of);

// Messages go one by one to goMessage with this value; 0: in batches again.
atbus_code bridge_direct(bridge* of, uintptr_t go);
atbus_code bridge_request(bridge* of, uint64_t number, uint64_t to, uint32_t type,
                          const void* bytes, size_t size, int64_t timeout_ns,
                          atbus_request_handle* handle);
atbus_code bridge_command(bridge* of, uint64_t number, uint64_t to, char** words, size_t count,
                          int64_t timeout_ns);
atbus_code bridge_ready(bridge* of, uint64_t number, uint64_t id, int64_t timeout_ns);
atbus_code bridge_on_request(bridge* of, int any, uint32_t type, int is_set);
atbus_code bridge_on_command(bridge* of, const char* name, int is_set);
// Takes messages of `room` bytes meanwhile. More end it, and it returns ATBUS_OUT_OF_MEMORY.
atbus_code bridge_shutdown(bridge* of, int64_t timeout_ns, size_t room, bridge_batch* batch);
// Any thread, before bridge_free: a shutdown that has not ended does so.
void bridge_cancel_shutdown(bridge* of);

#endif
