package atbus

// #include <stdlib.h>
// #include "bridge.h"
import "C"

import (
	"strings"
	"time"
	"unsafe"
)

// Overflow says what to do with a message for which the node has no room.
type Overflow int

// What they mean: atbus_overflow in atbus/atbus.h.
const (
	OverflowWait       Overflow = C.ATBUS_OVERFLOW_WOULD_BLOCK // Send waits, TrySend returns ErrWouldBlock
	OverflowDropNewest Overflow = C.ATBUS_OVERFLOW_DROP_NEWEST
	OverflowDropOldest Overflow = C.ATBUS_OVERFLOW_DROP_OLDEST
	OverflowDisconnect Overflow = C.ATBUS_OVERFLOW_DISCONNECT
)

// Restart says what to do with messages that an earlier incarnation of the receiver may have handled.
type Restart int

// The later incarnation gets them, marked; or they are reported to HandleUndelivered.
const (
	RestartRedeliver Restart = C.ATBUS_RESTART_REDELIVER
	RestartReport    Restart = C.ATBUS_RESTART_REPORT
)

// Options of a node. The zero value of each is its default. What they mean: atbus::node_options in
// atbus/node_options.hpp. The last three are of this package.
type Options struct {
	Token          string   // proven to others
	AcceptedTokens []string // accepted too
	CircuitSecret  string   // of what passes over other nodes

	CertificateChain     string // files
	CertificateKey       string
	CertificateAuthority string
	Access               string // file of access rules
	Directory            string // file with the addresses of nodes

	Parents  []string // where the parent listens
	Children string   // ids of the nodes below: "0x12340000/48"

	AllowUnauthenticated bool
	AllowUnencrypted     bool
	ReportDirectory      string // for the report that `atbus ls` reads; /dev/shm
	NoReports            bool
	NoBuiltInCommands    bool // commands of operators are not answered
	AllowTap             bool // processes of this user may watch what the node receives

	MessageLimit     int // bytes; 64 KiB
	FirstIdleTimeout time.Duration
	PingInterval     time.Duration
	FaultTolerance   int
	Connections      int
	Unconfirmed      int
	Overflow         Overflow
	Restart          Restart
	RetryFirst       time.Duration
	RetryLongest     time.Duration
	MessageDeadline  time.Duration
	WriteDelay       time.Duration
	SendBufferSize   int // bytes that may wait for a node
	SendBufferNumber int
	Sessions         int
	Clients          int // negative: none
	Requests         int // requests to one node that may wait

	OutgoingBytes int // that may wait in this package, for each node; 1 MiB
	IncomingBytes int // of messages that Receive has not taken: then the node pauses. Of requests that wait: more are refused. 16 MiB
	Handlers      int // handlers of requests and commands that run at the same time; 256
}

const (
	defaultMessageLimit  = 64 << 10
	defaultOutgoingBytes = 1 << 20
	defaultIncomingBytes = 16 << 20
	defaultHandlers      = 256
	requestTimeLimit     = 24 * time.Hour // of a context without a deadline
)

// Of what C can't cancel; tests make them shorter.
var (
	commandTimeLimit = time.Minute // of a context without a deadline
	readyStep        = time.Second // of a wait for a node, which begins anew while its context lives
)

func (o *Options) setDefaults() error {
	amounts := []int{o.MessageLimit, o.FaultTolerance, o.Connections, o.Unconfirmed, o.SendBufferSize, o.SendBufferNumber,
		o.Sessions, o.Requests, o.OutgoingBytes, o.IncomingBytes, o.Handlers}
	for _, amount := range amounts {
		if amount < 0 {
			return invalid("an option that is an amount is negative")
		}
	}
	const most = 1<<32 - 2
	if int64(o.FaultTolerance) > most || int64(o.Connections) > most || int64(o.Unconfirmed) > most {
		return invalid("an option that is an amount is too large")
	}
	setDefault(&o.OutgoingBytes, defaultOutgoingBytes)
	setDefault(&o.IncomingBytes, defaultIncomingBytes)
	setDefault(&o.Handlers, defaultHandlers)
	return nil
}

func setDefault(value *int, to int) {
	if *value == 0 {
		*value = to
	}
}

// Texts for C, freed together.
type texts struct {
	made []unsafe.Pointer
	err  error
}

func (t *texts) text(from string) *C.char {
	if from == "" {
		return nil
	}
	return t.word(from)
}

func (t *texts) word(from string) *C.char {
	if strings.IndexByte(from, 0) >= 0 {
		t.err = invalid("a text has a zero byte in it")
	}
	made := C.CString(from)
	t.made = append(t.made, unsafe.Pointer(made))
	return made
}

// An array that ends with NULL; NULL if it is empty.
func (t *texts) array(from []string) **C.char {
	if len(from) == 0 {
		return nil
	}
	made := C.calloc(C.size_t(len(from)+1), C.size_t(unsafe.Sizeof((*C.char)(nil))))
	t.made = append(t.made, made)
	for i, one := range from {
		unsafe.Slice((**C.char)(made), len(from))[i] = t.word(one)
	}
	return (**C.char)(made)
}

func (t *texts) free() {
	for _, one := range t.made {
		C.free(one)
	}
}

func flag(is bool) C.int {
	if is {
		return 1
	}
	return 0
}

func (o *Options) toC(t *texts) C.atbus_node_options {
	var to C.atbus_node_options
	C.atbus_node_options_init(&to)
	to.tokens = t.array(tokensOf(o.Token, o.AcceptedTokens))
	to.circuit_secret = t.text(o.CircuitSecret)
	to.certificate_chain = t.text(o.CertificateChain)
	to.certificate_key = t.text(o.CertificateKey)
	to.certificate_authority = t.text(o.CertificateAuthority)
	to.access = t.text(o.Access)
	to.directory = t.text(o.Directory)
	to.report_directory = t.text(o.ReportDirectory)
	if o.NoReports {
		to.report_directory = t.word("")
	}
	to.no_built_in_commands = flag(o.NoBuiltInCommands)
	to.allow_tap = flag(o.AllowTap)
	to.parents = t.array(o.Parents)
	to.children = t.text(o.Children)
	to.allow_unauthenticated = flag(o.AllowUnauthenticated)
	to.allow_unencrypted = flag(o.AllowUnencrypted)
	to.message_limit = C.uint64_t(o.MessageLimit)
	to.first_idle_timeout_ns = C.int64_t(o.FirstIdleTimeout)
	to.ping_interval_ns = C.int64_t(o.PingInterval)
	to.fault_tolerance = C.uint32_t(o.FaultTolerance)
	to.connections = C.uint32_t(o.Connections)
	to.unconfirmed = C.uint32_t(o.Unconfirmed)
	to.overflow = C.int(o.Overflow)
	to.restart = C.int(o.Restart)
	to.retry_first_ns = C.int64_t(o.RetryFirst)
	to.retry_longest_ns = C.int64_t(o.RetryLongest)
	to.message_deadline_ns = C.int64_t(o.MessageDeadline)
	to.write_delay_ns = C.int64_t(o.WriteDelay)
	to.send_buffer_size = C.uint64_t(o.SendBufferSize)
	to.send_buffer_number = C.uint64_t(o.SendBufferNumber)
	to.sessions = C.uint64_t(o.Sessions)
	to.clients = C.uint64_t(o.Clients)
	if o.Clients < 0 {
		to.clients = C.ATBUS_NONE
	}
	to.requests = C.uint64_t(o.Requests)
	return to
}

func tokensOf(first string, others []string) []string {
	var all []string
	if first != "" {
		all = append(all, first)
	}
	return append(all, others...)
}
