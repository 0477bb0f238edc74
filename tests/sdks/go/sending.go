package main

import (
	"errors"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

const (
	batchBytes = 256 * 1024
	part       = 8 * 1024
	room       = 400
)

func sendOne(e *entity) {
	e.send(text("one"))
	equal(bodies(e.completeAll(e.receiver(nil), 1)), []string{"one"})
}

func sendAList(e *entity) {
	e.sendAll(several(20))
	equal(sorted(bodies(e.completeAll(e.receiver(nil), 20))), numbers(20))
}

func sendABatch(e *entity) {
	batch := must(e.sender().NewMessageBatch(e.ctx, nil))
	for range batchBytes / part {
		check(batch.AddMessage(&sb.Message{Body: make([]byte, part-room)}, nil))
	}
	err := batch.AddMessage(&sb.Message{Body: make([]byte, 2*part)}, nil)
	truth(errors.Is(err, sb.ErrMessageTooLarge), "one message more is refused")
	check(e.sender().SendMessageBatch(e.ctx, batch, nil))
}

func sendTooMuch(e *entity) {
	err := e.sender().SendMessage(e.ctx, &sb.Message{Body: make([]byte, batchBytes+1)}, nil)
	truth(errors.Is(err, sb.ErrMessageTooLarge), "it is refused")
	e.send(&sb.Message{Body: make([]byte, batchBytes-room)})
}

func sendByKey(e *entity) {
	e.send(several(10, func(message *sb.Message) { message.PartitionKey = pointer("key") })...)
	equal(bodies(e.completeAll(e.receiver(nil), 10)), numbers(10))
}

func sendOn(e *entity) {
	e.send(&sb.Message{Body: []byte("on"), ApplicationProperties: map[string]any{"kept": int64(1)}})
	e.send(e.completeAll(e.receiver(nil), 1)[0].Message())
	shown := must(e.receiver(nil).PeekMessages(e.ctx, 1, nil))
	equal(string(shown[0].Body), "on")
	equal(shown[0].ApplicationProperties["kept"], int64(1))
}

func sendTwice(e *entity) {
	for range 2 {
		e.send(&sb.Message{Body: []byte("x"), MessageID: pointer("id"), PartitionKey: pointer("id")})
	}
}

func (e *entity) schedule(messages []*sb.Message, in time.Duration) []int64 {
	found := must(e.sender().ScheduleMessages(e.ctx, messages, time.Now().Add(in), nil))
	equal(len(found), len(messages))
	return found
}

func schedule(e *entity) {
	scheduled := append(e.schedule(several(1), time.Hour), e.schedule(several(3), time.Hour)...)
	shown := map[int64]bool{}
	for _, message := range must(e.receiver(nil).PeekMessages(e.ctx, 10, nil)) {
		equal(message.State, sb.MessageStateScheduled)
		shown[*message.SequenceNumber] = true
	}
	expected := map[int64]bool{}
	for _, number := range scheduled {
		expected[number] = true
	}
	equal(len(expected), 4)
	equal(shown, expected)
}

func scheduleSoon(e *entity) {
	e.schedule(several(2), time.Second)
	e.completeAll(e.receiver(nil), 2)
}

func cancel(e *entity) {
	scheduled := e.schedule(several(3), time.Hour)
	check(e.sender().CancelScheduledMessages(e.ctx, scheduled[:2], nil))
}

func sendWithoutRight(e *entity) {
	sender := must(e.listening().NewSender(e.Entity, nil))
	refused(sender.SendMessage(e.ctx, text("x"), nil), sb.CodeUnauthorizedAccess)
	receiver := must(e.sending().NewReceiverForQueue(e.Entity, nil))
	_, err := receiver.ReceiveMessages(e.ctx, 1, nil)
	refused(err, sb.CodeUnauthorizedAccess)
}
