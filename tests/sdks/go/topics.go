package main

import "time"

func publish(e *entity) {
	e.sendAll(several(10))
	equal(sorted(bodies(e.completeAll(e.receiver(nil), 10))), numbers(10))
}

func deadLetterOfSubscription(e *entity) {
	e.sendAll(several(2))
	receiver := e.receiver(nil)
	for _, message := range e.take(receiver, 2) {
		check(receiver.DeadLetterMessage(e.ctx, message, why))
	}
	equal(e.completeAll(e.deadLetters(), 1)[0].DeadLetterReason, why.Reason)
}

func deferOnSubscription(e *entity) {
	e.send(text("x"))
	receiver := e.receiver(nil)
	equal(bodies(must(receiver.PeekMessages(e.ctx, 1, nil))), []string{"x"})
	message := e.takeOne(receiver)
	check(receiver.DeferMessage(e.ctx, message, nil))
	e.complete(receiver, must(receiver.ReceiveDeferredMessages(e.ctx, []int64{*message.SequenceNumber}, nil))...)
}

func scheduleOnTopic(e *entity) {
	later := e.schedule(several(2), time.Hour)
	check(e.sender().CancelScheduledMessages(e.ctx, later, nil))
	e.schedule(several(1), time.Second)
	e.completeAll(e.receiver(nil), 1)
}

func sessionsOfSubscription(e *entity) {
	e.send(append(several(3, inSession("a")), several(1, inSession("b"))...)...)
	equal(bodies(e.completeAll(e.session("a"), 3)), numbers(3))
}
