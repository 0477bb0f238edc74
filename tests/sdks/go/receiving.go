package main

import (
	"context"
	"errors"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

func receiveMany(e *entity) {
	e.sendAll(several(100))
	equal(sorted(bodies(e.completeAll(e.receiver(nil), 100))), numbers(100))
}

func receiveAndDelete(e *entity) {
	e.sendAll(several(10))
	found := e.take(e.receiver(&sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete}), 10)
	equal(found[0].LockedUntil, (*time.Time)(nil))
}

func receiveNothing(e *entity) {
	receiver, began := e.receiver(nil), time.Now()
	ctx, stop := context.WithTimeout(e.ctx, time.Second)
	defer stop()
	_, err := receiver.ReceiveMessages(ctx, 1, nil)
	truth(errors.Is(err, context.DeadlineExceeded), "the wait ends")
	truth(time.Since(began) < 10*time.Second, "it ends in time")
	e.send(text("x"))
	e.completeAll(receiver, 1)
}

func peek(e *entity) {
	e.send(several(30)...)
	receiver, found := e.receiver(nil), []*sb.ReceivedMessage{}
	for {
		page := must(receiver.PeekMessages(e.ctx, 7, nil))
		if len(page) == 0 {
			break
		}
		found = append(found, page...)
	}
	equal(sorted(bodies(found)), numbers(30))
}

func complete(e *entity) {
	e.send(text("x"))
	receiver := e.receiver(nil)
	message := e.completeAll(receiver, 1)[0]
	// The SDK drops a second settlement of the same message; by its token alone, the bus decides.
	again := &sb.ReceivedMessage{LockToken: message.LockToken}
	refused(receiver.CompleteMessage(e.ctx, again, nil), sb.CodeLockLost)
}

func abandon(e *entity) {
	e.send(text("x"))
	receiver := e.receiver(nil)
	changed := map[string]any{"changed": int64(1)}
	options := &sb.AbandonMessageOptions{PropertiesToModify: changed}
	check(receiver.AbandonMessage(e.ctx, e.takeOne(receiver), options))
	again := e.completeAll(receiver, 1)[0]
	// Here the first delivery is counted, too.
	equal(again.DeliveryCount, uint32(2))
	equal(again.ApplicationProperties, changed)
}

func abandonOften(e *entity) {
	e.send(text("x"))
	receiver := e.receiver(nil)
	for range 2 {
		check(receiver.AbandonMessage(e.ctx, e.takeOne(receiver), nil))
	}
}

var why = &sb.DeadLetterOptions{Reason: pointer("why"), ErrorDescription: pointer("because")}

func deadLetter(e *entity) {
	e.sendAll(several(2))
	receiver := e.receiver(nil)
	for _, message := range e.take(receiver, 2) {
		check(receiver.DeadLetterMessage(e.ctx, message, why))
	}
	found := e.completeAll(e.deadLetters(), 1)[0]
	equal(found.DeadLetterReason, why.Reason)
	equal(found.DeadLetterErrorDescription, why.ErrorDescription)
}

func deferring(e *entity) {
	e.sendAll(several(3))
	receiver, deferred := e.receiver(nil), []int64{}
	for _, message := range e.take(receiver, 3) {
		check(receiver.DeferMessage(e.ctx, message, nil))
		deferred = append(deferred, *message.SequenceNumber)
	}
	found := must(receiver.ReceiveDeferredMessages(e.ctx, deferred, nil))
	equal(sorted(bodies(found)), numbers(3))
	e.complete(receiver, found...)
}

func renew(e *entity) {
	e.send(text("x"))
	receiver := e.receiver(nil)
	message := e.takeOne(receiver)
	before := *message.LockedUntil
	time.Sleep(100 * time.Millisecond)
	check(receiver.RenewMessageLock(e.ctx, message, nil))
	truth(message.LockedUntil.After(before), "it is locked for longer")
	e.complete(receiver, message)
	refused(receiver.RenewMessageLock(e.ctx, message, nil), sb.CodeLockLost)
}

func completeLate(e *entity) {
	e.send(text("x"))
	receiver := e.receiver(nil)
	message, again := e.takeOne(receiver), e.takeOne(receiver)
	refused(receiver.CompleteMessage(e.ctx, message, nil), sb.CodeLockLost)
	equal(again.DeliveryCount, uint32(2))
	e.complete(receiver, again)
}
