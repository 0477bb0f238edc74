package main

import (
	"context"
	"os"
	"strconv"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// Times the SDK: sends one awaited after the other, or a list of all queues. Prints seconds, as JSON.
func timing(arguments []string) {
	ctx, connectionString := context.Background(), os.Getenv("SERVICEBUS_CONNECTION_STRING")
	if arguments[0] == "list" {
		write(timedList(ctx, connectionString))
		return
	}
	write(timedSends(ctx, connectionString, arguments[1], must(strconv.Atoi(arguments[2]))))
}

func timedSends(ctx context.Context, connectionString, queue string, count int) []float64 {
	client := must(sb.NewClientFromConnectionString(connectionString, nil))
	defer client.Close(ctx)
	sender, body, took := must(client.NewSender(queue, nil)), make([]byte, 256), []float64{}
	// The first send connects.
	check(sender.SendMessage(ctx, &sb.Message{Body: body}, nil))
	for range count {
		began := time.Now()
		check(sender.SendMessage(ctx, &sb.Message{Body: body}, nil))
		took = append(took, time.Since(began).Seconds())
	}
	return took
}

func timedList(ctx context.Context, connectionString string) []float64 {
	client := must(admin.NewClientFromConnectionString(connectionString, nil))
	must(client.GetNamespaceProperties(ctx, nil))
	began, count := time.Now(), 0
	for pager := client.NewListQueuesPager(nil); pager.More(); {
		count += len(must(pager.NextPage(ctx)).Queues)
	}
	return []float64{time.Since(began).Seconds(), float64(count)}
}
