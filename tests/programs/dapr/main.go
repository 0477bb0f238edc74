// A program on the publish and subscribe component of Dapr for topics of Service Bus.
//
// It publishes the messages that its arguments name, and prints a line for each that its subscription is
// given. Whatever begins with "bad" it cannot process. It ends with its input.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/components-contrib/pubsub"
	"github.com/dapr/components-contrib/pubsub/azure/servicebus/topics"
	"github.com/dapr/kit/logger"
)

const topic = "orders"

// Dapr itself writes on the same output.
const given = "given "

func process(_ context.Context, message *pubsub.NewMessage) error {
	fmt.Println(given + string(message.Data))
	if strings.HasPrefix(string(message.Data), "bad") {
		return errors.New("cannot be processed")
	}
	return nil
}

func run(ctx context.Context, texts []string) error {
	bus := topics.NewAzureServiceBusTopics(logger.NewLogger("publishes"))
	properties := map[string]string{
		"connectionString": os.Getenv("SERVICEBUS_CONNECTION_STRING"),
		"consumerID":       "billing",
		"maxDeliveryCount": "3",
	}
	base := metadata.Base{Name: "bus", Properties: properties}
	if err := bus.Init(ctx, pubsub.Metadata{Base: base}); err != nil {
		return err
	}
	defer bus.Close()
	if err := bus.Subscribe(ctx, pubsub.SubscribeRequest{Topic: topic}, process); err != nil {
		return err
	}
	for _, text := range texts {
		request := &pubsub.PublishRequest{Topic: topic, Data: []byte(text)}
		if err := bus.Publish(ctx, request); err != nil {
			return err
		}
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func main() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
