package atbus

// #include "bridge.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The outcome of a request, a command or a wait.
type answer struct {
	data   []byte
	values []string
	err    error
}

// Request is a request of another node.
type Request struct {
	Source      uint64 // 0: a client
	Type        uint32
	Redelivered bool // an earlier incarnation of this node may have handled it
	Data        []byte
}

// RequestHandler answers a request: with a reply, or an error whose text the other node gets. The context is done once
// the node has ended.
type RequestHandler func(ctx context.Context, request *Request) ([]byte, error)

// CommandHandler answers a command: with values, or an error.
type CommandHandler func(ctx context.Context, source uint64, words []string) ([]string, error)

// What answers others: at most a number of goroutines, which live while there is something to do.
type handlers struct {
	mutex    sync.Mutex
	requests map[uint32]RequestHandler
	other    RequestHandler
	commands map[string]CommandHandler

	// Of the goroutine of the node.
	queue   []waitingCall
	size    int // bytes of what waits
	running int
	number  uint64
	over    bool // no handler starts any more
}

// A request or command that waits for a handler, in the memory of C.
type waitingCall struct {
	size  int
	begin func() func() // what runs in a goroutine, and calls handlerOver; nil: nobody wants the answer any more
}

const waitingHandlers = 1 << 16 // requests that wait for a handler

// Request asks node `to` something, and waits for the reply until the context is done.
func (n *Node) Request(ctx context.Context, to uint64, kind uint32, data []byte) ([]byte, error) {
	got, err := n.await(ctx, requestTimeLimit, func(number uint64, limit time.Duration) error {
		var handle C.atbus_request_handle
		err := errorOf(C.bridge_request(n.bridge, C.uint64_t(number), C.uint64_t(to), C.uint32_t(kind), pointerTo(data),
			C.size_t(len(data)), C.int64_t(limit), &handle))
		if err == nil {
			n.handles[number] = handle
		}
		return err
	})
	return got.data, err
}

// Command sends node `to` a command, its name and arguments, and waits for the values of the reply until the context is
// done; for at most a minute if that has no deadline. The other node is not told when a context is done before.
func (n *Node) Command(ctx context.Context, to uint64, words ...string) ([]string, error) {
	got, err := n.await(ctx, commandTimeLimit, func(number uint64, limit time.Duration) error {
		var all texts
		defer all.free()
		array := all.array(words)
		if all.err != nil {
			return all.err
		}
		return errorOf(C.bridge_command(n.bridge, C.uint64_t(number), C.uint64_t(to), array, C.size_t(len(words)),
			C.int64_t(limit)))
	})
	return got.values, err
}

// Ready waits until node `id` is connected.
func (n *Node) Ready(ctx context.Context, id uint64) error {
	for {
		step, cancel := context.WithTimeout(ctx, readyStep)
		_, err := n.await(step, readyStep, func(number uint64, limit time.Duration) error {
			return errorOf(C.bridge_ready(n.bridge, C.uint64_t(number), C.uint64_t(id), C.int64_t(limit)))
		})
		cancel()
		if ctx.Err() != nil && err != nil {
			return doneError(ctx)
		}
		deadline, is := ctx.Deadline()
		if !errors.Is(err, ErrTimedOut) || (is && time.Until(deadline) <= 0) {
			return err
		}
	}
}

// Starts something on the goroutine of the node, and waits for its outcome; for at most `limit` if the context has no
// deadline.
func (n *Node) await(ctx context.Context, limit time.Duration,
	start func(number uint64, limit time.Duration) error) (answer, error) {
	if n.isOwn() {
		return answer{}, invalid("a handler of messages can't wait for an outcome: start a goroutine")
	}
	if ctx.Err() != nil {
		return answer{}, doneError(ctx)
	}
	if deadline, is := ctx.Deadline(); is {
		limit = time.Until(deadline)
	}
	if limit <= 0 {
		return answer{}, ErrTimedOut
	}
	place := make(chan answer, 1)
	number := n.expect(place)
	if !n.post(func() {
		if err := start(number, limit); err != nil {
			n.give(number, answer{err: err})
		}
	}) {
		n.forget(number)
		return answer{}, ErrClosed
	}
	select {
	case got := <-place:
		return got, got.err
	case <-ctx.Done():
		n.forget(number)
		n.post(func() { n.cancel(number) })
		return answer{}, doneError(ctx)
	}
}

func (n *Node) expect(place chan answer) uint64 {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	n.number++
	if !n.closing {
		n.waiting[n.number] = place
	}
	return n.number
}

func (n *Node) forget(number uint64) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.waiting, number)
}

func (n *Node) cancel(number uint64) {
	if handle, is := n.handles[number]; is {
		C.atbus_node_cancel(bridgeNode(n), &handle)
	}
}

func (n *Node) give(number uint64, got answer) {
	delete(n.handles, number)
	n.mutex.Lock()
	place := n.waiting[number]
	delete(n.waiting, number)
	n.mutex.Unlock()
	if place != nil {
		place <- got
	}
}

// HandleRequests sets what answers requests of this type; nil: nothing does. Handlers run in goroutines of their own, at
// most Options.Handlers at the same time. A handler that panics fails its request with the text of the panic.
func (n *Node) HandleRequests(kind uint32, handle RequestHandler) error {
	return n.setRequestHandler(false, kind, handle)
}

// HandleOtherRequests sets what answers requests of all other types.
func (n *Node) HandleOtherRequests(handle RequestHandler) error {
	return n.setRequestHandler(true, 0, handle)
}

func (n *Node) setRequestHandler(any bool, kind uint32, handle RequestHandler) error {
	return n.do(func() error {
		h := &n.handlers
		h.mutex.Lock()
		switch {
		case any:
			h.other = handle
		case handle == nil:
			delete(h.requests, kind)
		default:
			if h.requests == nil {
				h.requests = map[uint32]RequestHandler{}
			}
			h.requests[kind] = handle
		}
		h.mutex.Unlock()
		return errorOf(C.bridge_on_request(n.bridge, flag(any), C.uint32_t(kind), flag(handle != nil)))
	})
}

// Of a batch: a request waits for a handler.
func (n *Node) takeRequest(one *C.bridge_event) {
	handle := (*C.atbus_request)(one.handle)
	source, kind, redelivered := uint64(one.id), uint32(one._type), one.flag != 0
	var size C.size_t
	bytes := C.atbus_request_bytes(handle, &size)
	h := &n.handlers
	h.number++
	number := h.number
	n.requests[number] = handle
	h.mutex.Lock()
	handler := h.requests[kind]
	if handler == nil {
		handler = h.other
	}
	h.mutex.Unlock()
	isWanted := func() bool { return n.isWanted(number) }
	refuse := func(why string) {
		if isWanted() && !n.reply(number, nil, errors.New(why)) {
			n.drop(number)
		}
	}
	n.handle(waitingCall{int(size), func() func() {
		if !isWanted() {
			return nil
		}
		if n.owesTooMuch(source) {
			refuse(tooManyReplies)
			return nil
		}
		request := &Request{source, kind, redelivered, C.GoBytes(bytes, C.int(size))}
		return func() {
			var reply []byte
			err := errEnded
			defer func() {
				n.handlerOver(source, func() debt {
					return debt{len(reply) + int(size), func() bool { return n.reply(number, reply, err) }, isWanted}
				})
			}()
			err = guarded(func() (err error) {
				if handler == nil {
					return fmt.Errorf("the handler was removed")
				}
				reply, err = handler(n.living, request)
				return err
			})
		}
	}}, func() { refuse("too many requests wait for a handler") })
}

const tooManyReplies = "too many replies wait until this node reads"

// Whether the other node still waits for the answer; if not, the request is gone.
func (n *Node) isWanted(number uint64) bool {
	handle := n.requests[number]
	if handle == nil {
		return false
	}
	if C.atbus_request_is_wanted(handle) != 0 {
		return true
	}
	n.drop(number)
	return false
}

// Ends a request without an answer of a handler.
func (n *Node) drop(number uint64) {
	if handle := n.requests[number]; handle != nil {
		C.atbus_request_free(handle)
		delete(n.requests, number)
	}
}

var errEnded = errors.New("the handler has ended its goroutine")

// Calls a handler; its panic is an error.
func guarded(call func() error) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("the handler has panicked: %v", why)
		}
	}()
	return call()
}

// Runs a handler in a goroutine, now or once another one has ended; or refuses it.
func (n *Node) handle(call waitingCall, refuse func()) {
	h := &n.handlers
	if len(h.queue) >= waitingHandlers || (len(h.queue) != 0 && h.size+call.size > n.options.IncomingBytes) {
		refuse() // what has no room for that either ends without a reason
		return
	}
	h.queue = append(h.queue, call)
	h.size += call.size
	n.startHandlers()
}

func (n *Node) startHandlers() {
	h := &n.handlers
	for !h.over && h.running < n.options.Handlers && len(h.queue) != 0 {
		next := h.queue[0]
		h.queue[0] = waitingCall{}
		h.queue = h.queue[1:]
		h.size -= next.size
		if call := next.begin(); call != nil {
			h.running++
			go call()
		}
	}
	if len(h.queue) == 0 {
		h.queue = nil
	}
}

// Of the goroutine of a handler, deferred: also runtime.Goexit ends it.
func (n *Node) handlerOver(to uint64, answer func() debt) {
	n.post(func() {
		n.answer(to, answer())
		n.handlers.running--
		n.startHandlers()
	})
}

// False: there is no room. A reply that is refused becomes a failure.
func (n *Node) reply(number uint64, data []byte, failure error) bool {
	handle := n.requests[number]
	if handle == nil {
		return true
	}
	code := C.atbus_code(C.ATBUS_OK)
	if failure == nil {
		code = C.atbus_request_reply(handle, pointerTo(data), C.size_t(len(data)))
		if code == C.ATBUS_MESSAGE_TOO_LARGE {
			failure = errorOf(code)
		}
	}
	if failure != nil {
		text := []byte(failure.Error())
		if limit := n.messageLimit() / 2; len(text) > limit {
			text = text[:limit]
		}
		code = C.atbus_request_fail(handle, (*C.char)(pointerTo(text)), C.size_t(len(text)))
	}
	if code == C.ATBUS_WOULD_BLOCK {
		return false
	}
	C.atbus_request_free(handle)
	delete(n.requests, number)
	return true
}

// HandleCommands sets what answers commands of this name; "": all others. nil: nothing does.
func (n *Node) HandleCommands(name string, handle CommandHandler) error {
	return n.do(func() error {
		var all texts
		defer all.free()
		word := all.text(name)
		if all.err != nil {
			return all.err
		}
		h := &n.handlers
		h.mutex.Lock()
		if h.commands == nil {
			h.commands = map[string]CommandHandler{}
		}
		h.commands[name] = handle
		h.mutex.Unlock()
		return errorOf(C.bridge_on_command(n.bridge, word, flag(handle != nil)))
	})
}

func (n *Node) takeCommand(one *C.bridge_event, words []string) {
	source, size := uint64(one.id), int(one.size)
	h := &n.handlers
	h.number++
	number := h.number
	n.commands[number] = (*C.atbus_command)(one.handle)
	h.mutex.Lock()
	handler := h.commands[words[0]]
	if handler == nil {
		handler = h.commands[""]
	}
	h.mutex.Unlock()
	call := func() {
		var values []string
		err := errEnded
		defer func() {
			n.handlerOver(source, func() debt {
				bytes := size
				for _, value := range values {
					bytes += len(value)
				}
				return debt{bytes, func() bool { return n.replyCommand(number, values, err) }, func() bool { return true }}
			})
		}()
		err = guarded(func() (err error) {
			if handler == nil {
				return fmt.Errorf("the handler was removed")
			}
			values, err = handler(n.living, source, words)
			return err
		})
	}
	refuse := func(why string) {
		if !n.replyCommand(number, nil, errors.New(why)) {
			C.atbus_command_free(n.commands[number])
			delete(n.commands, number)
		}
	}
	n.handle(waitingCall{size, func() func() {
		if n.owesTooMuch(source) {
			refuse(tooManyReplies)
			return nil
		}
		return call
	}}, func() { refuse("too many commands wait for a handler") })
}

func (n *Node) replyCommand(number uint64, values []string, failure error) bool {
	handle := n.commands[number]
	if handle == nil {
		return true
	}
	var all texts
	defer all.free()
	array := all.array(values)
	if failure == nil {
		failure = all.err
	}
	var code C.atbus_code
	if failure == nil {
		code = C.atbus_command_reply(handle, array, C.size_t(len(values)))
	} else {
		var reason texts
		defer reason.free()
		code = C.atbus_command_fail(handle, reason.array([]string{cut(failure.Error())}), 1)
	}
	if code == C.ATBUS_WOULD_BLOCK {
		return false
	}
	C.atbus_command_free(handle)
	delete(n.commands, number)
	return true
}

// A text without zero bytes.
func cut(text string) string {
	for i := range text {
		if text[i] == 0 {
			return text[:i]
		}
	}
	return text
}
