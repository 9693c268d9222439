package atbus

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// The test program is also the other process of some tests.
func TestMain(m *testing.M) {
	at := os.Getenv("ATBUS_GO_ADDRESS")
	switch os.Getenv("ATBUS_GO_PROCESS") {
	case "":
		os.Exit(m.Run())
	case "log":
		logMessages(at, os.Getenv("ATBUS_GO_LOG"))
	case "count":
		countMessages(at)
	}
}

func otherProcess(t testing.TB, what, at, log string) *exec.Cmd {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), "ATBUS_GO_PROCESS="+what, "ATBUS_GO_ADDRESS="+at, "ATBUS_GO_LOG="+log)
	process.Stderr = os.Stderr
	must(t, process.Start())
	return process
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Writes a line for each message, until "end".
func logMessages(at, path string) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	exitWith(err)
	node, err := NewNode(2, Options{})
	exitWith(err)
	ended := make(chan struct{})
	exitWith(node.HandleMessages(func(m Message) {
		again := ""
		if m.Redelivered {
			again = " again"
		}
		fmt.Fprintf(file, "%s%s\n", m.Data, again)
		if string(m.Data) == "end" {
			close(ended)
		}
	}))
	exitWith(node.Listen(at))
	<-ended
	node.Shutdown(context.Background())
}

func TestAReceiverThatIsKilledLosesNothing(t *testing.T) {
	at, log := address(t), t.TempDir()+"/log"
	node := start(t, 1, Options{})
	must(t, node.Connect(2, at))
	process := otherProcess(t, "log", at, log)
	const count = 20_000
	for i := 0; i < count; i++ {
		must(t, node.Send(soon(t), 2, 0, []byte(fmt.Sprint(i))))
		if i%5000 == 4999 {
			process.Process.Kill()
			process.Wait()
			process = otherProcess(t, "log", at, log)
		}
	}
	must(t, node.Send(soon(t), 2, 0, []byte("end")))
	must(t, process.Wait())
	text, err := os.ReadFile(log)
	must(t, err)
	seen := map[string]bool{}
	for _, line := range strings.Fields(strings.ReplaceAll(string(text), " again", "/again")) {
		number := strings.TrimSuffix(line, "/again")
		if seen[number] && number == line {
			t.Errorf("%s has come twice without a mark", line)
		}
		seen[number] = true
	}
	for i := 0; i < count; i++ {
		if !seen[fmt.Sprint(i)] {
			t.Fatalf("%d is lost", i)
		}
	}
}

// Says how many messages have come in a second, as a number of its own message.
func countMessages(at string) {
	node, err := NewNode(2, Options{})
	exitWith(err)
	exitWith(node.Listen(at))
	var first time.Time
	for got := 0; ; {
		all, err := node.Receive(context.Background())
		exitWith(err)
		if got == 0 {
			first = time.Now()
		}
		got += len(all)
		if last := all[len(all)-1]; last.Type == 1 {
			rate := float64(got) / time.Since(first).Seconds()
			exitWith(node.Send(context.Background(), 1, 0, []byte(fmt.Sprintf("%.0f", rate))))
			node.Shutdown(context.Background())
			return
		}
	}
}

// Two processes over shared memory, 64 bytes. The rate is that of the receiver.
func BenchmarkMessagesBetweenProcesses(b *testing.B) {
	at := address(b)
	process := otherProcess(b, "count", at, "")
	defer process.Wait()
	node := start(b, 1, Options{})
	must(b, node.Connect(2, at))
	must(b, node.Ready(soon(b), 2))
	data, ctx := make([]byte, 64), context.Background()
	b.ResetTimer()
	for i := 0; i < b.N; i++ {
		if err := node.Send(ctx, 2, 0, data); err != nil {
			b.Fatal(err)
		}
	}
	must(b, node.Send(ctx, 2, 1, data))
	var rate float64
	fmt.Sscan(string(receive(b, node, 1)[0].Data), &rate)
	b.StopTimer()
	b.ReportMetric(rate/1e6, "M/s")
}
