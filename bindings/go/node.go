// Package atbus lets programs in Go use nodes of atbus: shared memory, Unix sockets and TCP between processes.
//
// All functions of a Node may be called by any goroutine. What waits takes a context. One goroutine of each node, locked
// to a thread, calls the C library; Close ends it.
package atbus

// #cgo LDFLAGS: -latbus_c
// #include <sched.h>
// #include "bridge.h"
import "C"

import (
	"context"
	"runtime"
	"runtime/cgo"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Node is one participant of the bus. Make one with NewNode, and end it with Close or Shutdown.
type Node struct {
	id      uint64
	options Options
	over    chan struct{}   // closed once the node has ended
	living  context.Context // of handlers; done once the node has ended
	end     context.CancelFunc

	mutex       sync.Mutex // of what follows
	bridge      *C.bridge  // nil once the node has ended
	closing     bool
	sleeping    bool
	tasks       []func()
	lanes       map[uint64]*lane
	lanesMost   int     // then those that have nothing to send are forgotten
	last        *lane   // that was sent to last
	ready       []*lane // with messages to send
	spare       [][]byte
	waiting     map[uint64]chan answer // requests and the like without an outcome
	number      uint64                 // of the newest of these
	owesAnswers bool                   // to requests, for which there was no room
	shutdowns   int                    // that wait for outcomes

	inbox    inbox
	handlers handlers
	events   events
	direct   atomic.Value // a func(Message): of HandleMessages
	self     cgo.Handle
	thread   int64 // of the goroutine of the node; 0 once it has ended

	// Of the goroutine of the node.
	blocked  map[uint64]*lane
	debts    debts
	requests map[uint64]*C.atbus_request
	commands map[uint64]*C.atbus_command
	handles  map[uint64]C.atbus_request_handle

	turnsBlocked int // since the node has slept, while messages had no room
}

// NewNode makes a node and starts its goroutine; id 0 makes a client.
func NewNode(id uint64, options Options) (*Node, error) {
	if err := options.setDefaults(); err != nil {
		return nil, err
	}
	n := &Node{
		id: id, options: options,
		over:  make(chan struct{}),
		lanes: map[uint64]*lane{}, lanesMost: fewLanes,
		waiting:  map[uint64]chan answer{},
		blocked:  map[uint64]*lane{},
		requests: map[uint64]*C.atbus_request{},
		commands: map[uint64]*C.atbus_command{},
		handles:  map[uint64]C.atbus_request_handle{},
	}
	n.debts.queues = map[uint64]*debtQueue{}
	n.inbox.arrived = make(chan struct{}, 1)
	n.living, n.end = context.WithCancel(context.Background())
	started := make(chan error)
	go n.run(started)
	if err := <-started; err != nil {
		n.end()
		return nil, err
	}
	return n, nil
}

func (n *Node) run(started chan<- error) {
	runtime.LockOSThread() // a handle of C belongs to the thread that made it
	defer runtime.UnlockOSThread()
	atomic.StoreInt64(&n.thread, int64(syscall.Gettid()))
	if err := n.open(); err != nil {
		started <- err
		return
	}
	started <- nil
	for n.turn() {
		n.sleep()
	}
	n.finish()
}

func (n *Node) open() error {
	var all texts
	defer all.free()
	options := n.options.toC(&all)
	if all.err != nil {
		return all.err
	}
	if err := errorOf(C.bridge_new(C.uint64_t(n.id), &options, &n.bridge)); err != nil {
		return err
	}
	n.self = cgo.NewHandle(n)
	return nil
}

// One turn of the loop: does what other goroutines have asked for, sends, receives. False: the node is to end.
func (n *Node) turn() bool {
	tasks, ready, closing := n.takeWork()
	for _, task := range tasks {
		task()
	}
	n.sendAll(ready)
	n.answerAgain()
	if closing {
		return false
	}
	var batch C.bridge_batch
	messages, pause := n.room()
	code := C.bridge_turn(n.bridge, C.size_t(messages), flag(pause), &batch)
	if batch.message_count != 0 {
		n.inbox.add(&batch)
	}
	n.takeEvents(&batch)
	return code != C.ATBUS_CLOSED
}

func (n *Node) takeWork() (tasks []func(), ready []*lane, closing bool) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	tasks, ready = n.tasks, n.ready
	n.tasks, n.ready = nil, nil
	return tasks, ready, n.closing
}

const (
	oneByOne = time.Millisecond      // between messages of a node that is full and waits for something
	retry    = 10 * time.Millisecond // of what had no room
)

const incomingFactor = 4 // times Options.IncomingBytes: what a node takes that waits for something itself

const turnsBeforeSleep = 100 // a receiver that is busy makes room soon

// How many messages the node may take now (0: as many as it likes), and whether it has to pause. A full node that waits
// for something itself goes on slowly, so that two nodes that send to each other don't wait for ever.
func (n *Node) room() (messages int, pause bool) {
	bytes := n.inbox.bytes()
	switch {
	case bytes < n.options.IncomingBytes:
		return 0, false
	case bytes < incomingFactor*n.options.IncomingBytes && n.waits():
		return 1, false
	}
	return 0, true
}

func (n *Node) waits() bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return len(n.waiting) != 0 || len(n.blocked) != 0 || len(n.debts.queues) != 0 || n.shutdowns != 0
}

func (n *Node) sleep() {
	n.mutex.Lock()
	if n.closing || len(n.tasks) != 0 || len(n.ready) != 0 {
		n.mutex.Unlock()
		return
	}
	if len(n.blocked) != 0 && n.turnsBlocked < turnsBeforeSleep {
		n.turnsBlocked++
		n.retryBlocked()
		n.mutex.Unlock()
		C.sched_yield()
		return
	}
	n.turnsBlocked = 0
	n.sleeping = true
	n.mutex.Unlock()
	longest := time.Duration(-1)
	if len(n.debts.queues) != 0 || len(n.blocked) != 0 {
		longest = retry
	}
	messages, pause := n.room()
	if messages == 1 {
		pause, longest = true, oneByOne // it would not sleep while messages are there
	}
	C.bridge_sleep(n.bridge, flag(pause), C.int64_t(longest))
	n.mutex.Lock()
	n.sleeping = false
	n.retryBlocked()
	n.mutex.Unlock()
}

// Also without an event, because the other node may have gone. The mutex is held.
func (n *Node) retryBlocked() {
	for to, l := range n.blocked {
		n.ready = append(n.ready, l)
		delete(n.blocked, to)
	}
}

// Wakes the goroutine of the node. The mutex is held.
func (n *Node) wake() {
	if n.sleeping {
		n.sleeping = false
		C.bridge_wake(n.bridge)
	}
}

// The end of the goroutine: everything that waits is told.
func (n *Node) finish() {
	n.mutex.Lock()
	n.closing = true
	tasks := n.tasks
	n.tasks = nil
	n.mutex.Unlock()
	for _, task := range tasks {
		task() // what it does fails
	}
	n.emptyLanes()
	var batch C.bridge_batch
	n.handlers.over = true
	n.failRequests()
	C.atbus_node_flush(bridgeNode(n))
	C.bridge_close(n.bridge, &batch)
	n.takeEvents(&batch)
	n.failRequests() // of that batch
	n.mutex.Lock()
	C.bridge_free(n.bridge)
	n.bridge = nil
	n.self.Delete()
	for number, place := range n.waiting {
		delete(n.waiting, number)
		place <- answer{err: ErrClosed}
	}
	n.lanes, n.last, n.ready, n.spare = nil, nil, nil, nil
	n.mutex.Unlock()
	atomic.StoreInt64(&n.thread, 0)
	n.end()
	close(n.over)
}

// What has no answer fails.
func (n *Node) failRequests() {
	for number, request := range n.requests {
		C.atbus_request_free(request)
		delete(n.requests, number)
	}
	for number, command := range n.commands {
		C.atbus_command_free(command)
		delete(n.commands, number)
	}
	n.handlers.queue, n.handlers.size = nil, 0
}

// Calls a function on the goroutine of the node, without waiting for it. False: the node has ended.
func (n *Node) post(task func()) bool {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.closing {
		return false
	}
	n.tasks = append(n.tasks, task)
	n.wake()
	return true
}

// Whether this is a handler of HandleMessages: it runs on the thread of the node, which must not wait for itself.
func (n *Node) isOwn() bool { return int64(syscall.Gettid()) == atomic.LoadInt64(&n.thread) }

// Calls a function on the goroutine of the node, and waits for it.
func (n *Node) do(call func() error) error {
	if n.isOwn() {
		return call()
	}
	done := make(chan error, 1)
	if !n.post(func() { done <- call() }) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-n.over: // perhaps by a handler, in the middle of the call
	}
	select {
	case err := <-done:
		return err
	default:
		return ErrClosed
	}
}

// Close ends the node at once. What Send has accepted goes as far as there is room, and HandleUndelivered is told of
// the rest; what waits gets ErrClosed. It may be
// called again, and by handlers. Messages that have come can still be received.
func (n *Node) Close() error {
	n.mutex.Lock()
	n.closing = true
	if n.bridge != nil {
		C.bridge_cancel_shutdown(n.bridge)
		n.wake()
	}
	n.mutex.Unlock()
	if !n.isOwn() {
		<-n.over
	}
	return nil
}

// Shutdown waits until all messages have an outcome, says goodbye, and ends the node, also if the context is done
// before. Without a deadline it waits for at most five seconds. Meanwhile the node goes on as before, and takes as many
// messages of others as Receive makes room for.
func (n *Node) Shutdown(ctx context.Context) error {
	if n.isOwn() {
		return invalid("a handler of messages can't shut its node down: use Close, or another goroutine")
	}
	until := time.Now().Add(5 * time.Second)
	if deadline, is := ctx.Deadline(); is {
		until = deadline
	}
	ended := make(chan struct{})
	defer close(ended)
	go n.cancelShutdown(ctx, ended)
	n.countShutdown(1)
	defer n.countShutdown(-1)
	var err error
	for over := false; !over && err == nil; {
		if over, err = n.tryShutdown(ctx, until); !over {
			time.Sleep(time.Millisecond)
		}
	}
	n.Close()
	if err != nil && ctx.Err() != nil {
		return doneError(ctx)
	}
	return err
}

func (n *Node) countShutdown(one int) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.shutdowns += one
}

// Shuts the node down if all messages have an outcome or the time is over. False: not yet.
func (n *Node) tryShutdown(ctx context.Context, until time.Time) (over bool, err error) {
	const goodbye = 100 * time.Millisecond // for what comes while C looks once more
	err = n.do(func() error {
		isSent, left := n.isSent(), time.Until(until)
		isSettled := isSent && C.atbus_node_is_settled(bridgeNode(n)) != 0
		if over = isSettled || left <= 0 || ctx.Err() != nil; !over {
			return nil
		}
		switch {
		case !isSettled || left < 0:
			left = 0
		case left > goodbye:
			left = goodbye
		}
		err := n.sayGoodbye(left)
		if err == nil && !isSent {
			err = ErrTimedOut
		}
		return err
	})
	return over, err
}

func (n *Node) sayGoodbye(left time.Duration) error {
	room := incomingFactor*n.options.IncomingBytes - n.inbox.bytes()
	if room < n.options.IncomingBytes {
		room = n.options.IncomingBytes
	}
	var batch C.bridge_batch
	code := C.bridge_shutdown(n.bridge, C.int64_t(left), C.size_t(room), &batch)
	err := errorOf(code)
	if code == C.ATBUS_OUT_OF_MEMORY {
		err = &Error{outOfMemory, "others sent more than there was room for, before the node could say goodbye"}
	}
	n.takeEvents(&batch)
	return err
}

// Ends a shutdown with its context.
func (n *Node) cancelShutdown(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.bridge != nil {
		C.bridge_cancel_shutdown(n.bridge)
	}
}

// Done is closed once the node has ended.
func (n *Node) Done() <-chan struct{} { return n.over }

// ID is the bus id of the node.
func (n *Node) ID() uint64 { return n.id }
