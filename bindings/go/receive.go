package atbus

// #include "bridge.h"
import "C"

import (
	"context"
	"log"
	"runtime/cgo"
	"sync"
	"unsafe"
)

// Message is a message that has come. Messages of one batch share their memory: keep a copy of Data to keep a small one
// for long.
type Message struct {
	Source      uint64
	Type        uint32
	Redelivered bool // an earlier incarnation of this node may have handled it
	Data        []byte
}

// What has come and was not received yet.
type inbox struct {
	mutex    sync.Mutex
	messages []Message
	size     int           // bytes
	arrived  chan struct{} // has a value when there is something new
	pumped   chan Message  // of Messages; nil before
}

const messageCost = int(unsafe.Sizeof(Message{}))

func (i *inbox) bytes() int {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.size
}

// Copies a batch: one piece of memory for all messages.
func (i *inbox) add(batch *C.bridge_batch) {
	count, size := int(batch.message_count), int(batch.message_size)
	bytes := make([]byte, size)
	if size != 0 {
		copy(bytes, unsafe.Slice((*byte)(batch.message_bytes), size))
	}
	first := uintptr(unsafe.Pointer(batch.message_bytes))
	i.mutex.Lock()
	if i.messages == nil {
		i.messages = make([]Message, 0, count)
	}
	for _, from := range unsafe.Slice(batch.messages, count) {
		at := int(uintptr(from.bytes) - first)
		end := at + int(from.size)
		i.messages = append(i.messages,
			Message{uint64(from.source), uint32(from._type), from.redelivered != 0, bytes[at:end:end]})
	}
	i.size += size + count*messageCost
	i.mutex.Unlock()
	i.tell()
}

func (i *inbox) addOne(message Message) {
	i.mutex.Lock()
	i.messages = append(i.messages, message)
	i.size += len(message.Data) + messageCost
	i.mutex.Unlock()
	i.tell()
}

func (i *inbox) putBack(all []Message) {
	i.mutex.Lock()
	i.messages = append(all, i.messages...)
	i.mutex.Unlock()
}

func (i *inbox) tell() {
	select {
	case i.arrived <- struct{}{}:
	default:
	}
}

func (i *inbox) take() ([]Message, int) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	all, size := i.messages, i.size
	i.messages, i.size = nil, 0
	return all, size
}

// Receive waits for messages, and returns all that have come: the fastest way. They count as handled; see
// HandleMessages.
func (n *Node) Receive(ctx context.Context) ([]Message, error) {
	for {
		all, size := n.inbox.take()
		if len(all) != 0 {
			if size >= n.options.IncomingBytes {
				n.post(func() {}) // it has paused
			}
			return all, nil
		}
		if n.isOwn() {
			return nil, invalid("a handler of messages can't wait for messages")
		}
		select {
		case <-n.inbox.arrived:
		case <-ctx.Done():
			return nil, doneError(ctx)
		case <-n.over:
			if all, _ := n.inbox.take(); len(all) != 0 {
				return all, nil
			}
			return nil, ErrClosed
		}
	}
}

// Messages is a channel with the messages one by one, for select; it is closed when the node ends; what has come and was
// not taken by then is for Receive. It costs more than Receive, and takes what Receive would.
func (n *Node) Messages() <-chan Message {
	n.inbox.mutex.Lock()
	defer n.inbox.mutex.Unlock()
	if n.inbox.pumped == nil {
		n.inbox.pumped = make(chan Message, 256)
		go n.pump(n.inbox.pumped)
	}
	return n.inbox.pumped
}

func (n *Node) pump(to chan<- Message) {
	defer close(to)
	for {
		all, err := n.Receive(context.Background())
		if err != nil {
			return
		}
		for at, message := range all {
			select {
			case to <- message:
			case <-n.over:
				n.inbox.putBack(all[at:])
				return
			}
		}
	}
}

// HandleMessages calls a function for each message, on the goroutine of the node, in place of Receive. A message counts as
// handled when the function returns: if the process is killed before, its successor gets it. The function must be quick;
// it may call what does not wait, and Send, which returns ErrWouldBlock there. If it ends its goroutine, as testing.T.Fatal
// does, the node ends. nil ends it.
func (n *Node) HandleMessages(handle func(Message)) error {
	return n.do(func() error {
		n.direct.Store(handle)
		if handle == nil {
			return errorOf(C.bridge_direct(n.bridge, 0))
		}
		return errorOf(C.bridge_direct(n.bridge, C.uintptr_t(n.self)))
	})
}

//export goMessage
func goMessage(self C.uintptr_t, from *C.atbus_message) {
	n := cgo.Handle(self).Value().(*Node)
	over := false
	defer func() {
		if !over {
			n.abandon()
		}
	}()
	defer n.recovered("messages", &over)
	data := []byte{}
	if from.size != 0 {
		data = append(data, unsafe.Slice((*byte)(from.bytes), int(from.size))...)
	}
	if handle := n.direct.Load().(func(Message)); handle != nil {
		handle(Message{uint64(from.source), uint32(from._type), from.redelivered != 0, data})
	}
	over = true
}

// A handler ends the goroutine of the node (runtime.Goexit): nothing of C runs again, so this is the last moment to end the
// node. The message does not count as handled.
func (n *Node) abandon() {
	line := "a handler of messages has ended the goroutine of the node: the node ends"
	if !n.tellLog(line) {
		log.Print("atbus: " + line)
	}
	n.finish()
}
