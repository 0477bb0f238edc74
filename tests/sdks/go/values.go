package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What a value of AMQP is in a message of azservicebus: its type, and a text.
func valueOf(e *entity) map[string]string {
	ctx, stop := context.WithTimeout(e.ctx, 8*time.Second)
	defer stop()
	messages, err := e.receiver(nil).ReceiveMessages(ctx, 1, nil)
	if errors.Is(err, context.DeadlineExceeded) || (err == nil && len(messages) == 0) {
		return map[string]string{"value": "no message"}
	}
	check(err)
	message := messages[0]
	value, known := message.ApplicationProperties["v"]
	if !known {
		value = message.RawAMQPMessage.Body.Value
	}
	return map[string]string{"value": fmt.Sprintf("%T %v", value, value)}
}
