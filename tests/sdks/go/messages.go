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

func (e *entity) sendAnnotated(messages ...*sb.AMQPAnnotatedMessage) {
	for _, message := range messages {
		check(e.sender().SendAMQPAnnotatedMessage(e.ctx, message, nil))
	}
}

func bodiesOfKinds(e *entity) {
	value := sb.AMQPAnnotatedMessageBody{Value: map[string]any{"key": []any{int64(1), "two", nil}}}
	sequence := sb.AMQPAnnotatedMessageBody{Sequence: [][]any{{int64(1), int64(2)}, {"three"}}}
	properties := &sb.AMQPAnnotatedMessageProperties{MessageID: "sequence"}
	e.sendAnnotated(
		&sb.AMQPAnnotatedMessage{Body: value},
		&sb.AMQPAnnotatedMessage{Body: sequence, Properties: properties},
	)
	for _, message := range e.completeAll(e.receiver(nil), 2) {
		if message.MessageID == "sequence" {
			equal(message.RawAMQPMessage.Body, sequence)
		} else {
			equal(message.RawAMQPMessage.Body, value)
		}
	}
}

func annotated(e *entity) {
	footer := map[any]any{"f": int64(1)}
	e.sendAnnotated(&sb.AMQPAnnotatedMessage{
		Body:               sb.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("x")}},
		MessageAnnotations: map[any]any{"x-ours": "kept"},
		Footer:             footer,
	})
	found := e.completeAll(e.receiver(nil), 1)[0].RawAMQPMessage
	equal(found.MessageAnnotations["x-ours"], "kept")
	equal(found.Footer, footer)
}
