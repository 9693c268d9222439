package atbus_test

import (
	"context"
	"fmt"
	"os"

	"atbus.dev/go"
)

func Example() {
	ctx, name := context.Background(), fmt.Sprintf("atbus-go-hello-%d", os.Getpid())
	defer os.Remove("/dev/shm/atbus-segment." + name)
	defer os.Remove("/dev/shm/atbus-bell." + name)
	echo, _ := atbus.NewNode(2, atbus.Options{})
	defer echo.Close()
	echo.HandleMessages(func(m atbus.Message) { echo.Send(ctx, m.Source, m.Type, m.Data) })
	echo.Listen("shm://" + name)

	node, err := atbus.NewNode(1, atbus.Options{})
	if err != nil {
		panic(err)
	}
	defer node.Close()
	node.Connect(2, "shm://"+name)
	node.Send(ctx, 2, 0, []byte("hello"))
	messages, err := node.Receive(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(messages[0].Data))
	// Output: hello
}
