package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"
)

// How long the lock of a message or of a session is lost for sure.
const lost = 6500 * time.Millisecond

// What a call returns: its error's class and reason, and the seconds that it took.
type found struct {
	Class   string  `json:"class"`
	Reason  string  `json:"reason"`
	Seconds float64 `json:"seconds"`
}

// Calls that fail, one for each row of tests/azure_sdk/errors.toml. A function does what comes first, and
// returns the call; only that is timed.
var failures = map[string]func(*entity) func() error{
	"missing_entity":        sendingOne,
	"wrong_key":             sendingOne,
	"no_right":              sendingAsListener,
	"disabled_send":         sendingOne,
	"disabled_receive":      receivingOne,
	"too_large":             sendingTooMuch,
	"queue_full":            sendingOne,
	"lock_lost":             completingTooLate,
	"session_held":          acceptingWhatIsHeld,
	"session_lock_lost":     settingTheStateTooLate,
	"no_session":            acceptingNothing,
	"partition_unavailable": sendingByKey,
}

func fail(e *entity, operation string) *found {
	call := failures[strings.TrimPrefix(operation, "error:")](e)
	began := time.Now()
	err := call()
	took := time.Since(began).Seconds()
	truth(err != nil, "there is an error")
	return &found{fmt.Sprintf("%T", err), reason(err), took}
}

// The code that the SDK gives an error, else the condition of AMQP.
func reason(err error) string {
	var known *sb.Error
	if errors.As(err, &known) {
		return string(known.Code)
	}
	var link *amqp.LinkError
	if errors.As(err, &link) && link.RemoteErr != nil {
		return string(link.RemoteErr.Condition)
	}
	var other *amqp.Error
	if errors.As(err, &other) {
		return string(other.Condition)
	}
	return ""
}

func sending(e *entity, client *sb.Client, message *sb.Message) func() error {
	sender := must(client.NewSender(e.Entity, nil))
	return func() error { return sender.SendMessage(e.ctx, message, nil) }
}

func sendingOne(e *entity) func() error { return sending(e, e.sending(), text("x")) }

func sendingAsListener(e *entity) func() error { return sending(e, e.listening(), text("x")) }

func sendingTooMuch(e *entity) func() error {
	return sending(e, e.sending(), &sb.Message{Body: make([]byte, 2<<20)})
}

func sendingByKey(e *entity) func() error {
	return sending(e, e.sending(), &sb.Message{Body: []byte("x"), PartitionKey: &e.Key})
}

func receivingOne(e *entity) func() error {
	receiver := e.receiver(nil)
	return func() error {
		_, err := receiver.ReceiveMessages(e.ctx, 1, nil)
		return err
	}
}

func completingTooLate(e *entity) func() error {
	e.send(text("x"))
	receiver := e.receiver(nil)
	message := e.take(receiver, 1)[0]
	time.Sleep(lost)
	return func() error { return receiver.CompleteMessage(e.ctx, message, nil) }
}

func acceptingWhatIsHeld(e *entity) func() error {
	e.session("a")
	return func() error {
		_, err := e.trySession("a")
		return err
	}
}

func settingTheStateTooLate(e *entity) func() error {
	session := e.session("a")
	time.Sleep(lost)
	return func() error { return session.SetSessionState(e.ctx, []byte("x"), nil) }
}

func acceptingNothing(e *entity) func() error {
	return func() error {
		_, err := e.listening().AcceptNextSessionForQueue(e.ctx, e.Entity, nil)
		return err
	}
}
