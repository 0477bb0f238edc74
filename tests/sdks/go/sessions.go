package main

import (
	"errors"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

func session(e *entity) {
	for _, id := range []string{"a", "b"} {
		e.send(several(5, inSession(id))...)
	}
	for _, id := range []string{"a", "b"} {
		found := e.completeAll(e.session(id), 5)
		equal(bodies(found), numbers(5))
		for _, message := range found {
			equal(*message.SessionID, id)
		}
	}
}

func nextSession(e *entity) {
	e.send(several(1, inSession("only"))...)
	receiver := must(e.listening().AcceptNextSessionForQueue(e.ctx, e.Entity, nil))
	equal(receiver.SessionID(), "only")
	e.completeAll(receiver, 1)
}

func heldSession(e *entity) {
	holder := e.session("a")
	_, err := e.trySession("a")
	held(err)
	check(holder.Close(e.ctx))
	equal(e.session("a").SessionID(), "a")
}

// Another receiver holds the session: the SDK has no code of its own for it.
func held(err error) {
	var found *amqp.Error
	truth(errors.As(err, &found), "an error of AMQP")
	equal(found.Condition, amqp.ErrCond("com.microsoft:session-cannot-be-locked"))
}

func sessionState(e *entity) {
	first := e.session("a")
	equal(must(first.GetSessionState(e.ctx, nil)), []byte(nil))
	check(first.SetSessionState(e.ctx, []byte("kept"), nil))
	check(first.Close(e.ctx))
	second := e.session("a")
	equal(must(second.GetSessionState(e.ctx, nil)), []byte("kept"))
	check(second.SetSessionState(e.ctx, nil, nil))
	equal(must(second.GetSessionState(e.ctx, nil)), []byte(nil))
}

func renewSession(e *entity) {
	receiver := e.session("a")
	before := receiver.LockedUntil()
	truth(before.After(time.Now()), "the session is locked")
	time.Sleep(100 * time.Millisecond)
	check(receiver.RenewSessionLock(e.ctx, nil))
	truth(receiver.LockedUntil().After(before), "it is locked for longer")
}

// The SDK accepts a lost session again by itself, and then reports that the message is settled: an
// error is seen only where another receiver holds the session.
func lostSession(e *entity) {
	e.send(several(1, inSession("a"))...)
	receiver := e.session("a")
	message := e.takeOne(receiver)
	// Longer than the lock: the bus extends locks by the time that it is suspended for.
	time.Sleep(8 * time.Second)
	// Of a program of its own: the SDK closes the connection on its way.
	another := &entity{job: e.job, ctx: e.ctx}
	defer another.close()
	other := another.session("a")
	equal(e.completeAll(other, 1)[0].DeliveryCount, uint32(2))
	completed := make(chan error)
	go func() { completed <- receiver.CompleteMessage(e.ctx, message, nil) }()
	for {
		select {
		case err := <-completed:
			held(err)
			return
		case <-time.After(time.Second):
			check(other.RenewSessionLock(e.ctx, nil))
		}
	}
}

func settleInSession(e *entity) {
	e.send(append(several(3, inSession("a")), several(1, inSession("b"))...)...)
	receiver := e.session("a")
	// The SDK does not say in which session.
	shown := []*sb.ReceivedMessage{}
	for _, message := range must(receiver.PeekMessages(e.ctx, 10, nil)) {
		if *message.SessionID == "a" {
			shown = append(shown, message)
		}
	}
	equal(bodies(shown), numbers(3))
	check(receiver.AbandonMessage(e.ctx, e.takeOne(receiver), nil))
	again := e.takeOne(receiver)
	equal(string(again.Body), "0")
	equal(again.DeliveryCount, uint32(2))
	e.complete(receiver, again)
	second := e.takeOne(receiver)
	check(receiver.DeferMessage(e.ctx, second, nil))
	check(receiver.DeadLetterMessage(e.ctx, e.takeOne(receiver), nil))
	e.complete(receiver, must(receiver.ReceiveDeferredMessages(e.ctx, []int64{*second.SequenceNumber}, nil))...)
}
