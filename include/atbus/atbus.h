/**
 * @file
 * The bus for C, and for languages that call C: nodes and channels of libatbus_c.
 *
 * ```c
 * static void on_message(void* node, const atbus_message* m) {
 *   printf("%.*s\n", (int)m->size, (const char*)m->bytes);
 *   atbus_node_stop(node);
 * }
 *
 * atbus_node* node;
 * if (atbus_node_new(1, NULL, &node) != ATBUS_OK)
 *   return fprintf(stderr, "%s\n", atbus_last_error()), 1;
 * atbus_node_on_message(node, on_message, node);
 * atbus_node_connect(node, 2, "shm://echo");
 * atbus_node_send(node, 2, 0, "hello", 5);
 * atbus_node_run(node);
 * atbus_node_free(node);
 * ```
 *
 * What a function does is what the C++ function of the same name does; atbus/node.hpp and its neighbours say more of
 * each than this page.
 *
 * Results: functions that can fail return an atbus_code. atbus_last_error() has the text of what failed last on this
 * thread.
 *
 * Pointers: a handle that is NULL, and a pointer that is NULL where something is needed, is ATBUS_INVALID_ARGUMENT. Bytes
 * may be NULL if their size is 0. Bytes and texts that are passed in are copied before the function returns. What is
 * passed to a callback is valid until the callback returns.
 *
 * Threads: a handle belongs to the thread that made it, or that adopted it last. On any other thread its functions do
 * nothing and return ATBUS_INVALID_ARGUMENT. Other threads send through an atbus_thread_sender.
 *
 * Callbacks: run from atbus_node_poll, _receive, _run and _shutdown, and never inside one another. One exception:
 * atbus_node_close and _free call the pending callbacks of ready, command, request and gather with ATBUS_CLOSED, also
 * within a callback. They may call any function, also atbus_node_free of the node that calls them. They must not throw, nor jump out.
 * A callback that is set within a callback takes the place of the former one when the function that polls returns, at the
 * latest: until then the former one may be called, and what its `user` points to is in use.
 *
 * Times are in nanoseconds.
 *
 * Structs: the ones that have their own size as their first member (options and counters) grow, at their end, and programs
 * go on working with a later library. The others (atbus_message, atbus_undelivered, atbus_endpoint, atbus_response,
 * atbus_request_handle) are closed: they stay as they are as long as the library is libatbus_c.so.0.
 *
 * Fork: in a forked child a node or channel sends and delivers nothing, and its pending callbacks are not called; those of
 * the parent are not affected.
 */
#ifndef ATBUS_ATBUS_H
#define ATBUS_ATBUS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** Marks what the library shows. */
#if defined(__GNUC__)
#define ATBUS_C_API __attribute__((visibility("default")))
#else
#define ATBUS_C_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results ---- */

/** Why something failed. The numbers stay the same; new ones are added at the end. */
typedef enum atbus_code {
  ATBUS_OK = 0,                /**< The operation succeeded. */
  ATBUS_WOULD_BLOCK = 1,       /**< The lane or queue is full; nothing of the message was taken. */
  ATBUS_MESSAGE_TOO_LARGE = 2, /**< The message is longer than the limit. */
  ATBUS_CLOSED = 3,            /**< This end has been closed by this program. */
  ATBUS_USED_AFTER_FORK = 4,   /**< The object was made before a fork and is used in the child. */
  ATBUS_TIMED_OUT = 5,         /**< The time allowed passed before the operation finished. */
  ATBUS_INVALID_ARGUMENT = 6,  /**< An argument is outside what the call allows. */
  ATBUS_INVALID_ADDRESS = 7,   /**< The address can't be understood. */
  ATBUS_INVALID_NAME =
      8, /**< The name is empty, too long, or holds a character that is not allowed. */
  ATBUS_NOT_SUPPORTED = 9,      /**< This machine, build or kind of channel does not offer it. */
  ATBUS_NOT_FOUND = 10,         /**< Nothing exists under that name. */
  ATBUS_RECEIVER_EXISTS = 11,   /**< A living receiver already owns that name. */
  ATBUS_NO_FREE_LANE = 12,      /**< Every lane of the segment belongs to a living sender. */
  ATBUS_NO_SPACE = 13,          /**< Shared memory or the file system has not enough room. */
  ATBUS_NOT_A_SEGMENT = 14,     /**< The file was not made by atbus, or is damaged. */
  ATBUS_VERSION_MISMATCH = 15,  /**< The other side uses another version of layout or protocol. */
  ATBUS_GEOMETRY_MISMATCH = 16, /**< The segment's sizes differ from what was asked for. */
  ATBUS_WRONG_OWNER = 17,       /**< The segment or socket belongs to another user. */
  ATBUS_WRONG_MODE = 18,        /**< The file's permissions let others in, or keep its owner out. */
  ATBUS_RETIRED = 19,           /**< The segment was removed, and carries no more messages. */
  ATBUS_QUARANTINED = 20,       /**< A lane holds values that no correct sender writes. */
  ATBUS_RECEIVER_ALIVE = 21,    /**< The receiver still lives and may yet handle the messages. */
  ATBUS_PEER_CLOSED = 22,       /**< The other side closed the connection or died. */
  ATBUS_OUTCOME_UNKNOWN = 23,   /**< Whether the message was handled can't be found out. */
  ATBUS_NOT_DELIVERED = 24,     /**< The message provably never reached a handler. */
  ATBUS_NO_ROUTE = 25,          /**< No path leads to that bus id. */
  ATBUS_NOT_CONNECTED = 26,     /**< The route is known, but its link is down. */
  ATBUS_HOP_LIMIT = 27,         /**< The message passed through as many nodes as it may. */
  ATBUS_DENIED = 28,            /**< The other side, the system or the access rules refused. */
  ATBUS_SUPERSEDED = 29,        /**< A newer node has this bus id now. */
  ATBUS_OUT_OF_MEMORY = 30,     /**< The system, or a limit, gave no more memory. */
  ATBUS_SYSTEM_ERROR = 31,      /**< A call to the operating system failed. */
  ATBUS_PROTOCOL_ERROR = 32,    /**< The other side sent bytes that no correct peer sends. */
  ATBUS_UNKNOWN_COMMAND = 33,   /**< The node that was asked has no command of that name. */
  ATBUS_COMMAND_FAILED = 34,    /**< The node that was asked could not carry the command out. */
  ATBUS_UNKNOWN_REQUEST =
      35, /**< The node that was asked has no handler for requests of that type. */
  ATBUS_REQUEST_FAILED = 36, /**< The handler of the request failed it, and may have said why. */
  ATBUS_CANCELLED = 37,      /**< The request was cancelled by the node that made it. */
  ATBUS_MALFORMED = 38       /**< The bytes are no value of the type that was expected. */
} atbus_code;

/** The name of a code: "would_block". "unknown" for a number that is none. Any thread; valid for ever. */
ATBUS_C_API const char* atbus_code_name(int code);
/** What a code means and what to do, as a sentence. Any thread; valid for ever. */
ATBUS_C_API const char* atbus_code_text(int code);
/** The text of the last failure on this thread: what is at fault and what to do. Empty if nothing has failed. Valid
 *  until the next failure on this thread. */
ATBUS_C_API const char* atbus_last_error(void);
/** The version of the library: "0.1.0". */
ATBUS_C_API const char* atbus_version(void);
/** Reads a bus id: "7", "0x12340007", "1.2.3.4". Errors: ATBUS_INVALID_ARGUMENT. */
ATBUS_C_API atbus_code atbus_parse_id(const char* text, uint64_t* id);

/* ---- Nodes ---- */

/** A node: one participant of the bus (atbus::node). */
typedef struct atbus_node atbus_node;

/** For options where 0 means the default: none at all, no limit. */
#define ATBUS_NONE UINT32_MAX
/** For times: no limit. */
#define ATBUS_FOR_EVER INT64_MAX

/** What to do with a message for which there is no room (atbus::overflow_policy). */
typedef enum atbus_overflow {
  ATBUS_OVERFLOW_WOULD_BLOCK = 0, /**< Refuses it. */
  ATBUS_OVERFLOW_DROP_NEWEST = 1, /**< Accepts it and reports it as not delivered. */
  ATBUS_OVERFLOW_DROP_OLDEST =
      2, /**< Keeps it, and reports the oldest one that no channel has taken yet. */
  ATBUS_OVERFLOW_DISCONNECT = 3 /**< Breaks the link to that node. */
} atbus_overflow;

/** What to do with messages that an earlier incarnation of the receiver may have handled (atbus::restart_policy). */
typedef enum atbus_restart {
  ATBUS_RESTART_REDELIVER = 0, /**< The later incarnation gets them, marked. */
  ATBUS_RESTART_REPORT = 1     /**< They are reported to the on_undelivered callback. */
} atbus_restart;

/** Options of a node. Begin with atbus_node_options_init. 0 or NULL is the default of atbus::node_options, which says
 *  what each one means. */
typedef struct atbus_node_options {
  size_t size;                   /**< sizeof(atbus_node_options) */
  const char* const* tokens;     /**< the one to prove first, others to accept; ends with NULL */
  const char* circuit_secret;    /**< of what passes over other nodes */
  const char* certificate_chain; /**< file; with the next two: links use certificates */
  const char* certificate_key;   /**< file */
  const char* certificate_authority; /**< file */
  const char* access;                /**< file of access rules */
  const char* directory;             /**< file with the addresses of nodes */
  const char* const* parents;        /**< where the parent listens; ends with NULL */
  const char* children;              /**< ids of the nodes below: "0x12340000/48" */
  int allow_unauthenticated;         /**< TCP without a token */
  int allow_unencrypted;             /**< TCP without encryption, where the address says so */
  uint64_t message_limit;            /**< bytes */
  int64_t
      first_idle_timeout_ns; /**< how long a registration may take, and how long messages wait for a node that was here before */
  int64_t ping_interval_ns;       /**< how often TCP links are pinged */
  uint32_t fault_tolerance;       /**< pings in a row that may stay unanswered */
  uint32_t connections;           /**< links of each listening socket */
  uint32_t unconfirmed;           /**< of these, not registered */
  uint32_t strangers_per_address; /**< of these, of one address; 0: no limit of its own */
  int64_t
      strangers_first_byte_timeout_ns; /**< how long a stranger may say nothing; ATBUS_FOR_EVER: no limit of its own */
  uint64_t strangers_bytes; /**< bytes that a stranger may send; ATBUS_NONE: no limit */
  uint32_t strangers_handshakes_per_second; /**< strangers that may begin; ATBUS_NONE: no limit */
  int overflow;                             /**< an atbus_overflow */
  int restart;                              /**< an atbus_restart */
  int64_t retry_first_ns;                   /**< the first backoff before a node is dialled again */
  int64_t retry_longest_ns;                 /**< the longest backoff */
  int64_t message_deadline_ns;              /**< how long a message may wait; 0: no limit */
  int64_t drain_ns;            /**< how long run goes on after stop; negative: not at all */
  uint64_t send_buffer_size;   /**< bytes that may wait for a node */
  uint64_t send_buffer_number; /**< blocks of a fixed queue; 0: it grows */
  uint64_t sessions;           /**< disconnected nodes that are remembered */
  uint64_t clients;            /**< clients that may be connected; ATBUS_NONE: none */
  uint64_t requests;           /**< requests to one node that may wait */
  const char*
      report_directory;     /**< for the report that `atbus ls` reads; NULL: /dev/shm, "": none */
  int no_built_in_commands; /**< not 0: commands of operators are not answered */
  int allow_tap;            /**< not 0: processes of this user may watch what the node receives */
  int64_t
      write_delay_ns; /**< how long atbus_node_poll leaves sockets alone after it has written to them; up to 10 ms */
} atbus_node_options;

/** Sets all defaults. */
static inline void atbus_node_options_init(atbus_node_options* options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

/** A message that has come (atbus::message). */
typedef struct atbus_message {
  uint64_t source;      /**< the node that sent it */
  uint64_t destination; /**< this node */
  uint32_t type;        /**< the number that was passed to send */
  int redelivered;      /**< not 0: an earlier incarnation of this node may have handled it */
  const void* bytes;    /**< the payload; not NULL */
  size_t size;          /**< in bytes */
} atbus_message;

/** A message that was accepted and not delivered (atbus::undelivered). */
typedef struct atbus_undelivered {
  uint64_t destination; /**< the node it was sent to */
  uint64_t number;      /**< among all messages to that node */
  uint64_t count; /**< of messages that this report covers; with more than one there are no bytes */
  uint32_t type;  /**< the number that was passed to send */
  atbus_code outcome; /**< ATBUS_NOT_DELIVERED or ATBUS_OUTCOME_UNKNOWN */
  atbus_code reason;  /**< why; see atbus::undelivered */
  const void* bytes;  /**< the payload; NULL if there is none, so check `size` before */
  size_t size;        /**< in bytes */
} atbus_undelivered;

/** What has happened to another node (atbus::endpoint_event). */
typedef enum atbus_endpoint_event {
  ATBUS_ENDPOINT_CONNECTED = 0, /**< both have registered */
  ATBUS_ENDPOINT_MOVED = 1,     /**< messages go through another channel now */
  ATBUS_ENDPOINT_AWAY =
      2, /**< its process has ended; messages wait in shared memory for its successor */
  ATBUS_ENDPOINT_DISCONNECTED = 3, /**< no link is left */
  ATBUS_ENDPOINT_REFUSED = 4,      /**< one of the two nodes does not admit the other */
  ATBUS_ENDPOINT_SUPERSEDED = 5    /**< that node has admitted another process with this id */
} atbus_endpoint_event;

/** Another node, as this one sees it (atbus::endpoint). */
typedef struct atbus_endpoint {
  uint64_t id;           /**< its bus id */
  uint64_t incarnation;  /**< 0 before the first connection */
  const char* address;   /**< through which messages go there; empty without a link */
  int64_t round_trip_ns; /**< 0 where no pings are needed */
  int connected;         /**< not 0: messages can go there now */
} atbus_endpoint;

/** The outcome of a request (atbus::response). */
typedef struct atbus_response {
  atbus_code
      code; /**< ATBUS_OK: the bytes are the reply; ATBUS_REQUEST_FAILED: the reason, if there is one */
  uint64_t source;   /**< the node that was asked */
  const void* bytes; /**< of the reply, or of the reason; NULL if there are none */
  size_t size;       /**< in bytes */
} atbus_response;

/** A request of this node, to cancel it. */
typedef struct atbus_request_handle {
  uint64_t words[4]; /**< of the library */
} atbus_request_handle;

/** A request from another node, which has to be answered (atbus::request). */
typedef struct atbus_request atbus_request;
/** A command from another node, which has to be answered (atbus::command). */
typedef struct atbus_command atbus_command;

/** Callbacks. `user` is the pointer that was given with the callback. */
typedef void (*atbus_message_callback)(void* user, const atbus_message* message);
/** Of a message that was not delivered. */
typedef void (*atbus_undelivered_callback)(void* user, const atbus_undelivered* what);
/** Of another node's state. */
typedef void (*atbus_endpoint_callback)(void* user, const atbus_endpoint* node,
                                        atbus_endpoint_event event);
/** Of a node to which there is room again. */
typedef void (*atbus_writable_callback)(void* user, uint64_t id);
/** Of a line for operators, without a newline. */
typedef void (*atbus_log_callback)(void* user, const char* line, size_t size);
/** Of a request from another node. Without an answer or atbus_request_detach it fails. */
typedef void (*atbus_request_callback)(void* user, atbus_request* request);
/** Of a command from another node. Without an answer or atbus_command_detach it fails. */
typedef void (*atbus_command_callback)(void* user, atbus_command* command);
/** Of the outcome of a request. */
typedef void (*atbus_response_callback)(void* user, const atbus_response* response);
/** Of the outcomes of a gather, in the order of the nodes that were asked. */
typedef void (*atbus_gather_callback)(void* user, const atbus_response* responses, size_t count);
/** Of the answer to a command: its values, or the reason; each is a text that ends with a zero byte. */
typedef void (*atbus_reply_callback)(void* user, atbus_code code, const char* const* values,
                                     size_t count);
/** Of the nodes that a broadcast has reached. */
typedef void (*atbus_reached_callback)(void* user, const uint64_t* ids, size_t count);
/** Of a node that is connected (ATBUS_OK), or not in time (ATBUS_TIMED_OUT, ATBUS_CLOSED). */
typedef void (*atbus_ready_callback)(void* user, atbus_code code);

/** Makes a node; `id` 0 makes a client. `options` may be NULL. On failure *node is NULL. Errors: what is wrong with the
 *  options; ATBUS_OUT_OF_MEMORY. */
ATBUS_C_API atbus_code atbus_node_new(uint64_t id, const atbus_node_options* options,
                                      atbus_node** node);
/** Closes the node and frees it; allowed in its own callbacks. NULL does nothing. */
ATBUS_C_API void atbus_node_free(atbus_node* node);
/** The calling thread owns the node from now on, and the requests and commands that the node has handed out. No other
 *  thread may use them at this moment, nor free them. */
ATBUS_C_API atbus_code atbus_node_adopt(atbus_node* node);
/** Ends the node at once; outstanding calls get ATBUS_CLOSED. The handle stays valid, and its functions return
 *  ATBUS_CLOSED. */
ATBUS_C_API atbus_code atbus_node_close(atbus_node* node);
/** Not 0 until the node is closed or has ended. */
ATBUS_C_API int atbus_node_is_open(const atbus_node* node);
/** Its bus id. */
ATBUS_C_API uint64_t atbus_node_id(const atbus_node* node);
/** A random number of this incarnation. */
ATBUS_C_API uint64_t atbus_node_incarnation(const atbus_node* node);
/** The id of the connected parent; 0 without one. */
ATBUS_C_API uint64_t atbus_node_parent(const atbus_node* node);

/** Listens at this address; any number of times. */
ATBUS_C_API atbus_code atbus_node_listen(atbus_node* node, const char* address);
/** Where the node listens: address number `index`, from 0; NULL behind the last one. Valid until the next call. */
ATBUS_C_API const char* atbus_node_address(atbus_node* node, size_t index);
/** Expects node `id` at this address, and dials it. */
ATBUS_C_API atbus_code atbus_node_connect(atbus_node* node, uint64_t id, const char* address);
/** Stops dialling that node and ends the links to it. */
ATBUS_C_API atbus_code atbus_node_disconnect(atbus_node* node, uint64_t id);
/** Sets the policy for messages to that node: an atbus_overflow. `deadline_ns` 0: none. */
ATBUS_C_API atbus_code atbus_node_set_policy(atbus_node* node, uint64_t id, int overflow,
                                             int64_t deadline_ns);
/** Replaces the tokens; the array ends with NULL. */
ATBUS_C_API atbus_code atbus_node_set_tokens(atbus_node* node, const char* const* tokens);

/** Accepts a copy of a message. */
ATBUS_C_API atbus_code atbus_node_send(atbus_node* node, uint64_t to, uint32_t type,
                                       const void* bytes, size_t size);
/** The same; the message waits until it is delivered, also while no route is known. */
ATBUS_C_API atbus_code atbus_node_send_required(atbus_node* node, uint64_t to, uint32_t type,
                                                const void* bytes, size_t size);
/** `size` writable bytes of a message, aligned to 8 bytes, in the channel where possible. NULL: atbus_node_send would
 *  fail, and *code, unless it is NULL, says why. A node has one such place at a time: poll, and each function that
 *  sends, gives it up. */
ATBUS_C_API void* atbus_node_claim(atbus_node* node, uint64_t to, uint32_t type, size_t size,
                                   atbus_code* code);
/** Sends the first `size` bytes of what was claimed. Errors: ATBUS_INVALID_ARGUMENT (more than was claimed, or nothing is
 *  claimed, or it was given up: nothing is sent). */
ATBUS_C_API atbus_code atbus_node_commit(atbus_node* node, size_t size);
/** Sends to all nodes of a range to which there is a route: those whose first `length` bits are those of `prefix`.
 *  `length` 0: all. */
ATBUS_C_API atbus_code atbus_node_broadcast(atbus_node* node, uint64_t prefix, unsigned length,
                                            uint32_t type, const void* bytes, size_t size);
/** The same; after `timeout_ns` the callback is told which nodes got it. It is not called if the node is closed before. */
ATBUS_C_API atbus_code atbus_node_broadcast_confirmed(atbus_node* node, uint64_t prefix,
                                                      unsigned length, uint32_t type,
                                                      const void* bytes, size_t size,
                                                      int64_t timeout_ns,
                                                      atbus_reached_callback reached, void* user);

/** Sends a request. If it is accepted, the callback is called exactly once. *handle, unless it is NULL, is set. */
ATBUS_C_API atbus_code atbus_node_request(atbus_node* node, uint64_t to, uint32_t type,
                                          const void* bytes, size_t size, int64_t timeout_ns,
                                          atbus_response_callback call, void* user,
                                          atbus_request_handle* handle);
/** Ends the wait for a request: its callback gets ATBUS_CANCELLED. Errors: ATBUS_NOT_FOUND (its outcome is known). */
ATBUS_C_API atbus_code atbus_node_cancel(atbus_node* node, const atbus_request_handle* handle);
/** One request to each of `count` nodes; the callback is called once, when `enough` have replied, or all have an outcome,
 *  or the time is over. */
ATBUS_C_API atbus_code atbus_node_gather(atbus_node* node, const uint64_t* to, size_t count,
                                         uint32_t type, const void* bytes, size_t size,
                                         size_t enough, int64_t timeout_ns,
                                         atbus_gather_callback call, void* user);
/** Sends a command: its name and arguments. If it is accepted, the callback is called exactly once: with
 *  ATBUS_OUT_OF_MEMORY and no values if the answer is there, but no memory for a list of its values. */
ATBUS_C_API atbus_code atbus_node_command(atbus_node* node, uint64_t to, const char* const* words,
                                          size_t count, int64_t timeout_ns,
                                          atbus_reply_callback call, void* user);

/** Sets the callback of messages; NULL: none. So do those below. Errors: ATBUS_INVALID_ARGUMENT (messages wait for
 *  atbus_node_receive), ATBUS_CLOSED. */
ATBUS_C_API atbus_code atbus_node_on_message(atbus_node* node, atbus_message_callback call,
                                             void* user);
/** Of requests of this type. */
ATBUS_C_API atbus_code atbus_node_on_request(atbus_node* node, uint32_t type,
                                             atbus_request_callback call, void* user);
/** Of all other requests. */
ATBUS_C_API atbus_code atbus_node_on_any_request(atbus_node* node, atbus_request_callback call,
                                                 void* user);
/** Of commands with this name; NULL: of all others. */
ATBUS_C_API atbus_code atbus_node_on_command(atbus_node* node, const char* name,
                                             atbus_command_callback call, void* user);
/** Of messages that were accepted and not delivered. */
ATBUS_C_API atbus_code atbus_node_on_undelivered(atbus_node* node, atbus_undelivered_callback call,
                                                 void* user);
/** Of other nodes' states. */
ATBUS_C_API atbus_code atbus_node_on_endpoint(atbus_node* node, atbus_endpoint_callback call,
                                              void* user);
/** Of room after ATBUS_WOULD_BLOCK. */
ATBUS_C_API atbus_code atbus_node_on_writable(atbus_node* node, atbus_writable_callback call,
                                              void* user);
/** Of lines for operators. */
ATBUS_C_API atbus_code atbus_node_on_log(atbus_node* node, atbus_log_callback call, void* user);
/** Calls back once: when node `id` is connected, or `timeout_ns` is over (negative: never). */
ATBUS_C_API atbus_code atbus_node_on_ready(atbus_node* node, uint64_t id, int64_t timeout_ns,
                                           atbus_ready_callback call, void* user);

/** Sends, receives and calls back; never blocks. At most `messages` (0: 4,096) are delivered, within `time_ns` (0: no
 *  limit). *delivered, unless it is NULL, says how many were. */
ATBUS_C_API atbus_code atbus_node_poll(atbus_node* node, size_t messages, int64_t time_ns,
                                       size_t* delivered);
/** Polls, and gives what has come as an array in place of calling the callback of messages: one call for many messages,
 *  for languages in which a callback is expensive. At most `messages` (0: 4,096), and never more than 65,536. Their bytes
 *  are copies, one behind the other from *bytes on, *size in all; array and bytes are valid until the next function that
 *  polls. The first call takes the place of atbus_node_on_message; that takes the place of this, and is refused while
 *  messages wait here. What comes while another function polls waits for the next call, which gives it also once the
 *  node is closed; for that memory is allocated, and without any a message is lost and that function returns
 *  ATBUS_OUT_OF_MEMORY. Within a callback of this it gives nothing. Errors: ATBUS_OUT_OF_MEMORY (nothing is lost),
 *  ATBUS_CLOSED, ATBUS_USED_AFTER_FORK (what waits is the parent's). */
ATBUS_C_API atbus_code atbus_node_receive(atbus_node* node, size_t messages,
                                          const atbus_message** array, size_t* count,
                                          const void** bytes, size_t* size);
/** Sleeps until poll has something to do, or `timeout_ns` is over (ATBUS_TIMED_OUT; negative: no limit). */
ATBUS_C_API atbus_code atbus_node_wait(atbus_node* node, int64_t timeout_ns);
/** Polls and waits until atbus_node_stop was called and all messages have an outcome. */
ATBUS_C_API atbus_code atbus_node_run(atbus_node* node);
/** Makes run return. */
ATBUS_C_API atbus_code atbus_node_stop(atbus_node* node);
/** Waits for the outcome of all messages, says goodbye, and ends the node. What others send meanwhile goes to the callback
 *  of messages; once atbus_node_receive was called it waits for that, which gives it also afterwards: call it until it says
 *  ATBUS_CLOSED. With about a MiB there it waits no longer. */
ATBUS_C_API atbus_code atbus_node_shutdown(atbus_node* node, int64_t deadline_ns);
/** Not 0: all messages have an outcome, as far as poll has been told. What must not block waits for this before it calls
 *  shutdown. */
ATBUS_C_API int atbus_node_is_settled(const atbus_node* node);
/** Sends what is queued now, instead of at the next poll. */
ATBUS_C_API atbus_code atbus_node_flush(atbus_node* node);

/** For event loops: watch the descriptor for reading, level-triggered. -1 once the node is closed. Before the loop sleeps
 *  call prepare_sleep: 0, poll instead; 1, sleep at most longest_sleep. Then finish_sleep and poll. */
ATBUS_C_API int atbus_node_descriptor(const atbus_node* node);
/** Not 0: there is nothing to do, and the descriptor tells when there is. */
ATBUS_C_API int atbus_node_prepare_sleep(atbus_node* node);
/** Ends the sleep. */
ATBUS_C_API atbus_code atbus_node_finish_sleep(atbus_node* node);
/** How long a prepared node may sleep; negative: no limit. */
ATBUS_C_API int64_t atbus_node_longest_sleep(const atbus_node* node);

/** Counters of a node (atbus::node_stats says what each one counts). */
typedef struct atbus_node_stats {
  size_t size;              /**< sizeof(atbus_node_stats) */
  uint64_t accepted;        /**< messages accepted by send or commit */
  uint64_t accepted_bytes;  /**< payload bytes of these */
  uint64_t delivered;       /**< messages handed to on_message, commands and replies */
  uint64_t delivered_bytes; /**< payload bytes of these */
  uint64_t redelivered;     /**< messages delivered with the mark `redelivered` */
  uint64_t commands; /**< commands from others: handled, or refused because no handler exists */
  uint64_t replies;  /**< replies to commands of this node */
  uint64_t stray_replies;    /**< replies dropped: too late, or to no command of this node */
  uint64_t requests;         /**< requests that came from others, and from this node itself */
  uint64_t expired_requests; /**< of these, dropped: their deadline had passed */
  uint64_t responses;        /**< responses to requests of this node */
  uint64_t late_responses;   /**< responses dropped: to a request that has its outcome */
  uint64_t malformed;        /**< messages and requests that were no value of their type */
  uint64_t would_block;      /**< sends refused for lack of room */
  uint64_t refused;          /**< sends refused for another reason */
  uint64_t not_delivered;    /**< messages with the outcome not_delivered */
  uint64_t outcome_unknown;  /**< messages with the outcome outcome_unknown */
  uint64_t deadline_drops;   /**< messages reported because their deadline had passed */
  uint64_t overflow_drops;   /**< messages dropped for lack of room */
  uint64_t duplicates;       /**< messages that came again and were dropped */
  uint64_t
      broadcast_drops; /**< broadcasts to this node that were dropped: too long, or passed on without a token */
  uint64_t registrations; /**< links that were registered */
  uint64_t
      registrations_failed; /**< registrations that failed, and TCP links that ended in their TLS handshake */
  uint64_t strangers_silent; /**< closed: they said nothing within first_byte_timeout */
  uint64_t strangers_late;   /**< closed: they did not become known in time */
  uint64_t
      strangers_crowded; /**< closed to make room for others: too many, or too many of one address */
  uint64_t strangers_talkative; /**< closed: they sent more than `bytes` */
  uint64_t strangers_faulty;    /**< closed: they sent bytes that no peer sends */
  uint64_t strangers_delayed;   /**< they waited to begin their handshake */
  uint64_t links_lost;          /**< registered links that were lost */
  uint64_t violations;          /**< links ended because the peer broke the protocol */
  uint64_t dials;               /**< attempts to connect */
  uint64_t relayed;             /**< messages of other nodes that were passed on */
  uint64_t
      relay_drops; /**< messages not passed on: no route, or no room on it. The origin is told of all but broadcasts */
  uint64_t
      access_denied; /**< messages, requests, commands and broadcasts that the access rules refused: this node's own, those that came, and those that were not passed on */
  uint64_t acknowledgements;   /**< acknowledgements sent */
  uint64_t sessions_forgotten; /**< sessions of nodes that were away for too long */
} atbus_node_stats;

/** Fills in the counters; stats->size says how many of them the program knows. */
ATBUS_C_API atbus_code atbus_node_get_stats(const atbus_node* node, atbus_node_stats* stats);
/** Calls back for each node that this one knows; `event` has no meaning there. */
ATBUS_C_API atbus_code atbus_node_endpoints(const atbus_node* node, atbus_endpoint_callback each,
                                            void* user);

/* ---- Requests and commands from other nodes ---- */

/** The node that asks; 0 for a client. */
ATBUS_C_API uint64_t atbus_request_source(const atbus_request* request);
/** The number that was passed to atbus_node_request. */
ATBUS_C_API uint32_t atbus_request_type(const atbus_request* request);
/** Its bytes; *size is set. They are valid as long as the request is. */
ATBUS_C_API const void* atbus_request_bytes(const atbus_request* request, size_t* size);
/** Not 0: an earlier incarnation of this node may have handled it. */
ATBUS_C_API int atbus_request_redelivered(const atbus_request* request);
/** Not 0 while the other node waits for the answer. */
ATBUS_C_API int atbus_request_is_wanted(const atbus_request* request);
/** Sends the reply. After an error, such as ATBUS_WOULD_BLOCK, the request still has to be answered. */
ATBUS_C_API atbus_code atbus_request_reply(atbus_request* request, const void* bytes, size_t size);
/** Answers that it has failed, and why. */
ATBUS_C_API atbus_code atbus_request_fail(atbus_request* request, const char* why, size_t size);
/** In the callback: takes the request out, with a copy of its bytes, to be answered later. The program frees it; NULL:
 *  there is no memory. */
ATBUS_C_API atbus_request* atbus_request_detach(atbus_request* request);
/** Of a detached request. Without an answer it fails. NULL does nothing. Any thread: freed by another one than the node's,
 *  it fails when the node polls next, at the latest when the node ends. */
ATBUS_C_API void atbus_request_free(atbus_request* request);

/** The node that asks; 0 for a client. */
ATBUS_C_API uint64_t atbus_command_source(const atbus_command* command);
/** Word number `index`: 0 is the name; NULL behind the last one. Valid as long as the command is. */
ATBUS_C_API const char* atbus_command_word(const atbus_command* command, size_t index);
/** Sends `count` values as the reply. */
ATBUS_C_API atbus_code atbus_command_reply(atbus_command* command, const char* const* values,
                                           size_t count);
/** Answers that it has failed, with these values as the reason. */
ATBUS_C_API atbus_code atbus_command_fail(atbus_command* command, const char* const* values,
                                          size_t count);
/** As atbus_request_detach. */
ATBUS_C_API atbus_command* atbus_command_detach(atbus_command* command);
/** As atbus_request_free. */
ATBUS_C_API void atbus_command_free(atbus_command* command);

/* ---- Sending from other threads ---- */

/** Sends through a node from another thread (atbus::node_sender). */
typedef struct atbus_thread_sender atbus_thread_sender;

/** Makes one, on the node's thread; the first other thread that uses it owns it. It may outlive the node. */
ATBUS_C_API atbus_code atbus_thread_sender_new(atbus_node* node, atbus_thread_sender** sender);
/** Accepts a copy of a message. Errors: ATBUS_WOULD_BLOCK (wait), ATBUS_CLOSED (the node has ended). */
ATBUS_C_API atbus_code atbus_thread_sender_send(atbus_thread_sender* sender, uint64_t to,
                                                uint32_t type, const void* bytes, size_t size);
/** Sleeps until there is room (ATBUS_OK) or `timeout_ns` is over (negative: no limit). */
ATBUS_C_API atbus_code atbus_thread_sender_wait(atbus_thread_sender* sender, int64_t timeout_ns);
/** NULL does nothing. */
ATBUS_C_API void atbus_thread_sender_free(atbus_thread_sender* sender);

/* ---- Channels: one way, without nodes ---- */

/** The sending end of a channel (atbus::sender). */
typedef struct atbus_sender atbus_sender;
/** The receiving end of a channel (atbus::receiver). */
typedef struct atbus_receiver atbus_receiver;

/** Options of both ends. Begin with atbus_channel_options_init; 0 or NULL is the default of atbus::receiver_options and
 *  atbus::sender_options. The address may have options too. */
typedef struct atbus_channel_options {
  size_t size;                /**< sizeof(atbus_channel_options) */
  const char* secret;         /**< TCP: encrypts it; both ends need the same */
  const char* directory;      /**< of segments */
  uint64_t message_limit;     /**< bytes */
  uint64_t lane_size;         /**< receivers, bytes */
  uint32_t lanes;             /**< receivers */
  uint32_t connections;       /**< receivers at sockets */
  int64_t connect_timeout_ns; /**< senders */
  int64_t linger_ns;          /**< senders; negative: not at all */
  int64_t reconnect_min_ns;   /**< senders; 0: never */
  int64_t reconnect_max_ns;   /**< senders */
} atbus_channel_options;

/** Sets all defaults. */
static inline void atbus_channel_options_init(atbus_channel_options* options) {
  memset(options, 0, sizeof *options);
  options->size = sizeof *options;
}

/** A message of a channel. */
typedef void (*atbus_bytes_callback)(void* user, const void* bytes, size_t size);

/** Opens the sending end. `options` may be NULL. */
ATBUS_C_API atbus_code atbus_sender_open(const char* address, const atbus_channel_options* options,
                                         atbus_sender** sender);
/** Sends a copy of a message. */
ATBUS_C_API atbus_code atbus_sender_send(atbus_sender* sender, const void* bytes, size_t size);
/** `size` writable bytes of a message in the lane or queue itself; NULL as of atbus_node_claim. */
ATBUS_C_API void* atbus_sender_claim(atbus_sender* sender, size_t size, atbus_code* code);
/** As atbus_node_commit. A further claim or send gives a claim up, and so does the end of the channel. */
ATBUS_C_API atbus_code atbus_sender_commit(atbus_sender* sender, size_t size);
/** At sockets: writes what is queued, and waits at most `timeout_ns` (negative: no limit) until all of it is written. */
ATBUS_C_API atbus_code atbus_sender_flush(atbus_sender* sender, int64_t timeout_ns);
/** Sleeps until there is room after ATBUS_WOULD_BLOCK, or `timeout_ns` is over (negative: no limit). */
ATBUS_C_API atbus_code atbus_sender_wait_writable(atbus_sender* sender, int64_t timeout_ns);
/** Hands over what was accepted, as far as the linger allows, and frees it. NULL does nothing. */
ATBUS_C_API void atbus_sender_free(atbus_sender* sender);

/** Opens the receiving end. `options` may be NULL. */
ATBUS_C_API atbus_code atbus_receiver_open(const char* address,
                                           const atbus_channel_options* options,
                                           atbus_receiver** receiver);
/** Opens `shards` receivers (1 to 64) at one address, one for each thread, into that many places at `receivers`
 *  (atbus::receiver::open_shards); after a failure there is NULL in each, unless their number is too high. Each belongs
 *  to the thread that uses it first, which also frees it. Until then any one thread may ask for its address and its
 *  descriptor. */
ATBUS_C_API atbus_code atbus_receiver_open_shards(const char* address, uint32_t shards,
                                                  const atbus_channel_options* options,
                                                  atbus_receiver** receivers);
/** The address for senders. Valid until the next call. */
ATBUS_C_API const char* atbus_receiver_address(atbus_receiver* receiver);
/** Calls back for the messages that wait, at most `messages` (0: 4,096); *delivered, unless it is NULL, says how many. */
ATBUS_C_API atbus_code atbus_receiver_poll(atbus_receiver* receiver, size_t messages,
                                           atbus_bytes_callback each, void* user,
                                           size_t* delivered);
/** Sleeps until a message is there (ATBUS_OK) or `timeout_ns` is over (negative: no limit). */
ATBUS_C_API atbus_code atbus_receiver_wait(atbus_receiver* receiver, int64_t timeout_ns);
/** Event loops: as those of a node. */
ATBUS_C_API int atbus_receiver_descriptor(const atbus_receiver* receiver);
/** As atbus_node_prepare_sleep. */
ATBUS_C_API int atbus_receiver_prepare_sleep(atbus_receiver* receiver);
/** As atbus_node_finish_sleep. */
ATBUS_C_API atbus_code atbus_receiver_finish_sleep(atbus_receiver* receiver);
/** As atbus_node_longest_sleep. */
ATBUS_C_API int64_t atbus_receiver_longest_sleep(const atbus_receiver* receiver);
/** Ends a segment, with what is in it, and frees the receiver if that succeeds. */
ATBUS_C_API atbus_code atbus_receiver_remove(atbus_receiver* receiver);
/** A segment waits for a successor. Allowed in its own callback. NULL does nothing. */
ATBUS_C_API void atbus_receiver_free(atbus_receiver* receiver);

#ifdef __cplusplus
}
#endif

#endif
