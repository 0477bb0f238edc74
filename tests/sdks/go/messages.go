package main

import (
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func allFields(e *entity) {
	sent := &sb.Message{
		Body: []byte("body"),
		ApplicationProperties: map[string]any{
			"number": 1.5, "whole": int64(7), "truth": true, "text": "x",
			"when": time.UnixMilli(1_700_000_000_000), "bytes": []byte{1},
		},
		ContentType:      pointer("text/plain"),
		CorrelationID:    pointer("c"),
		MessageID:        pointer("m"),
		PartitionKey:     pointer("k"),
		ReplyTo:          pointer("r"),
		ReplyToSessionID: pointer("rs"),
		Subject:          pointer("s"),
		TimeToLive:       pointer(5 * time.Minute),
		To:               pointer("t"),
	}
	e.send(sent)
	equal(e.completeAll(e.receiver(nil), 1)[0].Message(), sent)
}

func annotated(e *entity) {
	value := &sb.AMQPAnnotatedMessage{
		Body:   sb.AMQPAnnotatedMessageBody{Value: map[string]any{"key": []any{int64(1), "two", nil}}},
		Footer: map[any]any{"f": int64(1)},
	}
	sequence := &sb.AMQPAnnotatedMessage{
		Body:               sb.AMQPAnnotatedMessageBody{Sequence: [][]any{{int64(1), int64(2)}, {"three"}}},
		MessageAnnotations: map[any]any{"x-ours": "kept"},
		Properties:         &sb.AMQPAnnotatedMessageProperties{MessageID: "sequence"},
	}
	for _, message := range []*sb.AMQPAnnotatedMessage{value, sequence} {
		check(e.sender().SendAMQPAnnotatedMessage(e.ctx, message, nil))
	}
	for _, message := range e.completeAll(e.receiver(nil), 2) {
		found := message.RawAMQPMessage
		if message.MessageID == "sequence" {
			equal(found.Body.Sequence, sequence.Body.Sequence)
			equal(found.MessageAnnotations["x-ours"], "kept")
			continue
		}
		equal(found.Body.Value, value.Body.Value)
		equal(found.Footer, value.Footer)
	}
}
