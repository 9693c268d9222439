package atbus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var names int

// An address of shared memory, which is removed when the test ends.
func address(t testing.TB) string {
	names++
	name := fmt.Sprintf("atbus-go-%d-%d", os.Getpid(), names)
	t.Cleanup(func() { removeSegment(name) })
	return "shm://" + name
}

func removeSegment(name string) {
	for _, kind := range []string{"segment", "bell"} {
		os.Remove("/dev/shm/atbus-" + kind + "." + name)
	}
}

func start(t testing.TB, id uint64, options Options) *Node {
	t.Helper()
	node, err := NewNode(id, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	return node
}

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pair(t testing.TB, options Options) (first, second *Node) {
	t.Helper()
	at := address(t)
	first, second = start(t, 1, options), start(t, 2, options)
	must(t, second.Listen(at))
	must(t, first.Connect(2, at))
	must(t, first.Ready(soon(t), 2))
	must(t, second.Ready(soon(t), 1))
	return first, second
}

func receive(t testing.TB, node *Node, count int) (all []Message) {
	t.Helper()
	for len(all) < count {
		got, err := node.Receive(soon(t))
		must(t, err)
		all = append(all, got...)
	}
	return all
}

func TestMessagesHaveTheirBytesAndTypes(t *testing.T) {
	first, second := pair(t, Options{})
	must(t, first.Send(soon(t), 2, 7, []byte("hello")))
	must(t, first.Send(soon(t), 2, 8, nil))
	got := receive(t, second, 2)
	if got[0].Source != 1 || got[0].Type != 7 || string(got[0].Data) != "hello" || got[0].Redelivered {
		t.Errorf("%+v", got[0])
	}
	if got[1].Type != 8 || len(got[1].Data) != 0 {
		t.Errorf("%+v", got[1])
	}
	if len(got) != 2 {
		t.Error(len(got))
	}
}

func TestMessagesComeInOrderThroughTheChannel(t *testing.T) {
	first, second := pair(t, Options{})
	const count = 20_000
	go func() {
		for i := 0; i < count; i++ {
			first.Send(context.Background(), 2, uint32(i), []byte("x"))
		}
	}()
	messages := second.Messages()
	for i := 0; i < count; i++ {
		select {
		case m := <-messages:
			if m.Type != uint32(i) {
				t.Fatalf("%d in place of %d", m.Type, i)
			}
		case <-soon(t).Done():
			t.Fatal("too late")
		}
	}
	second.Close()
	if _, open := <-messages; open {
		t.Error("the channel is still open")
	}
}

func TestLongMessagesUpToTheLimit(t *testing.T) {
	const limit = 1 << 20
	first, second := pair(t, Options{MessageLimit: limit})
	for _, size := range []int{1, 4095, 65536, limit} {
		data := bytes.Repeat([]byte{byte(size % 251)}, size)
		must(t, first.Send(soon(t), 2, 1, data))
		if got := receive(t, second, 1); !bytes.Equal(got[0].Data, data) {
			t.Errorf("%d bytes came as %d", size, len(got[0].Data))
		}
	}
	err := first.Send(soon(t), 2, 1, make([]byte, limit+1))
	if !errors.Is(err, ErrMessageTooLarge) || !strings.Contains(err.Error(), "limit") {
		t.Error(err)
	}
}

func TestManyGoroutinesSend(t *testing.T) {
	first, second := pair(t, Options{})
	const senders, each = 8, 5000
	var all sync.WaitGroup
	for s := 0; s < senders; s++ {
		all.Add(1)
		go func(s int) {
			defer all.Done()
			for i := 0; i < each; i++ {
				if err := first.Send(context.Background(), 2, uint32(s), []byte(fmt.Sprint(i))); err != nil {
					t.Error(err)
					return
				}
			}
		}(s)
	}
	next := make([]int, senders)
	for _, m := range receive(t, second, senders*each) {
		if string(m.Data) != fmt.Sprint(next[m.Type]) {
			t.Fatalf("sender %d: %s in place of %d", m.Type, m.Data, next[m.Type])
		}
		next[m.Type]++
	}
	all.Wait()
}

func TestAFullReceiverMakesSendersWait(t *testing.T) {
	first, second := pair(t, Options{IncomingBytes: 1 << 16, OutgoingBytes: 1 << 16})
	data := make([]byte, 1000)
	sent := 0
	for ; sent < 1_000_000; sent++ {
		if err := first.TrySend(2, 0, data); err != nil {
			if !errors.Is(err, ErrWouldBlock) {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			if first.TrySend(2, 0, data) != nil {
				break
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := first.Send(ctx, 2, 0, data); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if got := receive(t, second, sent); len(got) != sent {
		t.Errorf("%d of %d", len(got), sent)
	}
	must(t, first.Send(soon(t), 2, 0, data))
}

func TestTwoNodesThatSendToEachOtherGoOn(t *testing.T) {
	first, second := pair(t, Options{IncomingBytes: 1 << 14, OutgoingBytes: 1 << 14})
	const count = 20_000
	go func() { // sends back what it gets, and waits for room while more comes
		for {
			got, err := second.Receive(context.Background())
			if err != nil {
				return
			}
			for _, m := range got {
				second.Send(context.Background(), 1, m.Type, m.Data)
			}
		}
	}()
	go func() {
		for i := 0; i < count; i++ {
			first.Send(context.Background(), 2, 0, make([]byte, 100))
		}
	}()
	receive(t, first, count)
}

func TestWithoutARouteAnErrorSaysSo(t *testing.T) {
	node := start(t, 1, Options{})
	if err := node.Send(soon(t), 9, 0, []byte("x")); !errors.Is(err, ErrNoRoute) {
		t.Error(err)
	}
}

func TestWhatIsNotDeliveredIsTold(t *testing.T) {
	node := start(t, 1, Options{MessageDeadline: 50 * time.Millisecond})
	told := make(chan Undelivered, 10)
	node.HandleUndelivered(func(u Undelivered) { told <- u })
	must(t, node.Connect(2, "unix:///tmp/atbus-go-nothing"))
	must(t, node.SendRequired(soon(t), 2, 5, []byte("lost")))
	select {
	case u := <-told:
		if u.Destination != 2 || u.Type != 5 || string(u.Data) != "lost" || u.Outcome != NotDelivered {
			t.Errorf("%+v", u)
		}
	case <-soon(t).Done():
		t.Fatal("nothing was told")
	}
}

func TestEndpointsAreTold(t *testing.T) {
	at := address(t)
	first, second := start(t, 1, Options{}), start(t, 2, Options{})
	told := make(chan Event, 10)
	first.HandleEndpoints(func(id uint64, event Event) { told <- event })
	must(t, second.Listen(at))
	must(t, first.Connect(2, at))
	if event := <-told; event != Connected {
		t.Error(event)
	}
	must(t, second.Shutdown(soon(t)))
	if event := <-told; event != Disconnected && event != Away {
		t.Error(event)
	}
}

func TestWrongOptionsAndArgumentsAreErrors(t *testing.T) {
	wrong := []Options{
		{Token: "a\x00b"}, {MessageLimit: -1}, {MessageLimit: 1 << 40}, {Overflow: 9}, {Children: "nonsense"},
		{CertificateChain: "/nothing"}, {Handlers: -1}, {FirstIdleTimeout: -1},
	}
	for _, options := range wrong {
		if node, err := NewNode(1, options); err == nil {
			node.Close()
			t.Errorf("%+v is accepted", options)
		} else if err.Error() == "" {
			t.Error("no reason")
		}
	}
	node := start(t, 1, Options{})
	for _, err := range []error{
		node.Listen("nonsense"), node.Listen(""), node.Listen("shm://a\x00b"), node.Connect(2, "x://y"),
		node.Connect(0, "shm://x"), node.SetPolicy(2, 77, 0), node.Broadcast(0, 65, 0, nil), node.Send(soon(t), 0, 0, nil),
	} {
		var e *Error
		if !errors.As(err, &e) || len(e.Error()) < 10 {
			t.Error(err)
		}
	}
	if _, err := node.Command(soon(t), 2); err == nil {
		t.Error("a command without words")
	}
	if _, err := ParseID("x"); err == nil {
		t.Error("x is no id")
	}
}

func TestNothingWorksOnceItIsClosed(t *testing.T) {
	first, second := pair(t, Options{})
	waiting := make(chan error, 2)
	must(t, second.HandleRequests(1, func(ctx context.Context, _ *Request) ([]byte, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	go func() {
		_, err := first.Request(context.Background(), 2, 1, nil)
		waiting <- err
	}()
	go func() {
		_, err := first.Receive(context.Background())
		waiting <- err
	}()
	for {
		if all, _ := second.Stats(); all.Requests == 1 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	must(t, first.Close())
	must(t, first.Close())
	_, receiveErr := first.Receive(soon(t))
	_, requestErr := first.Request(soon(t), 2, 1, nil)
	_, commandErr := first.Command(soon(t), 2, "x")
	_, statsErr := first.Stats()
	for i, err := range []error{
		<-waiting, <-waiting, receiveErr, requestErr, commandErr, statsErr, first.Send(soon(t), 2, 0, nil),
		first.TrySend(2, 0, nil), first.Listen("shm://x"), first.Connect(2, "shm://x"), first.Disconnect(2),
		first.Ready(soon(t), 2), first.Shutdown(soon(t)), first.HandleRequests(1, nil), first.HandleMessages(nil),
		first.SetTokens("x"), first.Broadcast(0, 0, 0, nil),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	<-first.Done()
}

func TestShutdownWaitsForOutcomes(t *testing.T) {
	first, second := pair(t, Options{})
	const count = 50_000
	for i := 0; i < count; i++ {
		must(t, first.Send(soon(t), 2, 0, []byte("x")))
		if i%1000 == 0 {
			second.Receive(soon(t))
		}
	}
	done := make(chan error, 1)
	go func() { done <- first.Shutdown(soon(t)) }()
	for {
		select {
		case err := <-done:
			must(t, err)
			return
		case <-time.After(time.Millisecond):
			second.inbox.take()
			second.post(func() {})
		}
	}
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	node := start(t, 1, Options{})
	must(t, node.Connect(2, "unix://@atbus-go-there-is-no-node-2"))
	must(t, node.SendRequired(soon(t), 2, 0, []byte("x")))
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	begin := time.Now()
	if err := node.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Fatal("it has gone on for", took)
	}
	<-node.Done()
}

func TestShutdownSaysThatItsTimeIsOver(t *testing.T) {
	node := start(t, 1, Options{})
	must(t, node.Connect(2, "unix://@atbus-go-there-is-no-node-2"))
	must(t, node.SendRequired(soon(t), 2, 0, []byte("x")))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := node.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	<-node.Done()
}

// A node with a message that never has an outcome.
func waitsForAnOutcome(t *testing.T, node *Node) {
	must(t, node.Connect(9, "unix://@atbus-go-there-is-no-node-9"))
	must(t, node.SendRequired(soon(t), 9, 0, []byte("x")))
}

func TestShutdownTakesNoMoreThanThereIsRoomFor(t *testing.T) {
	const room, sent = 1 << 16, 200 << 20
	first, second := pair(t, Options{IncomingBytes: room, OutgoingBytes: room})
	waitsForAnOutcome(t, first)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- first.Shutdown(ctx) }()
	data := make([]byte, 1000)
	for i := 0; i < sent/len(data) && second.Send(ctx, 1, 0, data) == nil; i++ {
	}
	if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	const batch = 4096 * (1000 + 64) // may come before it is counted
	if bytes := first.inbox.bytes(); bytes > 4*room+batch {
		t.Errorf("it has taken %d bytes", bytes)
	}
}

func TestANodeGoesOnWhileItShutsDown(t *testing.T) {
	first, second := pair(t, Options{IncomingBytes: 1000})
	waitsForAnOutcome(t, second)
	must(t, second.HandleRequests(1, func(context.Context, *Request) ([]byte, error) { return []byte("reply"), nil }))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- second.Shutdown(ctx) }()
	for {
		second.mutex.Lock()
		waits := second.shutdowns != 0
		second.mutex.Unlock()
		if waits {
			break
		}
		time.Sleep(time.Millisecond)
	}
	for i := 0; i != 10; i++ {
		must(t, first.Send(soon(t), 2, 0, make([]byte, 900)))
		if reply, err := first.Request(soon(t), 2, 1, nil); err != nil || string(reply) != "reply" {
			t.Fatal(string(reply), err)
		}
		receive(t, second, 1)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

func TestCloseEndsAShutdown(t *testing.T) {
	node := start(t, 1, Options{})
	waitsForAnOutcome(t, node)
	done := make(chan error, 1)
	go func() { done <- node.Shutdown(soon(t)) }()
	time.Sleep(20 * time.Millisecond) // also right if it has not begun
	go node.Close()
	isOver(t, node)
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

// Behind the last message for which it has room, it ends without a goodbye: a successor gets the others.
func TestAGoodbyeLosesNothingThatThereIsNoRoomFor(t *testing.T) {
	const room, count = 10_000, 300
	at := address(t)
	first, second := start(t, 1, Options{IncomingBytes: room}), start(t, 2, Options{})
	must(t, first.Listen(at))
	must(t, second.Connect(1, at))
	must(t, second.Ready(soon(t), 1))
	sent := 0
	send := func() {
		must(t, second.Send(soon(t), 1, uint32(sent), make([]byte, 1000)))
		sent++
	}
	for sent*1000 < room {
		send()
	}
	for first.inbox.bytes() < room { // then it pauses
		time.Sleep(time.Millisecond)
	}
	for sent < count {
		send()
	}
	for !second.isSent() { // the lane has them
		time.Sleep(time.Millisecond)
	}
	err := first.do(func() error { return first.sayGoodbye(10 * time.Second) })
	if code := new(Error); !errors.As(err, &code) || code.Code != outOfMemory {
		t.Fatal(err)
	}
	must(t, first.Close())
	got, _ := first.Receive(soon(t))
	if len(got) == 0 || len(got) == count {
		t.Fatal(len(got))
	}
	again := start(t, 1, Options{})
	must(t, again.Listen(at))
	for i, m := range append(got, receive(t, again, count-len(got))...) {
		if m.Type != uint32(i) {
			t.Fatalf("message %d in place of %d; %d came before the end", m.Type, i, len(got))
		}
	}
}

func isOver(t *testing.T, node *Node) {
	t.Helper()
	select {
	case <-node.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the node goes on")
	}
}

// As the functions of testing do that end a test.
func TestAHandlerOfMessagesThatEndsItsGoroutineEndsTheNode(t *testing.T) {
	first, second := pair(t, Options{})
	asked := make(chan error, 1)
	must(t, second.HandleMessages(func(Message) {
		go func() { _, err := second.Request(soon(t), 1, 1, nil); asked <- err }()
		runtime.Goexit()
	}))
	must(t, first.Send(soon(t), 2, 0, []byte("x")))
	isOver(t, second)
	if err := <-asked; err == nil {
		t.Fatal("a request of a node that has ended has a reply")
	}
	if err := second.Send(soon(t), 1, 0, nil); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	must(t, second.Close())
}

func TestAShutdownEndsWhereAHandlerOfMessagesEndsItsGoroutine(t *testing.T) {
	for i := 0; i < 20; i++ {
		first, second := pair(t, Options{})
		must(t, second.HandleMessages(func(Message) { runtime.Goexit() }))
		// It waits for an outcome that does not come; the message comes meanwhile.
		must(t, second.Connect(3, address(t)))
		must(t, second.SendRequired(soon(t), 3, 0, nil))
		ended := make(chan error, 1)
		go func() { ended <- second.Shutdown(soon(t)) }()
		must(t, first.Send(soon(t), 2, 0, []byte("x")))
		select {
		case err := <-ended:
			if err == nil {
				t.Fatal("its message has no outcome")
			}
		case <-time.After(20 * time.Second):
			t.Fatal("it does not end")
		}
		must(t, first.Close())
	}
}

func TestAHandlerOfEventsMayEndItsGoroutine(t *testing.T) {
	first := start(t, 1, Options{})
	events := make(chan Event, 10)
	first.HandleEndpoints(func(_ uint64, event Event) {
		events <- event
		runtime.Goexit()
	})
	at := address(t)
	second := start(t, 2, Options{})
	must(t, second.Listen(at))
	must(t, first.Connect(2, at))
	must(t, first.Ready(soon(t), 2))
	must(t, first.Disconnect(2))
	for i := 0; i < 2; i++ {
		select {
		case <-events:
		case <-time.After(20 * time.Second):
			t.Fatal("no event", i)
		}
	}
}

func TestHandlersOfMessagesRunOneByOne(t *testing.T) {
	first, second := pair(t, Options{})
	got := make(chan string, 10)
	must(t, second.HandleMessages(func(m Message) {
		if string(m.Data) == "panic" {
			panic("on purpose")
		}
		second.Send(context.Background(), 1, 1, m.Data)
		_, err := second.Request(context.Background(), 1, 1, nil)
		got <- fmt.Sprint(string(m.Data), " ", errors.Is(err, ErrInvalidArgument))
	}))
	lines := make(chan string, 100)
	second.HandleLog(func(line string) { lines <- line })
	for _, text := range []string{"panic", "one", "two"} {
		must(t, first.Send(soon(t), 2, 0, []byte(text)))
	}
	if one, two := <-got, <-got; one != "one true" || two != "two true" {
		t.Error(one, two)
	}
	for !strings.Contains(<-lines, "on purpose") {
	}
	receive(t, first, 2)
	must(t, second.HandleMessages(nil))
	must(t, first.Send(soon(t), 2, 0, []byte("batch")))
	receive(t, second, 1)
	must(t, second.HandleMessages(func(Message) { second.Close() }))
	must(t, first.Send(soon(t), 2, 0, nil))
	<-second.Done()
}

func TestNoGoroutineIsLeft(t *testing.T) {
	before := runtime.NumGoroutine()
	for i := 0; i < 20; i++ {
		t.Run("node", func(t *testing.T) {
			first, second := pair(t, Options{})
			first.Messages()
			must(t, second.HandleRequests(1, func(context.Context, *Request) ([]byte, error) { return nil, nil }))
			_, err := first.Request(soon(t), 2, 1, nil)
			must(t, err)
		})
	}
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines; there were %d", runtime.NumGoroutine(), before)
		}
	}
}

func resident(t *testing.T) (kilobytes int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	must(t, err)
	var all, pages int
	fmt.Sscan(string(text), &all, &pages)
	return pages * os.Getpagesize() / 1024
}

func TestAMillionMessagesLeaveNothingBehind(t *testing.T) {
	first, second := pair(t, Options{})
	exchange := func(count int) {
		go func() {
			for i := 0; i < count; i++ {
				first.Send(context.Background(), 2, 0, make([]byte, 64))
			}
		}()
		for got := 0; got < count; {
			all, err := second.Receive(soon(t))
			must(t, err)
			got += len(all)
		}
		runtime.GC()
	}
	exchange(300_000)
	before := resident(t)
	exchange(1_000_000)
	if grown := resident(t) - before; grown > 32*1024 {
		t.Errorf("grown by %d KiB", grown)
	}
}

func TestWhatASendQueueHoldsAtTheEndIsTold(t *testing.T) {
	ctx := context.Background()
	node, err := NewNode(1, Options{SendBufferSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	var told atomic.Int64
	node.HandleUndelivered(func(what Undelivered) { told.Add(int64(what.Count)) })
	if err := node.Connect(2, address(t)); err != nil { // which is not there
		t.Fatal(err)
	}
	sent := int64(0)
	for ; sent != 500; sent++ {
		if err := node.Send(ctx, 2, 0, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	node.Close()
	for limit := time.Now().Add(10 * time.Second); told.Load() < sent/2 && time.Now().Before(limit); {
		time.Sleep(time.Millisecond)
	}
	// What C had taken ends with the node, without a report.
	if told.Load() < sent/2 || told.Load() > sent {
		t.Fatalf("%d of %d", told.Load(), sent)
	}
}

func TestOfStatesThatWaitTheNewestIsTold(t *testing.T) {
	const nodes, changes = 10, 1000
	node := start(t, 1, Options{IncomingBytes: 10000})
	release := make(chan struct{})
	told, newest := 0, map[uint64]Event{}
	over := make(chan struct{})
	node.HandleEndpoints(func(id uint64, event Event) {
		<-release
		told++
		newest[id] = event
		if id == nodes+1 {
			close(over)
		}
	})
	for i := 0; i != changes; i++ {
		for id := uint64(1); id <= nodes; id++ {
			event := Connected
			if (i+int(id))%2 == 0 {
				event = Disconnected
			}
			node.tellEndpoint(id, event)
		}
	}
	node.tellEndpoint(nodes+1, Connected)
	close(release)
	<-over
	if told > 200 {
		t.Errorf("%d changes have waited", told)
	}
	for id := uint64(1); id <= nodes; id++ {
		if want := (changes-1+int(id))%2 == 0; (newest[id] == Disconnected) != want {
			t.Errorf("%d: %v", id, newest[id])
		}
	}
}

func TestLanesThatHaveNothingToSendAreForgotten(t *testing.T) {
	const many = 5000
	first, second := pair(t, Options{})
	must(t, first.Send(soon(t), 2, 0, []byte("first")))
	first.mutex.Lock()
	busy := &lane{to: 3, queued: true}
	first.lanes[3] = busy
	for id := uint64(100); id != 100+many; id++ {
		first.lanes[id] = &lane{to: id}
	}
	first.mutex.Unlock()
	must(t, first.Send(soon(t), 1, 0, []byte("to itself")))
	must(t, first.Send(soon(t), 2, 0, []byte("second")))
	for at, message := range receive(t, second, 2) {
		if want := []string{"first", "second"}[at]; string(message.Data) != want {
			t.Error(at, string(message.Data))
		}
	}
	first.mutex.Lock()
	defer first.mutex.Unlock()
	if len(first.lanes) > 3 || first.lanes[3] != busy {
		t.Errorf("%d lanes are left", len(first.lanes))
	}
	delete(first.lanes, 3)
}

func TestReportsThatWaitAreJoined(t *testing.T) {
	const count = 10000
	node := start(t, 1, Options{IncomingBytes: 10000})
	release := make(chan struct{})
	reports, messages := 0, uint64(0)
	over := make(chan struct{})
	node.HandleUndelivered(func(what Undelivered) {
		<-release
		reports++
		if what.Count != 1 && len(what.Data) != 0 {
			t.Error(what)
		}
		if messages += what.Count; messages == count {
			close(over)
		}
	})
	lines := make(chan string, count)
	node.HandleLog(func(line string) { lines <- line })
	for i := 0; i != count; i++ {
		node.tellUndelivered(Undelivered{Destination: uint64(2 + i%2), Data: make([]byte, 900), Count: 1, Outcome: NotDelivered,
			Reason: WouldBlock})
		node.tellLog("a line")
	}
	close(release)
	<-over
	if reports > 20 {
		t.Errorf("%d reports have waited", reports)
	}
	for runs := true; runs; {
		node.events.mutex.Lock()
		runs = node.events.runs
		node.events.mutex.Unlock()
		time.Sleep(time.Millisecond)
	}
	node.tellLog("the last line")
	for line := range lines {
		if strings.Contains(line, "the last line") {
			if !strings.Contains(line, "lines were left out") {
				t.Error(line)
			}
			break
		}
	}
}
